//! GPUs, their driver, and the libraries that they are used through.

mod device;
mod topology;

use std::fs;
use std::path::{Path, PathBuf};

use comm::library;
use serde_json::Value;

use super::native::{self, Native};
use super::{Finding, Request, State, probe};

/// NVIDIA's number on the PCI bus.
const NVIDIA: &str = "0x10de";

pub(super) fn look(request: &Request) -> Vec<Finding> {
    let mut folders = library::search_path();
    // Wheels lie out of the loader's sight, where PyTorch opens them by path.
    folders.extend(request.python.iter().flat_map(|python| library::wheels(python)));
    let mut found = driver(&folders, &on_the_bus(Path::new("/sys/bus/pci/devices")));
    let useless = found.iter().all(|row| row.state == State::Missing);
    let mut used = native::FOR_GPUS.iter().flat_map(|native| libraries(native, &folders)).collect::<Vec<_>>();
    if useless {
        used.iter_mut().filter(|row| row.state == State::Missing).for_each(|row| {
            row.found = "not where the loader looks; not needed without a GPU".to_owned();
            (row.impact, row.fix) = (None, None);
        });
    }
    found.extend(used);
    found
}

/// A row for each library of a kind in these folders, or one that says that there is none.
pub(super) fn libraries(native: &Native, folders: &[PathBuf]) -> Vec<Finding> {
    let paths = library::find(folders, native.stems);
    if paths.is_empty() {
        let found = format!("no {}.so where the loader looks", native.stems[0]);
        return vec![Finding::missing(native.name, found).impact(native.impact).fix(native.fix)];
    }
    paths.iter().map(|path| one(native, path)).collect()
}

fn one(native: &Native, path: &Path) -> Finding {
    match probe::ask(native, path) {
        Ok(about) => Finding::ready(native.name, format!("{}  {}", word(&about, "version"), path.display())),
        Err(why) => Finding::misconfigured(native.name, format!("{}: {why}", path.display()))
            .impact(native.impact)
            .fix("install it again, or take it off the loader's path"),
    }
}

fn word(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "?".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Addresses of NVIDIA's display and compute devices on the PCI bus.
fn on_the_bus(folder: &Path) -> Vec<String> {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Class 0x03: displays, and 3D controllers without one.
    let gpus =
        entries.filter(|path| read(path.join("vendor")) == NVIDIA && read(path.join("class")).starts_with("0x03"));
    // Bound to vfio-pci, a GPU belongs to a virtual machine: this host does not use it.
    let is_handed_on = |path: &PathBuf| fs::read_link(path.join("driver")).is_ok_and(|link| link.ends_with("vfio-pci"));
    let gpus = gpus.filter(|path| !is_handed_on(path));
    let mut gpus: Vec<String> =
        gpus.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    gpus.sort();
    gpus
}

/// The driver, and each GPU; or exactly what is missing.
fn driver(folders: &[PathBuf], bus: &[String]) -> Vec<Finding> {
    const IMPACT: &str = "nothing runs on a GPU";
    let paths = library::find(folders, native::NVML.stems);
    let Some(path) = paths.first() else {
        return vec![without_driver(bus)];
    };
    let about = match probe::ask(&native::NVML, path) {
        Ok(about) => about,
        Err(why) => {
            let found = format!("{}: {why}", path.display());
            return vec![if bus.is_empty() && !Path::new("/dev/nvidiactl").exists() {
                Finding::missing("driver", format!("no GPU: {found}")).impact(IMPACT)
            } else {
                Finding::misconfigured("driver", found)
                    .impact(IMPACT)
                    .fix("run nvidia-smi to confirm; reload the module (modprobe nvidia) or reinstall the driver")
            }];
        }
    };
    let found = format!("{}, runs CUDA up to {}", word(&about, "version"), word(&about, "cuda"));
    let mut rows = vec![Finding::ready("driver", found)];
    rows.extend(cuda_driver(folders));
    let devices = about.get("devices").and_then(Value::as_array).cloned().unwrap_or_default();
    if devices.is_empty() {
        rows.push(Finding::missing("GPU", "the driver reports none").impact(IMPACT));
    }
    let nvlinks = devices.iter().any(device::has_nvlinks);
    rows.extend(devices.iter().map(|device| device::row(device, nvlinks)));
    rows.extend(about.get("links").and_then(topology::row));
    rows
}

fn without_driver(bus: &[String]) -> Finding {
    const IMPACT: &str = "nothing runs on a GPU";
    let module = match fs::metadata("/proc/driver/nvidia/version") {
        Ok(_) => "the kernel module is loaded".to_owned(),
        Err(error) => format!("/proc/driver/nvidia/version: {}", plain(&error)),
    };
    let library = "no libnvidia-ml.so where the loader looks";
    match bus.first() {
        Some(first) => Finding::misconfigured(
            "driver",
            format!("{} GPUs on the PCI bus ({first}), {library}; {module}", bus.len()),
        )
        .impact(IMPACT)
        .fix("install the NVIDIA driver (a container: docker run --gpus all)"),
        None => Finding::missing("driver", format!("no NVIDIA GPU on the PCI bus, {library}; {module}")).impact(IMPACT),
    }
}

/// Without the number that the system's own text ends with.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Only a driver that does not start is worth a row: its version stands above already.
fn cuda_driver(folders: &[PathBuf]) -> Option<Finding> {
    let paths = library::find(folders, native::CUDA_DRIVER.stems);
    match paths.first() {
        None => {
            let row = Finding::misconfigured("CUDA driver", "NVML is there, but no libcuda.so where the loader looks");
            Some(row.impact(native::CUDA_DRIVER.impact).fix("install the driver's compute part (Debian: libcuda1)"))
        }
        Some(path) => Some(one(&native::CUDA_DRIVER, path)).filter(|row| row.state != State::Ready),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_on_the_bus_without_a_driver_is_misconfigured_and_none_is_missing() {
        let root = std::env::temp_dir().join(format!("rankmark-bus-{}", std::process::id()));
        for (address, vendor, class) in [
            ("0000:01:00.0", "0x10de", "0x030200"),
            ("0000:01:00.1", "0x10de", "0x040300"),
            ("0000:02:00.0", "0x8086", "0x030000"),
            ("0000:03:00.0", "0x10de", "0x030200"),
        ] {
            fs::create_dir_all(root.join(address)).unwrap();
            fs::write(root.join(address).join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(root.join(address).join("class"), format!("{class}\n")).unwrap();
        }
        // A virtual machine's.
        std::os::unix::fs::symlink("../../../bus/pci/drivers/vfio-pci", root.join("0000:03:00.0/driver")).unwrap();
        let bus = on_the_bus(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(bus, ["0000:01:00.0"]);
        assert_eq!(without_driver(&bus).state, State::Misconfigured);
        assert_eq!(without_driver(&[]).state, State::Missing);
        let missing = driver(&[], &[]);
        assert!(missing[0].found.contains("no libnvidia-ml.so where the loader looks"), "{missing:?}");
    }
}
