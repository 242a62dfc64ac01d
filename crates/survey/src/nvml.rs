//! What NVML knows of the driver and the GPUs (nvml.h). Runs in a child only.
//!
//! The functions that every driver has are required. Each of the others is optional: without it, its fact is absent.

mod health;
mod links;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use comm::library::Library;
use serde_json::{Map, Value, json};

use super::function::function;
pub use health::NVML_SINCE;
use links::Gpu;

type Device = *mut c_void;
type Init = unsafe extern "C" fn() -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Text = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type NvmlNumber = unsafe extern "C" fn(*mut c_int) -> c_int;
type DeviceByIndex = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type DeviceText = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type DeviceNumber = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type DeviceMode = unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> c_int;
type DeviceMemory = unsafe extern "C" fn(Device, *mut NvmlMemory) -> c_int;

/// nvmlMemory_t.
#[repr(C)]
#[derive(Default)]
struct NvmlMemory {
    total: u64,
    free: u64,
    used: u64,
}

/// The most GPUs of a host. A library that reports more is not believed, and of so many the answer fits into what is kept of
/// a child's output.
const MOST_DEVICES: c_uint = 32;

/// The driver's version, the newest CUDA that it runs, each GPU, and the links between them.
pub(super) fn ask(library: Library) -> Result<Value, String> {
    let library = &library;
    // SAFETY: as nvml.h declares it.
    let code = unsafe { function::<Init>(library, c"nvmlInit_v2")?() };
    succeeded(library, "nvmlInit", code)?;
    let mut cuda = 0;
    // SAFETY: as nvml.h declares it; the out-pointer is valid.
    let code = unsafe { function::<NvmlNumber>(library, c"nvmlSystemGetCudaDriverVersion_v2")?(&mut cuda) };
    succeeded(library, "nvmlSystemGetCudaDriverVersion", code)?;
    let handles: Vec<Result<Device, String>> = (0..count(library)?).map(|index| handle(library, index)).collect();
    let gpus = links::look(library, &handles);
    let devices = handles.iter().zip(0..).map(|(handle, index)| {
        let gpu = gpus.iter().find(|gpu| gpu.index == index);
        let about = match (handle, gpu) {
            (Err(why), _) => Err(why.clone()),
            (Ok(_), None) => Err("it has no handle".to_owned()),
            (Ok(_), Some(gpu)) => device(library, gpu),
        };
        about.unwrap_or_else(|why| json!({ "index": index, "error": why }))
    });
    let mut about = json!({
        "version": driver(library)?,
        "cuda": format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        "devices": devices.collect::<Vec<Value>>(),
    });
    if let Some(links) = links::matrix(library, &gpus) {
        about["links"] = links;
    }
    Ok(about)
}

fn succeeded(library: &Library, what: &str, code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: as nvml.h declares it; it gives a terminated text of its own.
    let said = unsafe {
        let text = function::<ErrorString>(library, c"nvmlErrorString")?(code);
        if text.is_null() { format!("code {code}") } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    Err(format!("`{what}` failed: {said}"))
}

fn count(library: &Library) -> Result<c_uint, String> {
    let mut count: c_uint = 0;
    // SAFETY: as nvml.h declares it (an unsigned, which is as large); the out-pointer is valid.
    let code = unsafe {
        function::<NvmlNumber>(library, c"nvmlDeviceGetCount_v2")?(std::ptr::from_mut(&mut count).cast::<c_int>())
    };
    succeeded(library, "nvmlDeviceGetCount", code)?;
    if count > MOST_DEVICES {
        return Err(format!(
            "`nvmlDeviceGetCount` reports {count} GPUs, but more than {MOST_DEVICES} are not plausible"
        ));
    }
    Ok(count)
}

fn handle(library: &Library, index: c_uint) -> Result<Device, String> {
    let mut device: Device = std::ptr::null_mut();
    // SAFETY: as nvml.h declares it; the out-pointer is valid.
    let code = unsafe { function::<DeviceByIndex>(library, c"nvmlDeviceGetHandleByIndex_v2")?(index, &mut device) };
    succeeded(library, "nvmlDeviceGetHandleByIndex", code).map(|()| device)
}

fn driver(library: &Library) -> Result<String, String> {
    let mut text = [0_u8; 128];
    // SAFETY: as nvml.h declares it; the text's length is given.
    let code = unsafe {
        let get = function::<Text>(library, c"nvmlSystemGetDriverVersion")?;
        get(text.as_mut_ptr().cast(), text.len() as c_uint - 1)
    };
    succeeded(library, "nvmlSystemGetDriverVersion", code)?;
    Ok(written(&text))
}

fn written(text: &[u8]) -> String {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// One GPU. What it does not answer (a consumer's card, a slice of a GPU) is absent.
fn device(library: &Library, gpu: &Gpu) -> Result<Value, String> {
    let device = gpu.handle;
    let mut name = [0_u8; 128];
    // SAFETY: as nvml.h declares it; the handle is NVML's own, and the text's length is given.
    let code = unsafe {
        let get = function::<DeviceText>(library, c"nvmlDeviceGetName")?;
        get(device, name.as_mut_ptr().cast(), name.len() as c_uint - 1)
    };
    succeeded(library, "nvmlDeviceGetName", code)?;
    let mut about = Map::new();
    about.insert("index".to_owned(), gpu.index.into());
    about.insert("name".to_owned(), written(&name).into());
    let mut memory = NvmlMemory::default();
    // SAFETY: as nvml.h declares it; the struct is nvmlMemory_t.
    let code = unsafe { function::<DeviceMemory>(library, c"nvmlDeviceGetMemoryInfo")?(device, &mut memory) };
    if code == 0 {
        about.insert("memory_bytes".to_owned(), memory.total.into());
        about.insert("used_bytes".to_owned(), memory.used.into());
    }
    for (key, symbol) in [
        ("pcie_generation", c"nvmlDeviceGetCurrPcieLinkGeneration"),
        ("pcie_generation_max", c"nvmlDeviceGetMaxPcieLinkGeneration"),
        ("pcie_width", c"nvmlDeviceGetCurrPcieLinkWidth"),
        ("pcie_width_max", c"nvmlDeviceGetMaxPcieLinkWidth"),
        ("persistence", c"nvmlDeviceGetPersistenceMode"),
    ] {
        // SAFETY: as nvml.h declares all of these.
        if let Some(number) = unsafe { query_number(library, symbol, device) } {
            about.insert(key.to_owned(), number.into());
        }
    }
    // SAFETY: as nvml.h declares it.
    let mig = unsafe { mode(library, c"nvmlDeviceGetMigMode", device) };
    about.extend(mig.map(|(mig, _)| ("mig".to_owned(), (mig == 1).into())));
    about.insert("nvlinks".to_owned(), gpu.links_json());
    health::look(library, device, &mut about);
    Ok(Value::Object(about))
}

/// A number of a GPU, where it has one.
///
/// # Safety
/// The symbol is a function of NVML's from a device to one unsigned.
unsafe fn query_number(library: &Library, symbol: &CStr, device: Device) -> Option<c_uint> {
    let mut number = 0;
    // SAFETY: the caller's promise; the out-pointer is valid.
    let code = unsafe { function::<DeviceNumber>(library, symbol).ok()?(device, &mut number) };
    (code == 0).then_some(number)
}

/// A mode of a GPU as it is, and as it is after the next reset.
///
/// # Safety
/// The symbol is a function of NVML's from a device to two unsigned.
unsafe fn mode(library: &Library, symbol: &CStr, device: Device) -> Option<(c_uint, c_uint)> {
    let (mut now, mut later) = (0, 0);
    // SAFETY: the caller's promise; both out-pointers are valid.
    let code = unsafe { function::<DeviceMode>(library, symbol).ok()?(device, &mut now, &mut later) };
    (code == 0).then_some((now, later))
}
