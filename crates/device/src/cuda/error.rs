//! What the driver says when it refuses something.

/// CUDA_ERROR_OUT_OF_MEMORY.
const OUT_OF_MEMORY: i32 = 2;
/// CUDA_ERROR_NOT_INITIALIZED, ..._NO_DEVICE, ..._INVALID_DEVICE, ..._SYSTEM_DRIVER_MISMATCH, ..._COMPAT_NOT_SUPPORTED_ON_DEVICE.
const NO_DEVICE: [i32; 5] = [3, 100, 101, 803, 804];

/// A call of the driver that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {name} ({said})")]
pub struct CudaError {
    /// The function.
    pub what: &'static str,
    /// CUresult.
    pub code: i32,
    /// The driver's name for it ("CUDA_ERROR_OUT_OF_MEMORY").
    pub name: String,
    /// The driver's words.
    pub said: String,
}

impl CudaError {
    /// Something that this program refuses before the driver sees it.
    pub(super) fn refused(what: &'static str, said: impl Into<String>) -> Self {
        // CUDA_ERROR_INVALID_VALUE.
        Self { what, code: 1, name: "refused".to_owned(), said: said.into() }
    }

    /// Whether the device has too little memory.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether there is no device that could be used.
    pub fn is_without_device(&self) -> bool {
        NO_DEVICE.contains(&self.code)
    }
}
