//! Numbers and their functions in every version of kernels.

mod math;
mod number;
