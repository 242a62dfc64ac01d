//! A step of a program on a GPU: memory, operations in the order of one stream, given as graphs.
//!
//! `errors` is what a GPU refuses; `lower` joins operations that a kernel or the library computes at once; `staging` is pinned memory through which inputs go;
//! `sorted` keeps rows by their tokens; `graphs` captures what a stretch of a program gives, and gives it again; `loaded` is all of it
//! behind the boundary.

mod errors;
mod graphs;
mod loaded;
mod lower;
mod sorted;
mod staging;

use std::sync::Arc;

use device::Region;
use device::cuda::Gpu;
use terms::{Dtype, Space};

use super::{Arithmetic, Cublas, Products, Train, WORKSPACE};
use crate::op::Op;
use crate::{Device, Error, Loaded, Memory, Program};
use errors::{refused, region};
use loaded::OnGpu;
use sorted::Sorted;

/// A GPU that computes steps.
pub struct Cuda {
    gpu: Arc<Gpu>,
    train: Arc<Train>,
    products: Arc<Products>,
}

impl Cuda {
    /// A GPU with its kernels, and cuBLAS for products. `is_tuned`: products take the fastest of several algorithms.
    ///
    /// # Errors
    /// What the driver or the library says.
    pub fn new(gpu: &Arc<Gpu>, library: &Arc<Cublas>, is_tuned: bool) -> Result<Self, Error> {
        let train = Arc::new(Train::load(gpu).map_err(refused)?);
        let products = Arc::new(Products::new(gpu, library, is_tuned).map_err(refused)?);
        Ok(Self { gpu: gpu.clone(), train, products })
    }

    /// Bytes of temporary memory that a program takes, besides its buffers: for kernels, for cuBLAS, and for rows by their tokens.
    pub fn scratch_of(program: &Program) -> usize {
        scratch(program) + Sorted::bytes(program) + WORKSPACE
    }

    /// Why an operation cannot be computed; None where it can.
    fn lacks(&self, op: &Op, program: &Program) -> Result<Option<String>, Error> {
        if let Op::Spatial(op) = op {
            return Ok(Some(format!(
                "GPUs have no kernel for {op:?}: convolutional networks train on the CPU, and by PyTorch"
            )));
        }
        let mut narrow = None;
        op.for_each_view(&mut |view| {
            narrow = narrow.or(Some(program.dtype(view)).filter(|dtype| *dtype == Dtype::Bf16))
        });
        let (own, since) = (self.gpu.capability().map_err(refused)?, Arithmetic::Bf16.since());
        Ok((narrow.is_some() && own < since).then(|| {
            let [major, minor] = own;
            format!(
                "bf16 needs a GPU of sm_80 or later, and {} is of sm_{major}{minor}: `precision: f16` or `f32`",
                self.gpu.name()
            )
        }))
    }
}

/// Bytes of an element of what an operation computes with: the narrowest float that it names.
fn narrowest(op: &Op, program: &Program) -> usize {
    let mut bytes = 8;
    op.for_each_view(&mut |view| {
        let dtype = program.dtype(view);
        if dtype.is_float() {
            bytes = bytes.min(dtype.bytes() as usize);
        }
    });
    bytes
}

/// Bytes of temporary memory of operations.
fn scratch(program: &Program) -> usize {
    let all = program.operations(0..program.instructions.len());
    let most = all.map(|(_, op)| Train::scratch_bytes(op, narrowest(op, program))).max().unwrap_or(0);
    most.max(lower::squares_bytes(program)).max(64)
}

impl Device for Cuda {
    fn space(&self) -> Space {
        Space::Cuda
    }

    fn scratch(&self, program: &Program) -> usize {
        Self::scratch_of(program)
    }

    fn alloc(&self, bytes: usize) -> Result<Arc<Region>, Error> {
        region(&self.gpu, bytes)
    }

    fn load(&self, program: &Arc<Program>, memory: Memory, seed: u64) -> Result<Box<dyn Loaded>, Error> {
        for (_, op) in program.operations(0..program.instructions.len()) {
            if let Some(why) = self.lacks(op, program)? {
                return Err(Error::Lacking(why));
            }
        }
        let Self { gpu, train, products } = self;
        let scratch = region(gpu, scratch(program))?.whole();
        Ok(Box::new(OnGpu::new(gpu, (train, products), program, (memory, scratch), seed)?))
    }
}
