//! Attention by cuDNN. Scores are never in memory. `graphs` has what is planned.

mod graphs;

use std::ffi::c_void;
use std::sync::Arc;

use device::Slice;
use terms::Dtype;

use super::CudnnDevice;
use super::graph::{ALIGNMENT, BF16, F16, Tensor, TensorForm};
use super::places::{TensorPlaces, refused, scratch};
use super::plan::{Plan, Terms};
use crate::Memory;
use crate::cuda::error::Result;
use crate::cuda::{DeviceContext, ProductError};
use crate::op::{Attention, Dense};
use graphs::{Builder, Built};

/// Which way a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudnnPass {
    /// Output and log of the sum.
    Forward,
    /// Gradients. Sums for those of queries are added in an order that may change: bits may differ from run to run.
    Backward,
}

/// A pass of attention, planned for one size and one device.
#[derive(Debug)]
pub struct CudnnAttention {
    device: Arc<CudnnDevice>,
    shape: AttentionShape,
    pass: CudnnPass,
    plan: Plan,
    tensors: Tensors,
    is_single: bool,
}

/// The sizes of an operation, without its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttentionShape {
    batch: usize,
    sequence: usize,
    heads: usize,
    kv_heads: usize,
    width: usize,
    causal: bool,
    dtype: Dtype,
}

/// What a run gives places to.
#[derive(Debug, Default)]
struct Tensors {
    /// Queries, keys and values of qkv, and of its gradient.
    parts: Vec<[Tensor; 3]>,
    output: Option<Tensor>,
    d_output: Option<Tensor>,
    log_sum: Option<Tensor>,
    /// `rowsum(d_output output)`, and sums of the gradients of queries.
    delta: Option<Tensor>,
    sums: Option<Tensor>,
    /// Numbers of the host.
    numbers: Vec<(Tensor, f32)>,
}

/// What the library may take of memory for itself.
const WORKSPACE: usize = 1 << 20;
/// Parts of the scratch memory begin at multiples of it.
const APART: usize = 256;

impl AttentionShape {
    fn of(op: &Attention, dtype: Dtype) -> Self {
        let Attention { batch, sequence, heads, kv_heads, head_width: width, causal, .. } = *op;
        Self { batch, sequence, heads, kv_heads, width, causal, dtype }
    }

    fn element(&self) -> Result<i32> {
        match self.dtype {
            Dtype::Bf16 => Ok(BF16),
            Dtype::F16 => Ok(F16),
            other => {
                Err(ProductError::Unsupported(format!("cuDNN supports attention in bf16 and f16, not in {other}")))
            }
        }
    }

    fn packed(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// A head's rows in qkv, or turned: features by rows.
    fn part(&self, heads: usize, element: i32, is_turned: bool) -> TensorForm {
        let (row, sample) = (self.packed(), self.sequence * self.packed());
        let (sizes, strides) = ([self.sequence, self.width], [row, 1]);
        let [a, b] = if is_turned { [1, 0] } else { [0, 1] };
        TensorForm {
            sizes: [self.batch, heads, sizes[a], sizes[b]],
            strides: [sample, self.width, strides[a], strides[b]],
            element,
        }
    }

    /// A head's rows in the output.
    fn output(&self, element: i32) -> TensorForm {
        let row = self.heads * self.width;
        let sizes = [self.batch, self.heads, self.sequence, self.width];
        TensorForm { sizes, strides: [self.sequence * row, self.width, row, 1], element }
    }

    /// A number of each row, or one of each score.
    fn scores(&self, columns: usize, element: i32) -> TensorForm {
        let sizes = [self.batch, self.heads, self.sequence, columns];
        let of_head = self.sequence * columns;
        TensorForm { sizes, strides: [self.heads * of_head, of_head, columns, 1], element }
    }

    fn all_scores(&self, element: i32) -> TensorForm {
        self.scores(self.sequence, element)
    }

    /// All scores, with keys as rows in memory.
    fn turned_scores(&self, element: i32) -> TensorForm {
        let TensorForm { sizes, strides: [sample, head, row, column], .. } = self.all_scores(element);
        TensorForm { sizes, strides: [sample, head, column, row], element }
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.width as f64).sqrt()) as f32
    }

    /// What the library may take: a number of each row, so that no scores are in memory.
    fn workspace(&self) -> usize {
        WORKSPACE + self.batch * self.heads * self.sequence * 4
    }

    /// Bytes of `delta`, and of the sums of gradients of queries.
    fn scratch(&self) -> [usize; 2] {
        let rows = self.batch * self.heads * self.sequence * 4;
        [rows, rows * self.width].map(|bytes| bytes.next_multiple_of(APART))
    }
}

impl CudnnAttention {
    /// Plans a pass over elements of this type.
    ///
    /// # Errors
    /// What the library says: it has no engine for some sizes. Unsupported for other types, and backward for fewer heads of keys than of
    /// queries.
    pub fn plan(device: &Arc<CudnnDevice>, op: &Attention, dtype: Dtype, pass: CudnnPass) -> Result<Self> {
        let shape = AttentionShape::of(op, dtype);
        let terms = Terms { is_deterministic: false, is_exact: false, workspace: shape.workspace() };
        let plan = |built: Built| {
            let Built { graph, tensors, is_single } = built;
            let plan = Plan::new(graph, device, terms)?;
            Ok(Self { device: device.clone(), shape, pass, plan, tensors, is_single })
        };
        let build = || Builder::new(&device.library, shape);
        match pass {
            // What the library's own front end takes first: not every version has it, and not for every shape.
            CudnnPass::Forward => build().single().and_then(plan).or_else(|_| build().forward().and_then(plan)),
            CudnnPass::Backward => build().backward().and_then(plan),
        }
        .map_err(|error| device.library.untaken(error))
    }

    /// Whether this runs an operation whose buffers lie there.
    pub fn fits(&self, op: &Dense, memory: &Memory) -> bool {
        let (forward, pass) = match op {
            Dense::AttentionForward(forward) => (forward, CudnnPass::Forward),
            Dense::AttentionBackward { forward, .. } => (forward, CudnnPass::Backward),
            Dense::MatMul(_) => return false,
        };
        (AttentionShape::of(forward, memory.dtype(forward.qkv)), pass) == (self.shape, self.pass)
    }

    /// Bytes of scratch memory that any run of an operation takes at most; 0 of others.
    pub fn most_scratch_bytes(op: &Dense) -> usize {
        let (forward, own) = match op {
            Dense::AttentionForward(forward) => (forward, false),
            Dense::AttentionBackward { forward, .. } => (forward, true),
            Dense::MatMul(_) => return 0,
        };
        let shape = AttentionShape::of(forward, Dtype::Bf16);
        shape.workspace() + if own { shape.scratch().iter().sum() } else { 0 }
    }

    /// Whether the pass is one operation of the library's, and not composed of many.
    pub fn is_single(&self) -> bool {
        self.is_single
    }

    /// The library's version.
    pub fn version(&self) -> String {
        self.device.library.version()
    }

    /// Bytes of scratch memory that a run takes.
    pub fn scratch_bytes(&self) -> usize {
        let own = if self.pass == CudnnPass::Backward { self.shape.scratch().iter().sum() } else { 0 };
        own + self.plan.workspace()
    }

    /// Gives the pass to the context's stream.
    ///
    /// # Errors
    /// What the library and the driver say; refused for another operation than was planned, for views of other lengths or types, for
    /// too little scratch memory, and for a device that was only described.
    pub fn run(&self, op: &Dense, context: &DeviceContext<'_>) -> Result<()> {
        let (forward, gradients, pass) = match op {
            Dense::AttentionForward(forward) => (forward, None, CudnnPass::Forward),
            Dense::AttentionBackward { forward, d_output, d_qkv } => {
                (forward, Some([*d_output, *d_qkv]), CudnnPass::Backward)
            }
            Dense::MatMul(_) => return refused("a product is not attention".to_owned()),
        };
        let found = AttentionShape::of(forward, context.memory.dtype(forward.qkv));
        if (found, pass) != (self.shape, self.pass) {
            return refused(format!("{pass:?} of {found:?} was not planned"));
        }
        let mut places = TensorPlaces::new(context);
        self.places(forward, gradients, &mut places)?;
        let [delta, sums] = self.shape.scratch();
        let mut from = 0;
        if pass == CudnnPass::Backward {
            add(&mut places, self.tensors.delta, &scratch(context, 0, delta)?, delta)?;
            let of_queries = scratch(context, delta, sums)?;
            // The library adds to them.
            of_queries.set_on(0, context.stream)?;
            add(&mut places, self.tensors.sums, &of_queries, sums)?;
            from = delta + sums;
        }
        let workspace = scratch(context, from, self.plan.workspace())?;
        let numbers = self.tensors.numbers.iter().map(|(tensor, value)| (*tensor, (&raw const *value).cast()));
        places.found.extend(numbers);
        let pack = self.plan.pack(&places.found, workspace.address() as *const c_void)?;
        self.device.execute(self.plan.descriptor(), &pack, context.stream)
    }

    /// The views' places.
    fn places(&self, op: &Attention, gradients: Option<[crate::View; 2]>, places: &mut TensorPlaces<'_>) -> Result<()> {
        let AttentionShape { batch, sequence, heads, kv_heads, width, dtype, .. } = self.shape;
        let (rows, bytes) = (batch * sequence, dtype.bytes() as usize);
        let (packed, output) = (rows * self.shape.packed(), rows * heads * width);
        let d_qkv = gradients.map(|[_, d_qkv]| d_qkv);
        for (tensors, view) in self.tensors.parts.iter().zip([Some(op.qkv), d_qkv].into_iter().flatten()) {
            let all = places.view(view, dtype, packed)?;
            for (tensor, head) in tensors.iter().zip([0, heads, heads + kv_heads]) {
                let from = head * width * bytes;
                let part = all.slice(from, all.len() - from).unwrap_or_else(|| all.clone());
                add(places, Some(*tensor), &part, 0)?;
            }
        }
        let of_output = places.view(op.output, dtype, output)?;
        add(places, self.tensors.output, &of_output, output * bytes)?;
        let log_sum = places.view(op.log_sum, Dtype::F32, rows * heads)?;
        add(places, self.tensors.log_sum, &log_sum, rows * heads * 4)?;
        if let Some([d_output, _]) = gradients {
            let d_output = places.view(d_output, dtype, output)?;
            add(places, self.tensors.d_output, &d_output, output * bytes)?;
        }
        Ok(())
    }
}

fn add(places: &mut TensorPlaces<'_>, tensor: Option<Tensor>, slice: &Slice, bytes: usize) -> Result<()> {
    match tensor {
        Some(tensor) => places.add(tensor, slice, bytes, ALIGNMENT),
        None => refused("a tensor that was not planned".to_owned()),
    }
}
