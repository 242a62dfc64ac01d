//! Whether a GPU is sound: errors of its memory, and what holds its clocks down.

use std::ffi::{c_int, c_uint, c_ulonglong};

use comm::library::Library;
use device::since::Since;
use serde_json::{Map, Value, json};

use super::{Device, mode, query_number};
use crate::function::function;

type DeviceErrors = unsafe extern "C" fn(Device, c_uint, c_uint, *mut c_ulonglong) -> c_int;
type DeviceRows = unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint) -> c_int;
type DeviceBits = unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int;

/// nvmlMemoryErrorType_t.
const ERROR_TYPES: [(&str, c_uint); 2] = [("corrected", 0), ("uncorrected", 1)];
/// nvmlEccCounterType_t: since the driver was loaded, and of the GPU's whole life.
const COUNTERS: [(&str, c_uint); 2] = [("volatile", 0), ("aggregate", 1)];

/// Bits of nvmlClocksEventReasons, by the names of `nvidia-smi --query-gpu=clocks_event_reasons.NAME`.
const CLOCK_BITS: [(c_ulonglong, &str); 9] = [
    (1 << 0, "gpu_idle"),
    (1 << 1, "applications_clocks_setting"),
    (1 << 2, "sw_power_cap"),
    (1 << 3, "hw_slowdown"),
    (1 << 4, "sync_boost"),
    (1 << 5, "sw_thermal_slowdown"),
    (1 << 6, "hw_thermal_slowdown"),
    (1 << 7, "hw_power_brake_slowdown"),
    (1 << 8, "display_clocks_setting"),
];

/// Adds what the GPU answers.
pub(super) fn look(library: &Library, device: Device, about: &mut Map<String, Value>) {
    // SAFETY: as nvml.h declares it.
    let pending = unsafe { query_number(library, c"nvmlDeviceGetRetiredPagesPendingStatus", device) };
    let facts = [
        ("ecc", ecc(library, device)),
        ("remapped_rows", remapped_rows(library, device)),
        ("retired_pages_pending", pending.map(|pending| (pending == 1).into())),
        ("clocks_event_reasons", clock_bits(library, device).map(|bits| names(bits).into())),
    ];
    about.extend(facts.into_iter().filter_map(|(key, fact)| Some((key.to_owned(), fact?))));
}

/// Whether ECC is on, and the errors that it counted.
fn ecc(library: &Library, device: Device) -> Option<Value> {
    // SAFETY: as nvml.h declares it.
    let (now, later) = unsafe { mode(library, c"nvmlDeviceGetEccMode", device) }?;
    let mut ecc = json!({ "on": now == 1, "on_after_reset": later == 1 });
    // SAFETY: as nvml.h declares it.
    let Ok(get) = (unsafe { function::<DeviceErrors>(library, c"nvmlDeviceGetTotalEccErrors") }) else {
        return Some(ecc);
    };
    for (kind, kind_number) in ERROR_TYPES {
        for (counter, counter_number) in COUNTERS {
            let mut errors = 0;
            // SAFETY: as above; the out-pointer is valid.
            if unsafe { get(device, kind_number, counter_number, &mut errors) } == 0 {
                ecc[kind][counter] = errors.into();
            }
        }
    }
    Some(ecc)
}

/// Rows of memory that were replaced by spare ones (since Ampere).
fn remapped_rows(library: &Library, device: Device) -> Option<Value> {
    let (mut corrected, mut uncorrected, mut pending, mut failed) = (0, 0, 0, 0);
    // SAFETY: as nvml.h declares it; all out-pointers are valid.
    let code = unsafe {
        let get = function::<DeviceRows>(library, c"nvmlDeviceGetRemappedRows").ok()?;
        get(device, &mut corrected, &mut uncorrected, &mut pending, &mut failed)
    };
    (code == 0).then(|| {
        json!({ "corrected": corrected, "uncorrected": uncorrected, "pending": pending != 0, "failed": failed != 0 })
    })
}

/// The only function that came after NVML of driver 520 (CUDA 11.8); NVML's versions are those of CUDA.
pub static NVML_SINCE: [Since; 1] = [Since {
    library: "NVML",
    what: "nvmlDeviceGetCurrentClocksEventReasons",
    version: [12, 2],
    otherwise: "nvmlDeviceGetCurrentClocksThrottleReasons, which it replaced",
}];

/// What holds the clocks down, under the function's name of now or of drivers before 535.
fn clock_bits(library: &Library, device: Device) -> Option<c_ulonglong> {
    let names = [c"nvmlDeviceGetCurrentClocksEventReasons", c"nvmlDeviceGetCurrentClocksThrottleReasons"];
    let mut bits = 0;
    // SAFETY: as nvml.h declares both.
    let get = names.iter().find_map(|name| unsafe { function::<DeviceBits>(library, name) }.ok())?;
    // SAFETY: as above; the out-pointer is valid.
    (unsafe { get(device, &mut bits) } == 0).then_some(bits)
}

fn names(bits: c_ulonglong) -> Vec<String> {
    let known = CLOCK_BITS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| (*name).to_owned());
    let rest = bits & !CLOCK_BITS.iter().fold(0, |all, (bit, _)| all | bit);
    known.chain((rest != 0).then(|| format!("{rest:#x}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_later_is_documented() {
        let page = include_str!("../../../../docs/how-to/gpu.md");
        NVML_SINCE.iter().for_each(|since| assert!(page.contains(&since.to_string()), "{since}"));
    }

    #[test]
    fn clock_bits_have_names_and_unknown_ones_stay() {
        assert_eq!(names(0), Vec::<String>::new());
        assert_eq!(names(0x1 | 0x4), ["gpu_idle", "sw_power_cap"]);
        assert_eq!(names(0x48 | 0xf000), ["hw_slowdown", "hw_thermal_slowdown", "0xf000"]);
    }
}
