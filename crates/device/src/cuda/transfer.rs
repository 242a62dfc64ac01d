//! Copies by the device's copy engines: within its memory, and from and to pinned memory of the host; further streams, beside
//! which the device's own goes on.

use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use terms::Space;

use super::driver::Address;
use super::{CudaError, Gpu, Result, Stream};
use crate::{Region, Slice};

/// What keeps pinned memory: pages of the host that the device reaches by itself.
#[derive(Debug)]
pub struct Pinned {
    gpu: Arc<Gpu>,
    address: *mut c_void,
    /// The NUMA node that it was asked for.
    node: Option<u32>,
    /// The region whose memory it is, if it is not the driver's.
    of: Option<Arc<Region>>,
}

// SAFETY: an address that is given back once, on drop.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.gpu.enter();
        let _ = self.gpu.synchronise();
        let functions = &self.gpu.driver.functions;
        let end = if self.of.is_some() { functions.host_unregister } else { functions.host_free };
        // SAFETY: as cuda.h declares them: what cuMemHostAlloc gave or cuMemHostRegister took, given back once, after the stream
        // is done with it. A region that it lies in is held until then.
        unsafe { end(self.address) };
    }
}

impl Pinned {
    /// The NUMA node that it lies on, where the system says which is the device's.
    pub fn node(&self) -> Option<u32> {
        self.node
    }
}

impl Region {
    /// Zeroed, pinned memory of the host, on the NUMA node that is nearest to the device where the system names one.
    ///
    /// # Errors
    /// What the driver says.
    pub fn pinned(gpu: &Arc<Gpu>, len: usize) -> Result<Arc<Self>> {
        gpu.enter()?;
        let node = gpu.bus_id().ok().and_then(|id| node_of(Path::new("/sys"), &id));
        let near = node.and_then(Near::enter);
        let mut address = ptr::null_mut();
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let made = unsafe { (gpu.driver.functions.host_alloc)(&mut address, len.max(1), 0) };
        drop(near);
        gpu.driver.succeeded("cuMemHostAlloc", made)?;
        let owner = Pinned { gpu: gpu.clone(), address, node, of: None };
        let base = NonNull::new(address.cast::<u8>());
        let base = base.ok_or_else(|| CudaError::refused("cuMemHostAlloc", "the driver gave no address"))?;
        // SAFETY: the driver gave so many bytes, which stay until the owner is dropped.
        let region = unsafe {
            ptr::write_bytes(base.as_ptr(), 0, len);
            Self::from_raw(base, len, Space::Host, Box::new(owner))
        };
        Ok(Arc::new(region))
    }

    /// The memory of a region of the host, pinned for as long as the result lives: the device's copies take that one, and others
    /// go on with theirs. It holds at least one byte.
    ///
    /// # Errors
    /// What the driver says: of memory that is pinned already, and where the system lets no more be locked.
    ///
    /// # Panics
    /// For memory of a device.
    pub fn pin(gpu: &Arc<Gpu>, of: &Arc<Self>) -> Result<Arc<Self>> {
        gpu.enter()?;
        let (address, len) = (of.base(), of.len());
        // SAFETY: as cuda.h declares it: memory that stays until it is unregistered, since the owner holds its region.
        let made = unsafe { (gpu.driver.functions.host_register)(address.cast(), len, 0) };
        gpu.driver.succeeded("cuMemHostRegister", made)?;
        let owner = Pinned { gpu: gpu.clone(), address: address.cast(), node: None, of: Some(of.clone()) };
        let base = NonNull::new(address);
        let base = base.ok_or_else(|| CudaError::refused("cuMemHostRegister", "the region has no address"))?;
        // SAFETY: the bytes of the region, which the owner holds.
        Ok(Arc::new(unsafe { Self::from_raw(base, len, Space::Host, Box::new(owner)) }))
    }
}

impl Gpu {
    /// The place of the device on the PCI bus, as `0000:17:00.0`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn bus_id(&self) -> Result<String> {
        let mut text = [0 as c_char; 64];
        // SAFETY: as cuda.h declares it; the text has the room that it is said to have.
        let code = unsafe { (self.driver.functions.bus_id)(text.as_mut_ptr(), 63, self.device) };
        self.driver.succeeded("cuDeviceGetPCIBusId", code)?;
        let bytes: Vec<u8> = text.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).to_lowercase())
    }
}

/// The NUMA node of a device of the bus; None where there is one node, or the system does not say.
fn node_of(sys: &Path, bus_id: &str) -> Option<u32> {
    let is_name = bus_id.chars().all(|sign| sign.is_ascii_hexdigit() || matches!(sign, ':' | '.'));
    let file: PathBuf = sys.join("bus/pci/devices").join(bus_id).join("numa_node");
    std::fs::read_to_string(file).ok().filter(|_| is_name)?.trim().parse().ok().filter(|node| *node < NODES)
}

/// Nodes that a mask of one word names.
const NODES: u32 = 64;

/// While it lives, new pages of this thread lie on one NUMA node, as far as it has any.
struct Near;

impl Near {
    /// None where the thread has a policy already: who started it knows better.
    fn enter(node: u32) -> Option<Self> {
        if policy() != Some(libc::MPOL_DEFAULT) {
            return None;
        }
        let mask: u64 = 1 << node.min(NODES - 1);
        // SAFETY: as set_mempolicy(2) has it: a mask of 64 bits, one more than the largest node. A kernel without NUMA refuses.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, &raw const mask, u64::from(NODES) + 1) };
        Some(Self)
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        // SAFETY: as above; the default has no mask.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, ptr::null::<u64>(), 0_u64) };
    }
}

/// Where new pages of this thread lie; None where the kernel does not say.
fn policy() -> Option<i32> {
    let (mut mode, none) = (-1_i32, ptr::null_mut::<u64>());
    // SAFETY: as get_mempolicy(2) has it: the out-pointer is valid, and no mask is asked for.
    let code = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, none, 0_u64, none, 0_u64) };
    (code == 0).then_some(mode)
}

impl Slice {
    /// Copies as many bytes here, in the order of a stream: the device's own, or another one of it. One side is device memory; the
    /// other too, or that of another process (`Region::imported`), or pinned memory of the host.
    ///
    /// # Errors
    /// What the driver says; refused for other memory, and where the lengths differ.
    pub fn copy_from(&self, from: &Slice, beside: Option<&Stream>) -> Result<()> {
        let gpu = self.gpu().or(from.gpu());
        let gpu = gpu.ok_or_else(|| CudaError::refused("a copy", "both sides are the host's"))?;
        let there = |slice: &Slice| slice.gpu().is_some() || slice.region().reaching().is_some();
        let reached = |slice: &Slice| there(slice) || slice.region().owner::<Pinned>().is_some();
        if self.len() != from.len() || !reached(self) || !reached(from) {
            return Err(CudaError::refused("a copy", "sides of other lengths, or memory that is not pinned"));
        }
        if self.is_empty() {
            return Ok(());
        }
        let stream = gpu.stream_of(beside);
        let (functions, bytes) = (&gpu.driver.functions, self.len());
        let [to, at] = [self, from].map(|slice| slice.address() as Address);
        // SAFETY: as cuda.h declares them: both sides hold so many bytes, and stay until the streams are done: the device's own is
        // waited for when memory is given back, and it comes after the others (`Stream::lead`).
        let (name, code) = unsafe {
            match (there(self), there(from)) {
                (true, true) => ("cuMemcpyDtoDAsync", (functions.copy_within)(to, at, bytes, stream)),
                (true, false) => ("cuMemcpyHtoDAsync", (functions.copy_in)(to, from.ptr().cast(), bytes, stream)),
                _ => ("cuMemcpyDtoHAsync", (functions.copy_out)(self.ptr().cast(), at, bytes, stream)),
            }
        };
        gpu.driver.succeeded(name, code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_device_is_what_the_system_says() {
        let sys = std::env::temp_dir().join(format!("device-numa-{}", std::process::id()));
        let place = sys.join("bus/pci/devices/0000:17:00.0");
        std::fs::create_dir_all(&place).unwrap();
        let node = |text: &str| {
            std::fs::write(place.join("numa_node"), text).unwrap();
            node_of(&sys, "0000:17:00.0")
        };
        let found = [node("1\n"), node("-1\n"), node("64\n"), node("x")];
        let strange = [node_of(&sys, "0000:18:00.0"), node_of(&sys, "../../bus/pci/devices/0000:17:00.0")];
        std::fs::remove_dir_all(&sys).unwrap();
        assert_eq!(found, [Some(1), None, None, None], "-1: one node, or unknown");
        assert_eq!(strange, [None; 2]);
    }

    /// The policy is the thread's again afterwards: pages of other memory do not follow.
    #[test]
    fn a_thread_is_near_a_device_only_for_a_while() {
        let before = policy();
        let near = Near::enter(0);
        let (has, within) = (near.is_some(), policy());
        let again = Near::enter(0);
        assert!(again.is_none(), "a policy that is there stays");
        drop((again, near));
        assert_eq!((policy(), has), (before, before == Some(libc::MPOL_DEFAULT)));
        assert!(!has || within == Some(libc::MPOL_PREFERRED), "{within:?}");
    }
}
