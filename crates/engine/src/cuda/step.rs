//! A step of a program on a GPU: memory, operations in the order of one stream, given as graphs.
//!
//! `lower` joins operations that a kernel or the library computes at once; `staging` is pinned memory through which inputs go;
//! `sorted` keeps rows by their tokens; `graphs` captures what a stretch of a program gives, and gives it again; `loaded` is all of it
//! behind the boundary.

mod graphs;
mod loaded;
mod lower;
mod sorted;
mod staging;

use std::ops::Range;
use std::sync::Arc;

use device::Region;
use device::cuda::{CudaError, Gpu};
use terms::{Dtype, Space};

use super::{Arithmetic, Cublas, ProductError, Products, Train, WORKSPACE};
use crate::op::{Dense, Op};
use crate::{Device, Error, Instruction, Loaded, Memory, Program};
use loaded::OnGpu;
use sorted::Sorted;

/// A GPU that computes steps.
pub struct Cuda {
    gpu: Arc<Gpu>,
    train: Arc<Train>,
    products: Arc<Products>,
}

/// What the device says, as an error of the engine.
pub(super) fn refused(error: impl Into<ProductError>) -> Error {
    let error = error.into();
    match error {
        error if error.is_lacking() => Error::Lacking(error.to_string()),
        error => Error::Device(error.to_string()),
    }
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

    /// The products.
    pub fn products(&self) -> &Arc<Products> {
        &self.products
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

fn operations(program: &Program, stretch: Range<usize>) -> impl Iterator<Item = (usize, &Op)> {
    let first = stretch.start;
    program.instructions[stretch].iter().enumerate().filter_map(move |(at, instruction)| match instruction {
        Instruction::Run(op) => Some((first + at, op)),
        _ => None,
    })
}

/// Bytes of temporary memory of operations.
fn scratch(program: &Program) -> usize {
    let all = operations(program, 0..program.instructions.len());
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
        for (_, op) in operations(program, 0..program.instructions.len()) {
            if let Some(why) = self.lacks(op, program)? {
                return Err(Error::Lacking(why));
            }
        }
        Ok(Box::new(OnGpu::new(self, program, memory, seed)?))
    }
}

/// Zeroed memory of the GPU.
fn region(gpu: &Arc<Gpu>, bytes: usize) -> Result<Arc<Region>, Error> {
    Region::cuda(gpu, bytes).map_err(|error| memory(error, bytes))
}

fn memory(error: CudaError, bytes: usize) -> Error {
    match error.is_out_of_memory() {
        true => Error::Memory { bytes, source: std::io::Error::other(error) },
        false => refused(error),
    }
}

/// The product that an operation is, as cuBLAS has it.
fn is_product(op: &Op) -> bool {
    matches!(op, Op::Dense(Dense::MatMul(_)))
}
