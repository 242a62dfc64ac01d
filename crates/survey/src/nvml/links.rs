//! How GPUs are connected: the state of each NVLink, and the matrix that `nvidia-smi topo -m` prints.

use std::ffi::{CStr, c_char, c_int, c_uint};

use comm::library::Library;
use serde_json::{Map, Value, json};

use super::Device;
use crate::function::function;

type DeviceLink = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;
type DeviceLinkCapability = unsafe extern "C" fn(Device, c_uint, c_uint, *mut c_uint) -> c_int;
type DevicePci = unsafe extern "C" fn(Device, *mut Pci) -> c_int;
type DeviceLinkPci = unsafe extern "C" fn(Device, c_uint, *mut Pci) -> c_int;
type DevicePair = unsafe extern "C" fn(Device, Device, *mut c_uint) -> c_int;

/// NVML_NVLINK_MAX_LINKS of CUDA 13; 18 before. Older drivers answer that a link from 18 on is none.
const LINKS: c_uint = 36;
/// NVML_NVLINK_CAP_VALID: whether the GPU has this link at all.
const IS_VALID: c_uint = 5;
/// NVML_NVLINK_DEVICE_TYPE_SWITCH.
const SWITCH: c_uint = 2;

/// nvmlPciInfo_t, as `nvmlDeviceGetPciInfo_v3` and `nvmlDeviceGetNvLinkRemotePciInfo_v2` write it.
#[repr(C)]
#[derive(Default)]
struct Pci {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

/// Domain, bus and device: NVML gives no function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address(c_uint, c_uint, c_uint);

/// What is at the other end of an NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remote {
    /// The GPU of this index.
    Gpu(c_uint),
    Switch,
    /// Neither a GPU nor a switch, or an address that is not among the GPUs and of which the driver says no type.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    number: c_uint,
    is_up: bool,
    remote: Option<Remote>,
}

/// A GPU and its NVLinks.
pub(super) struct Gpu {
    pub(super) index: c_uint,
    pub(super) handle: Device,
    links: Vec<Link>,
}

/// The GPUs that have a handle.
pub(super) fn look(library: &Library, handles: &[Result<Device, String>]) -> Vec<Gpu> {
    let open = || handles.iter().zip(0..).filter_map(|(handle, index)| Some((index, *handle.as_ref().ok()?)));
    let addresses: Vec<(c_uint, Address)> =
        open().filter_map(|(index, handle)| Some((index, address(library, handle)?))).collect();
    open().map(|(index, handle)| Gpu { index, handle, links: links(library, handle, &addresses) }).collect()
}

fn address(library: &Library, device: Device) -> Option<Address> {
    let mut pci = Pci::default();
    // SAFETY: as nvml.h declares it; the struct is nvmlPciInfo_t.
    let code = unsafe { function::<DevicePci>(library, c"nvmlDeviceGetPciInfo_v3").ok()?(device, &mut pci) };
    (code == 0).then_some(Address(pci.domain, pci.bus, pci.device))
}

fn links(library: &Library, device: Device, gpus: &[(c_uint, Address)]) -> Vec<Link> {
    let link = |number: c_uint| {
        // SAFETY: as nvml.h declares it. A link that does not exist is answered with an error.
        let is_up = match unsafe { of_link(library, c"nvmlDeviceGetNvLinkState", device, number) }? {
            0 => false,
            1 => true,
            _ => return None,
        };
        if !is_up && is_absent(library, device, number) {
            return None;
        }
        let remote = if is_up { remote(library, device, number, gpus) } else { None };
        Some(Link { number, is_up, remote })
    };
    (0..LINKS).filter_map(link).collect()
}

/// A number of a link, where the driver has this function and the GPU has this link.
///
/// # Safety
/// The symbol is a function of NVML's from a device and a link to one unsigned.
unsafe fn of_link(library: &Library, symbol: &CStr, device: Device, link: c_uint) -> Option<c_uint> {
    let mut number = 0;
    // SAFETY: the caller's promise; the out-pointer is valid.
    let code = unsafe { function::<DeviceLink>(library, symbol).ok()?(device, link, &mut number) };
    (code == 0).then_some(number)
}

/// Whether the driver says that the GPU does not have this link.
fn is_absent(library: &Library, device: Device, link: c_uint) -> bool {
    let mut valid = 1;
    // SAFETY: as nvml.h declares it; the out-pointer is valid.
    let code = unsafe {
        let get = function::<DeviceLinkCapability>(library, c"nvmlDeviceGetNvLinkCapability");
        get.map_or(1, |get| get(device, link, IS_VALID, &mut valid))
    };
    code == 0 && valid == 0
}

/// What is at the other end of a link, by its type where the driver has it; else by its address.
fn remote(library: &Library, device: Device, link: c_uint, gpus: &[(c_uint, Address)]) -> Option<Remote> {
    // SAFETY: as nvml.h declares it.
    let kind = unsafe { of_link(library, c"nvmlDeviceGetNvLinkRemoteDeviceType", device, link) };
    if kind == Some(SWITCH) {
        return Some(Remote::Switch);
    }
    let mut pci = Pci::default();
    // SAFETY: as nvml.h declares it; the struct is nvmlPciInfo_t.
    let code = unsafe {
        function::<DeviceLinkPci>(library, c"nvmlDeviceGetNvLinkRemotePciInfo_v2").ok()?(device, link, &mut pci)
    };
    let address = (code == 0).then_some(Address(pci.domain, pci.bus, pci.device))?;
    let gpu = gpus.iter().find(|(_, known)| *known == address);
    Some(gpu.map_or(Remote::Other, |(index, _)| Remote::Gpu(*index)))
}

impl Gpu {
    /// The numbers of the NVLinks that are up and down, and how many end where.
    pub(super) fn links_json(&self) -> Value {
        let numbers = |is_up: bool| -> Vec<c_uint> {
            self.links.iter().filter(|link| link.is_up == is_up).map(|link| link.number).collect()
        };
        let mut ends: Map<String, Value> = Map::new();
        for remote in self.links.iter().filter_map(|link| link.remote) {
            let name = match remote {
                Remote::Gpu(index) => format!("GPU {index}"),
                Remote::Switch => "switch".to_owned(),
                Remote::Other => "other".to_owned(),
            };
            let so_far = ends.get(&name).and_then(Value::as_u64).unwrap_or(0);
            ends.insert(name, (so_far + 1).into());
        }
        json!({ "up": numbers(true), "down": numbers(false), "ends": ends })
    }

    /// Links that are up and end at this GPU.
    fn to(&self, other: &Self) -> usize {
        self.links.iter().filter(|link| link.remote == Some(Remote::Gpu(other.index))).count()
    }

    /// Links that are up and end at switches. Drivers that give no type have none that end at GPUs then: on a host of POWER
    /// processors, whose links end at GPUs and at processors, the latter are not switches.
    fn to_switches(&self) -> usize {
        let count = |remote: Remote| self.links.iter().filter(|link| link.remote == Some(remote)).count();
        let up = self.links.iter().filter(|link| link.is_up).count();
        if count(Remote::Other) == up { up } else { count(Remote::Switch) }
    }
}

/// The matrix of the links between GPUs; None for fewer than two of them, and where the driver knows of no pair.
pub(super) fn matrix(library: &Library, gpus: &[Gpu]) -> Option<Value> {
    // SAFETY: as nvml.h declares it.
    let get = unsafe { function::<DevicePair>(library, c"nvmlDeviceGetTopologyCommonAncestor") }.ok();
    let common = |one: &Gpu, other: &Gpu| {
        let mut level = 0;
        // SAFETY: as above; the out-pointer is valid.
        (unsafe { get?(one.handle, other.handle, &mut level) } == 0).then_some(level)
    };
    let cells = cells(gpus, common)?;
    Some(json!({ "gpus": gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), "matrix": cells }))
}

fn cells(gpus: &[Gpu], common: impl Fn(&Gpu, &Gpu) -> Option<c_uint>) -> Option<Vec<Vec<String>>> {
    let mut cells = vec![vec!["X".to_owned(); gpus.len()]; gpus.len()];
    let mut is_known = false;
    for (at, one) in gpus.iter().enumerate() {
        for (beyond, other) in gpus.iter().enumerate().skip(at + 1) {
            let cell = cell(one, other, || common(one, other));
            is_known |= cell.is_some();
            let cell = cell.unwrap_or_else(|| "?".to_owned());
            cells[at][beyond].clone_from(&cell);
            cells[beyond][at] = cell;
        }
    }
    is_known.then_some(cells)
}

/// The best path between two GPUs, as `nvidia-smi topo -m` names it.
fn cell(one: &Gpu, other: &Gpu, common: impl FnOnce() -> Option<c_uint>) -> Option<String> {
    let direct = one.to(other).max(other.to(one));
    let bonded = if direct > 0 { direct } else { one.to_switches().min(other.to_switches()) };
    if bonded > 0 {
        return Some(format!("NV{bonded}"));
    }
    // nvmlGpuTopologyLevel_t. Two GPUs of one board are connected by its bridge: PIX.
    let name = match common()? {
        0 | 10 => "PIX",
        20 => "PXB",
        30 => "PHB",
        40 => "NODE",
        50 => "SYS",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GPUs whose links that are up end there.
    fn gpus(remotes: &[&[Remote]]) -> Vec<Gpu> {
        let link = |(remote, number): (&Remote, c_uint)| Link { number, is_up: true, remote: Some(*remote) };
        let gpu = |(remotes, index): (&&[Remote], c_uint)| Gpu {
            index,
            handle: std::ptr::null_mut(),
            links: remotes.iter().zip(0..).map(link).collect(),
        };
        remotes.iter().zip(0..).map(gpu).collect()
    }

    #[track_caller]
    fn check(remotes: &[&[Remote]], level: Option<c_uint>, expected: Option<&[&[&str]]>) {
        let found = cells(&gpus(remotes), |_, _| level);
        let expected = expected.map(|rows| rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()));
        assert_eq!(found, expected.map(Iterator::collect::<Vec<Vec<String>>>));
    }

    #[test]
    fn links_to_switches_join_all_and_the_lesser_number_counts() {
        use Remote::Switch;
        let expected: &[&[&str]] = &[&["X", "NV3", "NV2"], &["NV3", "X", "NV2"], &["NV2", "NV2", "X"]];
        check(&[&[Switch; 3], &[Switch; 4], &[Switch; 2]], Some(50), Some(expected));
    }

    #[test]
    fn pairs_are_joined_by_their_own_links_and_others_by_the_host() {
        use Remote::Gpu;
        let expected: &[&[&str]] = &[&["X", "NV2", "SYS"], &["NV2", "X", "SYS"], &["SYS", "SYS", "X"]];
        check(&[&[Gpu(1); 2], &[Gpu(0); 2], &[]], Some(50), Some(expected));
        // One side answers only.
        check(&[&[], &[Gpu(0)]], Some(50), Some(&[&["X", "NV1"], &["NV1", "X"]]));
    }

    #[test]
    fn an_end_without_a_type_is_a_switch_if_no_link_ends_at_a_gpu() {
        use Remote::{Gpu, Other};
        check(&[&[Other; 6], &[Other; 6]], Some(50), Some(&[&["X", "NV6"], &["NV6", "X"]]));
        let of_power: &[&[&str]] = &[&["X", "NV1", "SYS"], &["NV1", "X", "SYS"], &["SYS", "SYS", "X"]];
        check(&[&[Gpu(1), Other], &[Gpu(0), Other], &[Gpu(9), Other]], Some(50), Some(of_power));
    }

    #[test]
    fn links_are_listed_by_state_and_end() {
        let mut gpus = gpus(&[&[Remote::Switch, Remote::Gpu(4), Remote::Switch]]);
        gpus[0].links.push(Link { number: 3, is_up: false, remote: None });
        let expected = json!({"up": [0, 1, 2], "down": [3], "ends": {"switch": 2, "GPU 4": 1}});
        assert_eq!(gpus[0].links_json(), expected);
    }

    #[test]
    fn levels_have_the_names_of_nvidia_smi() {
        for (level, name) in [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")] {
            check(&[&[], &[]], Some(level), Some(&[&["X", name], &[name, "X"]]));
        }
        check(&[&[], &[]], Some(7), None);
        check(&[&[], &[]], None, None);
        check(&[&[]], Some(10), None);
    }
}
