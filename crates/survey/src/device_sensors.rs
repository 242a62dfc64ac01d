//! What NVIDIA's management library (NVML) tells of devices while trials run, through `nvidia-smi`, which comes with every
//! driver. A program of its own: a library that hangs in the driver does not hang the coordinator.

use std::ffi::OsStr;
use std::path::Path;

use measure::{DeviceLook, DeviceSensors};
use process::Lines;

/// Columns that are asked for, in this order; those of `DeviceLook`. What holds clocks down has a name of newer drivers and one of
/// older ones; a program that knows neither is asked without.
const QUERIES: [&str; 3] = [
    "--query-gpu=index,temperature.gpu,clocks.sm,power.draw,utilization.gpu,memory.used,clocks_event_reasons.active",
    "--query-gpu=index,temperature.gpu,clocks.sm,power.draw,utilization.gpu,memory.used,clocks_throttle_reasons.active",
    "--query-gpu=index,temperature.gpu,clocks.sm,power.draw,utilization.gpu,memory.used",
];
/// Milliseconds between two looks.
const EVERY: &str = "--loop-ms=500";

/// `nvidia-smi`, started at the first trial on a device.
pub struct NvidiaSmi<'p> {
    program: &'p Path,
    child: Option<Lines>,
    /// Which query is asked.
    query: usize,
    /// The program has told of a device.
    has_told: bool,
    /// The program could not be started, or has ended: not tried again.
    gone: bool,
}

impl<'p> NvidiaSmi<'p> {
    /// By this program.
    pub fn new(program: &'p Path) -> Self {
        Self { program, child: None, query: 0, has_told: false, gone: false }
    }

    fn take(&mut self) -> Vec<String> {
        let Some(child) = &mut self.child else { return Vec::new() };
        let lines = child.take();
        self.has_told |= lines.iter().any(|line| look(line).is_some());
        if child.has_ended() {
            self.child = None;
            // It ends at once where it does not know a column.
            self.query += 1;
            self.gone = self.has_told || self.query >= QUERIES.len();
        }
        lines
    }

    fn start(&mut self) {
        let Some(query) = QUERIES.get(self.query).filter(|_| self.child.is_none() && !self.gone) else { return };
        let arguments = [*query, "--format=csv,noheader,nounits", EVERY].map(OsStr::new);
        self.child = Lines::start(self.program, &arguments).ok();
        self.gone = self.child.is_none();
    }
}

impl DeviceSensors for NvidiaSmi<'_> {
    fn begin(&mut self) {
        self.start();
        self.take();
    }

    fn end(&mut self) -> Vec<DeviceLook> {
        self.take().iter().filter_map(|line| look(line)).collect()
    }
}

/// `0, 45, 1980, 250.31, 97, 4512, 0x0000000000000004`, where the last may be absent. What the device does not have reads `[N/A]`.
fn look(line: &str) -> Option<DeviceLook> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let [device, cells @ ..] = &cells[..] else { return None };
    let number = |place: usize| cells.get(place)?.parse::<f64>().ok().filter(|number| number.is_finite());
    matches!(cells.len(), 5 | 6).then_some(())?;
    let bits = |text: &&str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    Some(DeviceLook {
        device: device.parse().ok()?,
        temperature_c: number(0),
        clock_mhz: number(1),
        power_w: number(2),
        utilization: number(3).map(|percent| percent / 100.0),
        memory_bytes: number(4).map(|mebibytes| mebibytes * f64::from(1 << 20)),
        held_by: cells.get(5).and_then(bits).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_line_is_a_look_and_what_a_device_lacks_is_absent() {
        let expected = DeviceLook {
            device: 3,
            temperature_c: Some(45.0),
            clock_mhz: Some(1980.0),
            power_w: Some(250.31),
            utilization: Some(0.97),
            memory_bytes: Some(4512.0 * 1048576.0),
            held_by: 0,
        };
        assert_eq!(look("3, 45, 1980, 250.31, 97, 4512, 0x0000000000000044").unwrap().held_by, 0x44);
        assert_eq!(look("3, 45, 1980, 250.31, 97, 4512, [N/A]"), Some(expected));
        assert_eq!(look("3, 45, 1980, 250.31, 97, 4512"), Some(expected));
        assert_eq!(look("0, 45, [N/A], [Not Supported], nan, 1").unwrap().power_w, None);
        for wrong in ["", "NVIDIA-SMI has failed", "x, 1, 2, 3, 4, 5", "0, 1, 2", "0, 1, 2, 3, 4, 5, 6, 7"] {
            assert_eq!(look(wrong), None, "{wrong}");
        }
    }

    /// A program of this name that does what the script says.
    fn program(folder: &Path, script: &str) -> std::path::PathBuf {
        let path = folder.join("nvidia-smi");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn looks_between_begin_and_end_belong_to_the_trial() {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), "while :; do echo '0, 45, 1980, 250, 97, 4512'; sleep 0.05; done");
        let mut sensors = NvidiaSmi::new(&path);
        sensors.begin();
        let mut looks = Vec::new();
        for _ in 0..500 {
            sleep(Duration::from_millis(20));
            looks.extend(sensors.end());
            if looks.len() > 2 {
                break;
            }
        }
        assert!(looks.len() > 2 && looks.iter().all(|look| look.clock_mhz == Some(1980.0)), "{looks:?}");
        sleep(Duration::from_millis(200));
        sensors.begin();
        assert!(sensors.end().len() < 3, "what was told between trials is nobody's");
    }

    /// An older driver refuses the newer name, and tells all else.
    #[test]
    fn a_column_that_the_driver_does_not_know_is_asked_for_by_its_other_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = "case \"$1\" in *event_reasons*) echo 'Field \"clocks_event_reasons.active\" is not a valid field'; exit 2;; esac\n\
                      while :; do echo '0, 45, 1980, 250, 97, 4512, 0x4'; sleep 0.05; done";
        let path = program(folder.path(), script);
        let mut sensors = NvidiaSmi::new(&path);
        let mut looks = Vec::new();
        for _ in 0..500 {
            sensors.begin();
            sleep(Duration::from_millis(20));
            looks.extend(sensors.end());
            if !looks.is_empty() {
                break;
            }
        }
        assert_eq!(looks.first().map(|look| look.held_by), Some(0x4));
    }

    #[test]
    fn a_program_that_is_missing_or_fails_tells_nothing_and_is_not_tried_again() {
        let mut missing = NvidiaSmi::new(Path::new("/nowhere/nvidia-smi"));
        missing.begin();
        assert!(missing.end().is_empty() && missing.gone);
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), "echo started >> \"$0.log\"; exit 9");
        let mut failing = NvidiaSmi::new(&path);
        failing.begin();
        for _ in 0..500 {
            sleep(Duration::from_millis(20));
            failing.begin();
            if failing.gone {
                break;
            }
        }
        failing.begin();
        assert!(failing.gone && failing.end().is_empty());
        let log = std::fs::read_to_string(folder.path().join("nvidia-smi.log")).unwrap();
        assert_eq!(log, "started\n".repeat(3), "once for each of the columns that it may not know");
    }
}
