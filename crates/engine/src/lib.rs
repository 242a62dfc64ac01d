//! Kernels and layers on one device. Knows tensors, never ranks: what crosses ranks stands in a program as an
//! [`Exchange`], which `parallel` joins.
//!
//! A step is a [`Program`]: a list of instructions over buffers, known before the first step. From the list follow
//! memory ([`plan`]), FLOPs ([`flops`]) and what is to be exchanged; [`execute`] runs one operation.

mod buffer;
mod context;
mod element;
mod error;
mod execute;
mod kernels;
pub mod layers;
mod memory;
pub mod op;
mod plan;
mod program;
mod views;

pub use buffer::{Buffer, BufferId, Category, Lifetime, View};
pub use context::{Context, Matmul, Scratch, Step, Threads};
pub use element::{Element, Wide};
pub use error::Error;
pub use execute::{execute, flops, multiplier_of, scratch_bytes};
pub use kernels::dense::{Multiplier, multiplier};
pub use memory::Memory;
pub use op::Op;
pub use plan::{MemoryPlan, Place, plan};
pub use program::{Axis, Exchange, ExchangeKind, Instruction, Phase, Program};
