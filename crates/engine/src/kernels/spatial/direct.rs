//! Direct convolution for AVX-512: sums of a tile of output pixels stay in registers over all taps and channels. f32, or
//! bf16 and f16 widened to it when the source is copied.
//!
//! What is copied: weights, so that the vectors of one tile's outputs follow each other; and source pixels with their
//! padding, so that inner loops know no borders. Both copies cost a fraction of the products that read them.

mod correlate;
mod gradient;
mod image;
mod pack;
mod tile;

pub(super) use correlate::{correlate, correlate_scratch};
pub(super) use gradient::{gradient, gradient_scratch};
pub use pack::transposed;

/// Numbers of a vector.
pub const LANES: usize = 16;

/// Whether these kernels run here, for elements of `bytes` bytes.
pub fn serves(bytes: usize) -> bool {
    bytes <= 4 && is_x86_feature_detected!("avx512f")
}
