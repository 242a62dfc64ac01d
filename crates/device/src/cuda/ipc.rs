//! Memory of a device that other processes of the host reach: CUDA's IPC.

use std::ptr::NonNull;
use std::sync::Arc;

use terms::Space;

use super::driver::{Address, IpcHandle};
use super::{CudaError, Gpu, Result};
use crate::Region;

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: also on another device, where the two reach each other.
const PEER_ACCESS: u32 = 1;

/// Bytes by which another process of the host finds an allocation.
pub const HANDLE_BYTES: usize = 64;

/// Keeps an allocation of another process in reach.
#[derive(Debug)]
struct Imported {
    gpu: Arc<Gpu>,
    address: Address,
}

impl Drop for Imported {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.gpu.enter();
        let _ = self.gpu.synchronise();
        // SAFETY: as cuda.h declares it: what cuIpcOpenMemHandle gave, given back once.
        unsafe { (self.gpu.driver.functions.ipc_close)(self.address) };
    }
}

impl Region {
    /// The bytes by which other processes of the host import this memory, which is one allocation of a device.
    ///
    /// # Errors
    /// What the driver says; refused for memory of the host.
    pub fn exported(self: &Arc<Self>) -> Result<[u8; HANDLE_BYTES]> {
        let gpu = self.gpu().ok_or_else(|| CudaError::refused("cuIpcGetMemHandle", "the memory is the host's"))?;
        let mut handle = IpcHandle([0; HANDLE_BYTES]);
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let code = unsafe { (gpu.driver.functions.ipc_get)(&mut handle, self.address() as Address) };
        gpu.driver.succeeded("cuIpcGetMemHandle", code)?;
        Ok(handle.0)
    }

    /// Memory that another process of the host exported, on this device or on one that it reaches. It must stay there while
    /// this lives. Only copies reach it: its owner fills and compares it.
    ///
    /// # Errors
    /// What the driver says, for example that the two devices do not reach each other.
    pub fn imported(gpu: &Arc<Gpu>, handle: [u8; HANDLE_BYTES], len: usize) -> Result<Arc<Self>> {
        gpu.enter()?;
        let mut address: Address = 0;
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let code = unsafe { (gpu.driver.functions.ipc_open)(&mut address, IpcHandle(handle), PEER_ACCESS) };
        gpu.driver.succeeded("cuIpcOpenMemHandle", code)?;
        let owner = Imported { gpu: gpu.clone(), address };
        let base = NonNull::new(address as *mut u8);
        let base = base.ok_or_else(|| CudaError::refused("cuIpcOpenMemHandle", "the driver gave no address"))?;
        // SAFETY: memory of a device until the owner is dropped; the host reads and writes none of it.
        Ok(Arc::new(unsafe { Self::from_raw(base, len, Space::Cuda, Box::new(owner)) }))
    }

    /// The device that reaches this memory of another process.
    pub fn reaching(&self) -> Option<&Arc<Gpu>> {
        self.owner::<Imported>().map(|imported| &imported.gpu)
    }
}
