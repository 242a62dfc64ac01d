//! Computation on a CUDA device: products by cuBLASLt, and kernels over the rows of matrices. Nothing of CUDA is needed to build this.
//!
//! `library` is cuBLASLt's table of functions, opened at run time; `form` says what is multiplied, in which arithmetic, and what
//! happens to the result; `descriptors` hold the library's own descriptions of it; `product` chooses an algorithm and multiplies;
//! `rows` fills, compares, adds and gathers where matrices lie; `cudnn` has attention and convolutions by the graphs of that library; `train`
//! runs the other operations of a training step: attention, norms, batch norm, pooling, activations, embeddings, the loss, updates; `step`
//! is a device that computes all of a program.

mod arithmetic;
mod cudnn;
mod descriptors;
mod error;
mod form;
mod library;
mod product;
mod rows;
mod step;
mod train;

pub use arithmetic::{Arithmetic, decode};
pub use cudnn::{
    CUDNN_KINDS, CUDNN_SINCE, CUDNN_STEMS, Cudnn, CudnnAttention, CudnnConvolutions, CudnnDevice, CudnnPass, Narrow,
};
pub use error::ProductError;
pub use form::{Batch, Epilogue, Form, Operands};
pub use library::{Cublas, STEMS};
pub use product::{Algorithm, Products, WORKSPACE};
pub use rows::{Found, Matrix, ROWS, Rows};
pub use step::{Attends, AttentionTimes, Cuda, LOGITS_MULTIPLE};
pub use train::{
    ATTENTION, ATTENTION_GRADIENT, ATTENTION_PLAIN, Adam, AttentionKernel, DeviceContext, NORM, PartLimits,
    QueryGradients, SPATIAL, Squares, TRAIN, Train, sorted_rows,
};
