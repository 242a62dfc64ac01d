//! A device that this process has opened.

use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Result;
use super::cache::Cache;
use super::driver::{DeviceNumber, Driver, DriverHandle, Uuid};
use super::kernels::Kernels;
use super::module::Loads;

/// CU_STREAM_NON_BLOCKING: the stream does not wait for the default one.
pub(super) const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING: an event that is only waited for.
const WITHOUT_TIMES: u32 = 2;
/// CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and ..._MINOR.
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
const MULTIPROCESSORS: c_int = 16;
/// CUDA_ERROR_NOT_READY.
const NOT_READY: c_int = 600;

/// What a device that is a stand-in in memory of the host calls itself.
const EMULATED: &str = "Emulated GPU";

/// A device with its primary context, which libraries of CUDA's runtime find there, too, and one stream.
///
/// The context must be current on the thread that calls: [`Gpu::open`] makes it so, and [`Gpu::enter`] on another thread.
pub struct Gpu {
    pub(super) driver: Driver,
    pub(super) device: DeviceNumber,
    context: DriverHandle,
    pub(super) stream: DriverHandle,
    name: String,
    uuid: Uuid,
    kernels: OnceLock<Kernels>,
    /// Bytes of the device that this program's own buffers and kernels hold.
    held: AtomicU64,
    pub(super) loads: Loads,
    /// Where compiled kernels are kept, or why they are not; unset where nobody said where.
    pub(super) cache: OnceLock<std::result::Result<Cache, String>>,
}

// SAFETY: the driver's functions may be called from any thread, and the handles are its own.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Opens the device of this number, among those that the process sees, and makes it the calling thread's.
    ///
    /// # Errors
    /// What the driver says.
    pub fn open(driver: Driver, number: u32) -> Result<Arc<Self>> {
        let functions = &driver.functions;
        let (mut device, mut context) = (0, std::ptr::null_mut());
        let (mut name, mut uuid) = ([0 as std::ffi::c_char; 256], Uuid::default());
        let number = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: all as cuda.h declares them; the out-pointers are valid, and the name has the room that it is said to have.
        unsafe {
            driver.succeeded("cuDeviceGet", (functions.device_get)(&mut device, number))?;
            driver.succeeded("cuDeviceGetName", (functions.device_name)(name.as_mut_ptr(), 255, device))?;
            driver.succeeded("cuDeviceGetUuid", (functions.device_uuid)(&mut uuid, device))?;
            driver.succeeded("cuDevicePrimaryCtxRetain", (functions.context_retain)(&mut context, device))?;
        }
        let name: Vec<u8> = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        let stream = std::ptr::null_mut();
        let mut gpu = Self {
            driver,
            device,
            context,
            stream,
            name,
            uuid,
            kernels: OnceLock::new(),
            held: AtomicU64::new(0),
            loads: Loads::default(),
            cache: OnceLock::new(),
        };
        gpu.enter()?;
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let made = unsafe { (gpu.driver.functions.stream_create)(&mut gpu.stream, NON_BLOCKING) };
        gpu.driver.succeeded("cuStreamCreate", made)?;
        Ok(Arc::new(gpu))
    }

    /// Keeps what the driver compiles from now on in this folder, for all processes of the host. Where that cannot be, [`Self::loading`] says
    /// why, and each process compiles for itself. The first call counts.
    pub fn keep_kernels_in(&self, folder: &Path) {
        self.cache.get_or_init(|| {
            let [major, minor] = self.capability().map_err(|error| error.to_string())?;
            let version = self.driver.version().map_err(|error| error.to_string())?;
            // The file that it is a link to has the driver's full version in its name.
            let file = std::fs::canonicalize(self.driver.path()).map_err(|error| error.to_string())?;
            let file = file.file_name().unwrap_or_default().to_string_lossy();
            Cache::open(folder, format!("{}, {file}, CUDA {version}, sm_{major}{minor}", self.name))
        });
    }

    /// Makes this device the calling thread's.
    ///
    /// # Errors
    /// What the driver says.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: as cuda.h declares it; the context is retained.
        self.driver.succeeded("cuCtxSetCurrent", unsafe { (self.driver.functions.context_set)(self.context) })
    }

    /// "NVIDIA H100 80GB HBM3".
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a stand-in in memory of the host, which no driver of NVIDIA's has.
    pub fn is_emulated(&self) -> bool {
        self.name == EMULATED
    }

    /// Names the device in all processes of its host.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The stream, as CUDA's libraries want it.
    pub fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// A further stream of the device, or its own, as CUDA's libraries want it.
    pub fn stream_of(&self, beside: Option<&Stream>) -> *mut c_void {
        beside.map_or(self.stream, Stream::raw)
    }

    /// The driver's library.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The device's compute capability: `[9, 0]` of sm_90.
    ///
    /// # Errors
    /// What the driver says.
    pub fn capability(&self) -> Result<[u32; 2]> {
        Ok([self.attribute(CAPABILITY_MAJOR)?, self.attribute(CAPABILITY_MINOR)?])
    }

    /// How many multiprocessors it has.
    ///
    /// # Errors
    /// What the driver says.
    pub fn multiprocessors(&self) -> Result<u32> {
        self.attribute(MULTIPROCESSORS)
    }

    fn attribute(&self, number: c_int) -> Result<u32> {
        let mut value = 0;
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let code = unsafe { (self.driver.functions.device_attribute)(&mut value, number, self.device) };
        self.driver.succeeded("cuDeviceGetAttribute", code).map(|()| u32::try_from(value).unwrap_or(0))
    }

    /// Bytes of the device that are free now.
    ///
    /// # Errors
    /// What the driver says.
    pub fn free_bytes(&self) -> Result<u64> {
        self.enter()?;
        let (mut free, mut all) = (0, 0);
        // SAFETY: as cuda.h declares it; the out-pointers are valid.
        self.driver.succeeded("cuMemGetInfo", unsafe { (self.driver.functions.memory_info)(&mut free, &mut all) })?;
        Ok(free as u64)
    }

    /// Bytes of the device that this program's own buffers and kernels hold; what libraries take is not among them.
    pub fn held_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts what was taken since so many bytes were free.
    pub(super) fn take(&self, free_before: u64) -> Result<u64> {
        let taken = free_before.saturating_sub(self.free_bytes()?);
        self.held.fetch_add(taken, Ordering::Relaxed);
        Ok(taken)
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Blocks the calling thread until the stream has run all that it was given.
    ///
    /// # Errors
    /// What the driver says, of that work, too.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: as cuda.h declares it; the stream is alive.
        self.driver.succeeded("cuStreamSynchronize", unsafe { (self.driver.functions.stream_synchronize)(self.stream) })
    }

    /// The kernels, loaded when they are first asked for.
    pub(super) fn kernels(&self) -> Result<&Kernels> {
        if let Some(kernels) = self.kernels.get() {
            return Ok(kernels);
        }
        let before = self.free_bytes()?;
        let loaded = Kernels::load(self)?;
        self.take(before)?;
        Ok(self.kernels.get_or_init(|| loaded))
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Gpu").field("name", &self.name).field("uuid", &self.uuid).finish_non_exhaustive()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.enter();
        // SAFETY: as cuda.h declares them; nobody uses stream or context afterwards: memory and events keep this alive.
        unsafe {
            if !self.stream.is_null() {
                (self.driver.functions.stream_destroy)(self.stream);
            }
            (self.driver.functions.context_release)(self.device);
        }
    }
}

/// A point in the stream.
pub struct Event {
    gpu: Arc<Gpu>,
    event: DriverHandle,
}

// SAFETY: as of `Gpu`.
unsafe impl Send for Event {}
// SAFETY: as of `Gpu`.
unsafe impl Sync for Event {}

impl Event {
    /// One that was not recorded yet, and counts as done.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        Self::with(gpu, WITHOUT_TIMES)
    }

    /// An event with the device's time of each record, which takes the device a little longer.
    ///
    /// # Errors
    /// What the driver says.
    pub fn timed(gpu: &Arc<Gpu>) -> Result<Self> {
        Self::with(gpu, 0)
    }

    fn with(gpu: &Arc<Gpu>, flags: u32) -> Result<Self> {
        let mut event = std::ptr::null_mut();
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let made = unsafe { (gpu.driver.functions.event_create)(&mut event, flags) };
        gpu.driver.succeeded("cuEventCreate", made)?;
        Ok(Self { gpu: gpu.clone(), event })
    }

    /// Nanoseconds of the device's clock since another event; both are timed, recorded and done. The clock's steps are of about
    /// half a microsecond.
    ///
    /// # Errors
    /// What the driver says.
    pub fn since(&self, earlier: &Self) -> Result<f64> {
        let mut milliseconds = 0.0;
        let elapsed = self.gpu.driver.functions.event_elapsed;
        // SAFETY: as cuda.h declares it; the out-pointer is valid, and the events are alive.
        let asked = unsafe { elapsed(&mut milliseconds, earlier.event, self.event) };
        self.gpu.driver.succeeded("cuEventElapsedTime", asked)?;
        Ok(1e6 * f64::from(milliseconds))
    }

    /// From now on it is the point behind all that the stream was given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<()> {
        self.record_on(self.gpu.stream)
    }

    /// Moves the event behind all that this stream of the device was given so far.
    pub(super) fn record_on(&self, stream: DriverHandle) -> Result<()> {
        // SAFETY: as cuda.h declares it; event and stream are alive.
        let recorded = unsafe { (self.gpu.driver.functions.event_record)(self.event, stream) };
        self.gpu.driver.succeeded("cuEventRecord", recorded)
    }

    /// What the device's own stream is given from now on waits for it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn hold_own(&self) -> Result<()> {
        self.hold(self.gpu.stream)
    }

    /// What this stream of the device is given from now on waits for it.
    pub(super) fn hold(&self, stream: DriverHandle) -> Result<()> {
        // SAFETY: as above.
        let held = unsafe { (self.gpu.driver.functions.stream_wait)(stream, self.event, 0) };
        self.gpu.driver.succeeded("cuStreamWaitEvent", held)
    }

    /// Whether the stream has come to it.
    ///
    /// # Errors
    /// What the driver says, of the work before it, too.
    #[inline]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: as cuda.h declares it; the event is alive.
        match unsafe { (self.gpu.driver.functions.event_query)(self.event) } {
            NOT_READY => Ok(false),
            code => self.gpu.driver.succeeded("cuEventQuery", code).map(|()| true),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: as cuda.h declares it; nobody uses the event afterwards.
        unsafe { (self.gpu.driver.functions.event_destroy)(self.event) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Event").finish_non_exhaustive()
    }
}

/// A further stream of a device. Its work runs beside that of the device's own.
pub struct Stream {
    gpu: Arc<Gpu>,
    stream: DriverHandle,
    point: Event,
}

// SAFETY: as of `Gpu`.
unsafe impl Send for Stream {}
// SAFETY: as of `Gpu`.
unsafe impl Sync for Stream {}

impl Stream {
    /// An empty one.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Self> {
        gpu.enter()?;
        let (point, mut stream) = (Event::new(gpu)?, ptr::null_mut());
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let made = unsafe { (gpu.driver.functions.stream_create)(&mut stream, NON_BLOCKING) };
        gpu.driver.succeeded("cuStreamCreate", made)?;
        Ok(Self { gpu: gpu.clone(), stream, point })
    }

    /// The stream, as CUDA's libraries want it.
    pub fn raw(&self) -> *mut c_void {
        self.stream
    }

    /// What it is given from now on runs after the point that the event was last recorded at.
    ///
    /// # Errors
    /// What the driver says.
    pub fn hold(&self, event: &Event) -> Result<()> {
        event.hold(self.stream)
    }

    /// What it is given from now on runs after all that the device's own stream was given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn follow(&self) -> Result<()> {
        self.point.record_on(self.gpu.stream)?;
        self.point.hold(self.stream)
    }

    /// What the device's own stream is given from now on runs after all that this one was given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn lead(&self) -> Result<()> {
        self.point.record_on(self.stream)?;
        self.point.hold(self.gpu.stream)
    }

    /// The point behind all that it was given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn point(&self) -> Result<Event> {
        let event = Event::new(&self.gpu)?;
        event.record_on(self.stream)?;
        Ok(event)
    }

    /// From now on the event is the point behind all that this stream was given so far.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self, event: &Event) -> Result<()> {
        event.record_on(self.stream)
    }

    /// Blocks the calling thread until it has run all that it was given.
    ///
    /// # Errors
    /// What the driver says, of that work, too.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: as cuda.h declares it; the stream is alive.
        let done = unsafe { (self.gpu.driver.functions.stream_synchronize)(self.stream) };
        self.gpu.driver.succeeded("cuStreamSynchronize", done)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.gpu.enter();
        // SAFETY: as cuda.h declares it; nobody uses the stream afterwards, and what it was given still runs.
        unsafe { (self.gpu.driver.functions.stream_destroy)(self.stream) };
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Stream").finish_non_exhaustive()
    }
}
