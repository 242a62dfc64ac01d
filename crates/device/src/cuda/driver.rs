//! The driver's functions, resolved whole or not at all; their forms are those of cuda.h.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;

use super::{CudaError, Result};

/// Names of the library's files, without `.so` and version.
pub static STEMS: &[&str] = &["libcuda"];

/// CUresult; 0 is success.
pub(super) type Code = c_int;
/// CUdevice.
pub(super) type DeviceNumber = c_int;
/// CUcontext, CUstream, CUevent, CUmodule, CUfunction.
pub(super) type DriverHandle = *mut c_void;
/// CUdeviceptr.
pub(super) type Address = u64;

/// CUipcMemHandle.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct IpcHandle(pub(super) [u8; 64]);

crate::functions! {
    /// The table.
    pub(super) struct DriverFunctions;
    init = c"cuInit": fn(c_uint) -> Code;
    version = c"cuDriverGetVersion": fn(*mut c_int) -> Code;
    error_name = c"cuGetErrorName": fn(Code, *mut *const c_char) -> Code;
    error_string = c"cuGetErrorString": fn(Code, *mut *const c_char) -> Code;
    device_count = c"cuDeviceGetCount": fn(*mut c_int) -> Code;
    device_get = c"cuDeviceGet": fn(*mut DeviceNumber, c_int) -> Code;
    device_name = c"cuDeviceGetName": fn(*mut c_char, c_int, DeviceNumber) -> Code;
    device_attribute = c"cuDeviceGetAttribute": fn(*mut c_int, c_int, DeviceNumber) -> Code;
    device_uuid = c"cuDeviceGetUuid_v2": fn(*mut Uuid, DeviceNumber) -> Code;
    bus_id = c"cuDeviceGetPCIBusId": fn(*mut c_char, c_int, DeviceNumber) -> Code;
    context_retain = c"cuDevicePrimaryCtxRetain": fn(*mut DriverHandle, DeviceNumber) -> Code;
    context_release = c"cuDevicePrimaryCtxRelease_v2": fn(DeviceNumber) -> Code;
    context_set = c"cuCtxSetCurrent": fn(DriverHandle) -> Code;
    memory_info = c"cuMemGetInfo_v2": fn(*mut usize, *mut usize) -> Code;
    memory_alloc = c"cuMemAlloc_v2": fn(*mut Address, usize) -> Code;
    memory_free = c"cuMemFree_v2": fn(Address) -> Code;
    host_alloc = c"cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint) -> Code;
    host_free = c"cuMemFreeHost": fn(*mut c_void) -> Code;
    host_register = c"cuMemHostRegister_v2": fn(*mut c_void, usize, c_uint) -> Code;
    host_unregister = c"cuMemHostUnregister": fn(*mut c_void) -> Code;
    memory_set = c"cuMemsetD8Async": fn(Address, u8, usize, DriverHandle) -> Code;
    copy_in = c"cuMemcpyHtoDAsync_v2": fn(Address, *const c_void, usize, DriverHandle) -> Code;
    copy_out = c"cuMemcpyDtoHAsync_v2": fn(*mut c_void, Address, usize, DriverHandle) -> Code;
    copy_within = c"cuMemcpyDtoDAsync_v2": fn(Address, Address, usize, DriverHandle) -> Code;
    ipc_get = c"cuIpcGetMemHandle": fn(*mut IpcHandle, Address) -> Code;
    ipc_open = c"cuIpcOpenMemHandle_v2": fn(*mut Address, IpcHandle, c_uint) -> Code;
    ipc_close = c"cuIpcCloseMemHandle": fn(Address) -> Code;
    stream_create = c"cuStreamCreate": fn(*mut DriverHandle, c_uint) -> Code;
    stream_destroy = c"cuStreamDestroy_v2": fn(DriverHandle) -> Code;
    stream_synchronize = c"cuStreamSynchronize": fn(DriverHandle) -> Code;
    stream_wait = c"cuStreamWaitEvent": fn(DriverHandle, DriverHandle, c_uint) -> Code;
    event_create = c"cuEventCreate": fn(*mut DriverHandle, c_uint) -> Code;
    event_destroy = c"cuEventDestroy_v2": fn(DriverHandle) -> Code;
    event_record = c"cuEventRecord": fn(DriverHandle, DriverHandle) -> Code;
    event_query = c"cuEventQuery": fn(DriverHandle) -> Code;
    event_elapsed = c"cuEventElapsedTime": fn(*mut f32, DriverHandle, DriverHandle) -> Code;
    capture_begin = c"cuStreamBeginCapture_v2": fn(DriverHandle, c_uint) -> Code;
    capture_end = c"cuStreamEndCapture": fn(DriverHandle, *mut DriverHandle) -> Code;
    graph_instantiate = c"cuGraphInstantiateWithFlags": fn(*mut DriverHandle, DriverHandle, u64) -> Code;
    graph_launch = c"cuGraphLaunch": fn(DriverHandle, DriverHandle) -> Code;
    graph_destroy = c"cuGraphDestroy": fn(DriverHandle) -> Code;
    graph_exec_destroy = c"cuGraphExecDestroy": fn(DriverHandle) -> Code;
    link_create = c"cuLinkCreate_v2": fn(c_uint, *mut c_int, *mut *mut c_void, *mut DriverHandle) -> Code;
    link_add = c"cuLinkAddData_v2": fn(
        DriverHandle, c_int, *mut c_void, usize, *const c_char, c_uint, *mut c_int, *mut *mut c_void
    ) -> Code;
    link_complete = c"cuLinkComplete": fn(DriverHandle, *mut *mut c_void, *mut usize) -> Code;
    link_destroy = c"cuLinkDestroy": fn(DriverHandle) -> Code;
    module_load = c"cuModuleLoadData": fn(*mut DriverHandle, *const c_void) -> Code;
    module_function = c"cuModuleGetFunction": fn(*mut DriverHandle, DriverHandle, *const c_char) -> Code;
    function_set = c"cuFuncSetAttribute": fn(DriverHandle, c_int, c_int) -> Code;
    launch = c"cuLaunchKernel": fn(
        DriverHandle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, DriverHandle, *mut *mut c_void, *mut *mut c_void
    ) -> Code;
}

/// CUuuid: names a device in all processes and containers of its host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// The identity as nvidia-smi writes it, without `GPU-`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let dash = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(to, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The first CUDA whose drivers compile the kernels' PTX, of ISA 7.8.
const OLDEST: c_int = 11_080;

/// `11.8` of 11080.
fn version(number: c_int) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// The driver's library, initialised.
#[derive(Debug)]
pub struct Driver {
    pub(super) functions: DriverFunctions,
}

impl Driver {
    /// Opens the library and initialises it. Runs its code. A process that has called this must not fork.
    ///
    /// # Errors
    /// What the loader says, the symbols that lack, or what the driver says: without a device, that there is none. A driver that
    /// is too old for the kernels.
    pub fn open(path: &Path) -> std::result::Result<Self, String> {
        let driver = Self { functions: DriverFunctions::open(path)? };
        // SAFETY: as cuda.h declares it.
        driver.succeeded("cuInit", unsafe { (driver.functions.init)(0) }).map_err(|error| error.to_string())?;
        let number = driver.version_number().map_err(|error| error.to_string())?;
        if number < OLDEST {
            let [own, oldest] = [number, OLDEST].map(version);
            return Err(format!("the driver runs CUDA {own}, and {oldest} is needed: driver 520 or later"));
        }
        Ok(driver)
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        self.functions.path()
    }

    /// The newest CUDA that the driver runs, as `13.0`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn version(&self) -> Result<String> {
        self.version_number().map(version)
    }

    fn version_number(&self) -> Result<c_int> {
        let mut number = 0;
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        self.succeeded("cuDriverGetVersion", unsafe { (self.functions.version)(&mut number) })?;
        Ok(number)
    }

    /// Devices that this process sees: CUDA_VISIBLE_DEVICES hides others.
    ///
    /// # Errors
    /// What the driver says.
    pub fn devices(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        self.succeeded("cuDeviceGetCount", unsafe { (self.functions.device_count)(&mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// An error for a code other than success, with the driver's words.
    #[inline]
    pub(super) fn succeeded(&self, what: &'static str, code: Code) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(what, code)) }
    }

    #[cold]
    fn error(&self, what: &'static str, code: Code) -> CudaError {
        let text = |function: unsafe extern "C" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: as cuda.h declares it; the text is the driver's own and lives as long as it.
            let known = unsafe { function(code, &mut text) } == 0 && !text.is_null();
            // SAFETY: a terminated text, as just said.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        CudaError {
            what,
            code,
            name: text(self.functions.error_name).unwrap_or_else(|| format!("error {code}")),
            said: text(self.functions.error_string).unwrap_or_else(|| "the driver has no words for it".to_owned()),
        }
    }
}
