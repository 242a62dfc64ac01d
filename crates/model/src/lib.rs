//! Models as pure specifications: layer kinds, dimensions, parameters, initialisation, FLOPs. No arithmetic on tensors,
//! no memory, no ranks: the engine, tensor sharding, memory plans and predictions all build from what stands here.
//!
//! [`CATALOG`] is the table of models: a new model of existing layer kinds is one module and one line there.

mod catalog;
mod entry;
mod error;
mod flops;
mod graph;
mod initial;
mod layer;
mod models;
mod parameter;
mod settings;
mod shape;
mod specification;

pub use catalog::{CATALOG, entry, model};
pub use entry::Entry;
pub use error::ModelError;
pub use flops::Convention;
pub use initial::initial_f64;
pub use layer::{Attention, BatchNorm, Conv2d, CrossEntropy, Embedding, Layer, Linear, Norm, Pool, Rotary, Split};
pub use parameter::{Init, Parameter, Part, Shard};
pub use settings::{Fallback, Setting, Values};
pub use shape::{MatrixShape, Unsound};
pub use specification::{Block, Family, Input, Model, Node, Value};
