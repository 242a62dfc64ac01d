//! Why a product or another operation cannot be computed.

use device::cuda::CudaError;

/// What functions of this module give.
pub(super) type Result<T> = std::result::Result<T, ProductError>;

/// A call of cuBLASLt that failed, or that was refused before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProductError {
    /// The library says so.
    #[error("{what}: {name} ({said})")]
    Library {
        /// The function.
        what: &'static str,
        /// The library's name for it ("CUBLAS_STATUS_INVALID_VALUE").
        name: String,
        /// What the library says of it.
        said: String,
    },
    /// The driver says so.
    #[error(transparent)]
    Driver(#[from] CudaError),
    /// There is no such product on this GPU or in this library.
    #[error("{0}")]
    Unsupported(String),
    /// A mistake of the caller: buffers that are too short, or of another device.
    #[error("a product was refused: {0}")]
    Refused(String),
    /// A mistake of the caller of an operation other than a product.
    #[error("an operation was refused: {0}")]
    Operation(String),
}

impl ProductError {
    /// Whether this machine lacks something, and the caller made no mistake.
    pub fn is_lacking(&self) -> bool {
        match self {
            Self::Unsupported(_) => true,
            Self::Driver(error) => error.is_out_of_memory() || error.is_without_device(),
            Self::Library { .. } | Self::Refused(_) | Self::Operation(_) => false,
        }
    }
}
