//! A step of a program on a GPU: memory, operations in the order of one stream, given as graphs.
//!
//! `attention` and `convolutions` are what cuDNN computes; `errors` is what a GPU refuses; `lower` joins operations that a kernel or the
//! library computes at once; `staging` is pinned memory through which inputs go; `sorted` keeps rows by their tokens; `graphs` captures what
//! a stretch of a program gives, and gives it again; `kinds` notes which kind of work runs when; `loaded` is all of it behind the boundary.

mod attention;
mod convolutions;
mod errors;
mod graphs;
mod kinds;
mod loaded;
mod lower;
mod sorted;
mod staging;

use std::sync::Arc;

use device::Region;
use device::cuda::Gpu;
use terms::{Dtype, Space};

use super::{
    Arithmetic, Cublas, Cudnn, CudnnAttention, CudnnConvolutions, CudnnDevice, ProductError, Products, Train, WORKSPACE,
};
use crate::op::{Attention, Op};
use crate::{Device, Error, Loaded, Memory, Program};
pub use attention::{Attends, AttentionTimes};
use errors::{refused, region};
use loaded::OnGpu;
use sorted::Sorted;

/// Rows of logits have a multiple of so many elements on GPUs: lines of 128 bytes of 16-bit numbers, so that wide loads and whole tiles
/// of tensor cores reach them.
pub const LOGITS_MULTIPLE: usize = 64;

/// A GPU that computes steps.
pub struct Cuda {
    gpu: Arc<Gpu>,
    train: Arc<Train>,
    products: Arc<Products>,
    cudnn: Option<Arc<CudnnDevice>>,
    /// What attention was asked for, and whether it is cuDNN's.
    attends: Attends,
    attends_by_cudnn: bool,
}

impl Cuda {
    /// A GPU with its kernels, and cuBLAS for products. `is_tuned`: products take the fastest of several algorithms.
    ///
    /// # Errors
    /// What the driver or the library says.
    pub fn new(gpu: &Arc<Gpu>, library: &Arc<Cublas>, is_tuned: bool) -> Result<Self, Error> {
        let train = Arc::new(Train::load(gpu).map_err(refused)?);
        let products = Arc::new(Products::new(gpu, library, is_tuned).map_err(refused)?);
        Ok(Self { gpu: gpu.clone(), train, products, cudnn: None, attends: Attends::Own, attends_by_cudnn: false })
    }

    /// Opens cuDNN for this GPU: it computes convolutions, and attention where that is chosen.
    ///
    /// # Errors
    /// What the library says. The GPU then computes without it.
    pub fn open_cudnn(&mut self, library: &Arc<Cudnn>) -> Result<(), ProductError> {
        self.cudnn = Some(Arc::new(CudnnDevice::of(library, &self.gpu)?));
        Ok(())
    }

    /// With these kernels of attention. The fastest are ours, unless [`Self::attend_by_cudnn`] says otherwise.
    pub fn with_attention(self, attends: Attends) -> Self {
        Self { attends, attends_by_cudnn: attends == Attends::Cudnn, ..self }
    }

    /// cuDNN's attention was the faster one.
    pub fn attend_by_cudnn(&mut self) {
        self.attends_by_cudnn = true;
    }

    /// cuDNN's version, where it is used.
    pub fn cudnn_version(&self) -> Option<String> {
        self.cudnn.as_ref().map(|device| device.library().version())
    }

    /// How long attention takes by our kernels and by cuDNN's; or why they cannot be compared.
    ///
    /// # Errors
    /// What the driver or the library says.
    pub fn compare_attention(
        &self,
        op: &Attention,
        dtype: Dtype,
    ) -> Result<std::result::Result<AttentionTimes, String>, Error> {
        match &self.cudnn {
            Some(device) => attention::compare(&self.gpu, &self.train, device, (op, dtype)),
            None => Ok(Err("cuDNN is not open".to_owned())),
        }
    }

    /// Bytes of temporary memory that a program takes, besides its buffers: for kernels, for cuBLAS, and for rows by their tokens;
    /// where cuDNN may compute attention, for that, too.
    pub fn scratch_of(program: &Program, attends: Attends) -> usize {
        scratch(program, attends != Attends::Own) + Sorted::bytes(program) + WORKSPACE
    }

    /// Why an operation cannot be computed; None where it can.
    fn lacks(&self, op: &Op, program: &Program) -> Result<Option<String>, Error> {
        if let Op::Spatial(op) = op
            && op.is_convolution()
            && self.cudnn.is_none()
        {
            return Ok(Some("convolutions on GPUs need cuDNN".to_owned()));
        }
        let mut narrow = None;
        op.for_each_view(&mut |view| {
            narrow = narrow.or(Some(program.dtype(view)).filter(|dtype| *dtype == Dtype::Bf16))
        });
        let (own, since) = (self.gpu.capability().map_err(refused)?, Arithmetic::Bf16.since());
        Ok((narrow.is_some() && own < since).then(|| {
            let [major, minor] = own;
            format!(
                "bf16 needs a GPU of sm_80 or later, but {} is sm_{major}{minor}: `precision: f16` or `f32`",
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
fn scratch(program: &Program, may_attend_by_cudnn: bool) -> usize {
    let of = |op: &Op| {
        let bytes = narrowest(op, program);
        let own = Train::scratch_bytes(op, bytes);
        own.max(match op {
            Op::Spatial(op) => CudnnConvolutions::scratch_bytes(op, bytes),
            Op::Dense(op) if may_attend_by_cudnn && bytes == 2 => CudnnAttention::most_scratch_bytes(op),
            _ => 0,
        })
    };
    let most = program.operations(0..program.instructions.len()).map(|(_, op)| of(op)).max().unwrap_or(0);
    most.max(lower::squares_bytes(program)).max(64)
}

impl Device for Cuda {
    fn space(&self) -> Space {
        Space::Cuda
    }

    fn scratch(&self, program: &Program) -> usize {
        Self::scratch_of(program, self.attends)
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
        let scratch = region(&self.gpu, scratch(program, self.attends != Attends::Own))?.whole();
        Ok(Box::new(OnGpu::new(self, program, (memory, scratch), seed)?))
    }
}
