//! Models as pure specifications: layer kinds, dimensions, parameters, initialisation, FLOPs. No arithmetic on tensors,
//! no memory, no ranks: the engine, tensor sharding, memory plans and predictions all build from what stands here.
//!
//! [`CATALOG`] is the table of models: a new model of existing layer kinds is one module and one line there.

mod layer;
mod parameter;
mod specification;

pub use layer::{Attention, BatchNorm, Conv2d, CrossEntropy, Embedding, Layer, Linear, Norm, Pool, Rotary, Split};
pub use parameter::{Init, Parameter, Part, Shard};
pub use specification::{Block, Family, Input, Model, Node, Value};
