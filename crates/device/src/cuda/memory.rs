//! Memory of a device, as regions; what is done with its bytes from here.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use terms::Space;

use super::driver::Address;
use super::{CudaError, Gpu, Result, Stream};
use crate::{Region, Slice};

/// Gives memory back.
type Release = Box<dyn FnOnce(*mut c_void) + Send + Sync>;

/// Keeps a region's memory, and its device.
struct RegionMemory {
    gpu: Arc<Gpu>,
    address: *mut c_void,
    /// Bytes that went of the device for it: allocators round up.
    taken: u64,
    release: Option<Release>,
}

// SAFETY: an address of the device, which is given back once, on drop.
unsafe impl Send for RegionMemory {}
// SAFETY: as above.
unsafe impl Sync for RegionMemory {}

impl Drop for RegionMemory {
    fn drop(&mut self) {
        // What the driver says when things end, nobody can act on.
        let _ = self.gpu.enter();
        // What the stream was given may still use it: not every way of giving memory back waits.
        let _ = self.gpu.synchronise();
        if let Some(release) = self.release.take() {
            release(self.address);
        }
        self.gpu.give_back(self.taken);
    }
}

impl Region {
    /// Zeroed memory of the device.
    ///
    /// # Errors
    /// What the driver says: [`CudaError::is_out_of_memory`] where there is too little.
    pub fn cuda(gpu: &Arc<Gpu>, len: usize) -> Result<Arc<Self>> {
        gpu.enter()?;
        let (mut address, before): (Address, u64) = (0, gpu.free_bytes()?);
        // SAFETY: as cuda.h declares it; the out-pointer is valid.
        let made = unsafe { (gpu.driver.functions.memory_alloc)(&mut address, len.max(1)) };
        gpu.driver.succeeded("cuMemAlloc", made)?;
        let of = gpu.clone();
        // SAFETY: as cuda.h declares it: the address that the driver gave, given back once. The region keeps the device.
        let free = move |at: *mut c_void| unsafe {
            (of.driver.functions.memory_free)(at as Address);
        };
        // SAFETY: memory of this device, of that length, until `free` gives it back.
        unsafe { Self::cuda_from_raw(gpu, address as *mut c_void, len, before, free) }
    }

    /// A region over memory that a library allocated on the device, of which nothing is expected: it is zeroed here.
    /// `free_before`: bytes of the device that were free before.
    ///
    /// # Errors
    /// What the driver says; the memory is then released.
    ///
    /// # Safety
    /// `address..address + len` is memory of the device until `release` is called with the address, which gives it back.
    pub unsafe fn cuda_from_raw(
        gpu: &Arc<Gpu>,
        address: *mut c_void,
        len: usize,
        free_before: u64,
        release: impl FnOnce(*mut c_void) + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let mut memory = RegionMemory { gpu: gpu.clone(), address, taken: 0, release: Some(Box::new(release)) };
        memory.taken = gpu.take(free_before)?;
        let base = NonNull::new(address.cast::<u8>())
            .ok_or_else(|| CudaError::refused("an allocation", "the driver gave no address"))?;
        // SAFETY: the caller's promise; the owner gives the memory back when the region is dropped. Nothing here reads or writes
        // it from the host: `Region::base` refuses memory of a device.
        let region = Arc::new(unsafe { Self::from_raw(base, len, Space::Cuda, Box::new(memory)) });
        region.whole().set(0)?;
        gpu.synchronise()?;
        Ok(region)
    }

    /// The device that the memory belongs to; None: it is the host's.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.owner::<RegionMemory>().map(|memory| &memory.gpu)
    }
}

impl Slice {
    /// The device that the memory belongs to; None: it is the host's.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.region().gpu()
    }

    /// Fills device memory with this byte, in the stream's order.
    ///
    /// # Errors
    /// What the driver says; refused for memory of the host.
    pub fn set(&self, byte: u8) -> Result<()> {
        self.set_on(byte, None)
    }

    /// Fills device memory with this byte, in the order of another stream of the device where one is given.
    ///
    /// # Errors
    /// As [`Slice::set`].
    pub fn set_on(&self, byte: u8, beside: Option<&Stream>) -> Result<()> {
        let gpu = self.on_device("cuMemsetD8Async")?;
        if self.is_empty() {
            return Ok(());
        }
        let stream = gpu.stream_of(beside);
        // SAFETY: as cuda.h declares it; the slice lies inside its region.
        let set = unsafe { (gpu.driver.functions.memory_set)(self.address() as Address, byte, self.len(), stream) };
        gpu.driver.succeeded("cuMemsetD8Async", set)
    }

    /// Copies these bytes to the beginning of device memory, and waits until they are there.
    ///
    /// # Errors
    /// What the driver says; refused for memory of the host, and for more bytes than the slice holds.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let gpu = self.on_device("cuMemcpyHtoDAsync")?;
        self.holds(bytes.len(), "cuMemcpyHtoDAsync")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (to, from) = (self.address() as Address, bytes.as_ptr().cast());
        // SAFETY: as cuda.h declares it; the slice holds the bytes, which live until the copy is done: it is waited for.
        let copied = unsafe { (gpu.driver.functions.copy_in)(to, from, bytes.len(), gpu.stream) };
        gpu.driver.succeeded("cuMemcpyHtoDAsync", copied)?;
        gpu.synchronise()
    }

    /// Copies the beginning of device memory to these bytes, after all that the stream was given before.
    ///
    /// # Errors
    /// As [`Slice::write`].
    pub fn read(&self, bytes: &mut [u8]) -> Result<()> {
        let gpu = self.on_device("cuMemcpyDtoHAsync")?;
        self.holds(bytes.len(), "cuMemcpyDtoHAsync")?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (to, from) = (bytes.as_mut_ptr().cast(), self.address() as Address);
        // SAFETY: as cuda.h declares it; the slice holds the bytes, and the copy is waited for.
        let copied = unsafe { (gpu.driver.functions.copy_out)(to, from, bytes.len(), gpu.stream) };
        gpu.driver.succeeded("cuMemcpyDtoHAsync", copied)?;
        gpu.synchronise()
    }

    pub(super) fn on_device(&self, what: &'static str) -> Result<&Arc<Gpu>> {
        self.gpu().ok_or_else(|| CudaError::refused(what, "the memory is the host's"))
    }

    fn holds(&self, len: usize, what: &'static str) -> Result<()> {
        let short = || CudaError::refused(what, format!("{len} bytes, where {} are held", self.len()));
        if len <= self.len() { Ok(()) } else { Err(short()) }
    }
}
