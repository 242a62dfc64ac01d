//! Kernels and layers on one device. Knows tensors, never ranks: what crosses ranks stands in a program as an
//! [`Exchange`], which `parallel` joins.
//!
//! A step is a [`Program`]: a list of instructions over buffers, known before the first step. From the list follow
//! memory ([`plan`]), FLOPs ([`flops`]) and what is to be exchanged; [`execute`] runs one operation.

mod boundary;
mod buffer;
mod context;
pub mod cores;
pub mod cuda;
mod element;
mod error;
mod execute;
mod kernels;
mod kind;
pub mod layers;
mod memory;
pub mod op;
mod plan;
mod program;
mod sample;
mod shape;
mod views;

pub use boundary::{Device, Host, Loaded};
pub use buffer::{Buffer, BufferId, Category, Lifetime, View};
pub use context::{Context, Matmul, Scratch, Step, Threads};
pub use element::{Element, Wide};
pub use error::Error;
pub use execute::{execute, flops, multiplier_of, scratch_bytes};
pub use kernels::dense::{Multiplier, multiplier};
pub use kind::{Kind, Kinds};
pub use memory::Memory;
pub use op::Op;
pub use plan::{BufferPlace, MemoryPlan, plan};
pub use program::{Axis, Exchange, ExchangeKind, Instruction, Phase, Program};
pub use sample::{KERNELS, Sample};
pub use shape::{OperationShape, bytes, is_epilogue, largest_view};

/// What tests reach besides all this. They stand in tests/all: as unit tests they would compile all kernels a second time.
#[doc(hidden)]
pub mod internals {
    pub use crate::kernels::dense::{Kernel, Matrix, Size};
    pub use crate::kernels::rows::philox;
    pub use crate::kernels::simd::{Level, Number, at_level, evaluate, normal};
    pub use crate::kernels::spatial::{Convolved, Pass};
    pub use crate::plan::occupancy::Occupancy;

    pub mod attention {
        pub use crate::kernels::dense::attention::{backward_by, forward_by};
    }

    pub mod matmul {
        pub use crate::kernels::dense::matmul::run_by;
    }

    pub mod portable {
        pub use crate::kernels::spatial::portable::{correlate, gradient};
    }

    #[cfg(target_arch = "x86_64")]
    pub mod ahead {
        pub use crate::kernels::dense::packed::ahead::{Ahead, GROUP, LINE, Stream};
    }

    #[cfg(target_arch = "x86_64")]
    pub mod bf16x6 {
        pub use crate::kernels::dense::packed::bf16x6::{BLOCKS, DEPTH, SIDE, STEP_WORDS, Tasks, TilePlan};
    }

    #[cfg(target_arch = "x86_64")]
    pub mod direct {
        pub use crate::kernels::spatial::direct::{LANES, serves, transposed};
    }
}
