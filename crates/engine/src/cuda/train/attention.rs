//! Attention by the kernels of attention.cu and attention_plain.cu. The backward pass first sums `d_output x output` of each row into
//! scratch memory, then gives the gradients of queries, then those of keys and values.

use std::fmt;
use std::sync::Arc;

use device::cuda::{Gpu, Kernel, Threads};
use terms::Dtype;

use super::launch::{Call, DeviceContext, Kernels, Lazy, Result, refused, state_of};
use crate::cuda::ProductError;
use crate::op::{Attention, Dense};
use crate::{Memory, View};

/// kernels/attention.cu, compiled for sm_80 in ISA 7.8 (`cargo xtask ptx`).
pub const ATTENTION: &str = include_str!("../../../kernels/attention.ptx");
/// kernels/attention_plain.cu, compiled for sm_70 in ISA 7.8.
pub const ATTENTION_PLAIN: &str = include_str!("../../../kernels/attention_plain.ptx");

/// Most features of a head that a kernel takes.
const WIDEST: usize = 256;
/// Most rows of a sample, and blocks of rows.
const LONGEST: usize = i32::MAX as usize;
/// Rows of a block of each [`AttentionKernel`].
const ROWS: [usize; 2] = [128, 32];
/// Bytes that copies into shared memory move at once, from a multiple of them.
const PIECE: usize = 16;
/// How many kinds of each pass there are in a text.
const KINDS: usize = 4;
/// Types and widths of heads that attention.cu has.
const OF_TENSOR_CORES: [(Dtype, usize); KINDS] =
    [(Dtype::Bf16, 64), (Dtype::Bf16, 128), (Dtype::F16, 64), (Dtype::F16, 128)];
/// Types that attention_plain.cu has.
const PLAIN: [Dtype; KINDS] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16];
/// Capability of the first GPUs that have what attention.cu needs: sm_80.
const FIRST: [u32; 2] = [8, 0];

/// Which kernels run an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionKernel {
    /// Products by tensor cores: bf16 and f16, heads of 64 or 128 features, sm_80 and later.
    TensorCores,
    /// Products by the other arithmetic units: everything else, with heads of up to 256 features.
    Plain,
}

impl fmt::Display for AttentionKernel {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::TensorCores => "tensor cores",
            Self::Plain => "plain",
        })
    }
}

/// What a kernel computes.
#[derive(Clone, Copy, Debug)]
enum Pass {
    Forward,
    /// Gradients of queries.
    Queries,
    /// Gradients of keys and values.
    Keys,
    /// `rowsum(d_output output)`, for both.
    Delta,
}

/// Names of the passes, in their order.
const PASSES: [&str; 4] = ["attention_", "attention_queries_", "attention_keys_", "attention_delta_"];

/// All kernels of attention, each text loaded when an operation first needs it: the driver takes seconds to compile one.
#[derive(Debug)]
pub(super) struct AttentionKernels {
    has_tensor_cores: bool,
    /// All passes, of each of [`OF_TENSOR_CORES`] and of each of [`PLAIN`].
    of_tensor_cores: [Lazy; KINDS],
    plain: [Lazy; KINDS],
}

impl AttentionKernels {
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let has_tensor_cores = gpu.capability()? >= FIRST;
        let (of_tensor_cores, plain) = Default::default();
        Ok(Self { has_tensor_cores, of_tensor_cores, plain })
    }

    /// Which kernels run this operation, of elements of this type.
    pub(super) fn choose(&self, op: &Attention, dtype: Dtype) -> Result<AttentionKernel> {
        let (width, sequence) = (op.head_width, op.sequence);
        if op.kv_heads == 0 || !op.heads.is_multiple_of(op.kv_heads) {
            return refused(format!("{} query heads are not shared evenly by {} of keys", op.heads, op.kv_heads));
        }
        if !PLAIN.contains(&dtype) {
            return unsupported(format!("no kernel has attention of {dtype}"));
        }
        if !(1..=WIDEST).contains(&width) {
            return unsupported(format!(
                "no kernel has attention with heads of {width} features; valid values: 1 to {WIDEST}"
            ));
        }
        if sequence > LONGEST {
            return unsupported(format!("no kernel has attention over {sequence} rows; at most {LONGEST}"));
        }
        let has_kernel = OF_TENSOR_CORES.contains(&(dtype, width));
        Ok(if self.has_tensor_cores && has_kernel { AttentionKernel::TensorCores } else { AttentionKernel::Plain })
    }

    /// Loads what the operation needs.
    pub(super) fn prepare(&self, op: &Dense, gpu: &Arc<Gpu>, memory: &Memory) -> Result<()> {
        let (Dense::AttentionForward(op) | Dense::AttentionBackward { forward: op, .. }) = op else { return Ok(()) };
        let dtype = memory.dtype(op.qkv);
        let kind = self.choose(op, dtype)?;
        self.kernel(gpu, Pass::Delta, kind, (dtype, op.head_width)).map(|_| ())
    }

    fn kernel(&self, gpu: &Arc<Gpu>, pass: Pass, kind: AttentionKernel, element: (Dtype, usize)) -> Result<&Kernel> {
        let place = match kind {
            AttentionKernel::TensorCores => OF_TENSOR_CORES.iter().position(|known| *known == element),
            AttentionKernel::Plain => PLAIN.iter().position(|known| *known == element.0),
        };
        let Some(place) = place else { return unsupported(format!("no kernel has attention of {}", element.0)) };
        let (held, text, kind) = match kind {
            AttentionKernel::TensorCores => {
                (&self.of_tensor_cores[place], ATTENTION, format!("{}_{}", element.0, element.1))
            }
            AttentionKernel::Plain => (&self.plain[place], ATTENTION_PLAIN, element.0.to_string()),
        };
        let names = || PASSES.iter().map(|pass| format!("{pass}{kind}")).collect();
        Ok(&held.get(gpu, text, names)?[pass as usize])
    }
}

fn unsupported<T>(what: String) -> Result<T> {
    Err(ProductError::Unsupported(what))
}

/// Bytes of scratch memory: a number of each row of each head, for the backward pass.
pub(super) fn scratch(op: &Dense, state: usize) -> usize {
    match op {
        Dense::AttentionBackward { forward, .. } => rows_of_heads(forward) * state,
        _ => 0,
    }
}

fn rows_of_heads(op: &Attention) -> usize {
    op.batch * op.heads * op.sequence
}

/// Runs attention.
pub(super) fn run(
    kernels: &Kernels,
    attention: &AttentionKernels,
    op: &Dense,
    context: &DeviceContext<'_>,
) -> Result<()> {
    let (forward, gradients) = match op {
        Dense::AttentionForward(forward) => (forward, None),
        Dense::AttentionBackward { forward, d_output, d_qkv } => (forward, Some([*d_output, *d_qkv])),
        Dense::MatMul(_) => return unsupported(format!("no kernel of this module runs {op:?}")),
    };
    let kind = attention.choose(forward, context.memory.dtype(forward.qkv))?;
    let run = Run { kernels, attention, op: forward, kind, context };
    if kind == AttentionKernel::TensorCores {
        run.refuse_what_tensor_cores_lack(gradients)?;
    }
    match gradients {
        None => run.forward(),
        Some(gradients) => run.backward(gradients),
    }
}

/// One operation.
struct Run<'a> {
    kernels: &'a Kernels,
    attention: &'a AttentionKernels,
    op: &'a Attention,
    kind: AttentionKernel,
    context: &'a DeviceContext<'a>,
}

impl<'a> Run<'a> {
    fn element(&self) -> Dtype {
        self.context.memory.dtype(self.op.qkv)
    }

    /// Numbers of qkv, and of the output.
    fn lengths(&self) -> [usize; 2] {
        let rows = self.op.batch * self.op.sequence * self.op.head_width;
        [rows * (self.op.heads + 2 * self.op.kv_heads), rows * self.op.heads]
    }

    /// attention.cu counts the numbers of a sample in 32 bits, and copies pieces.
    fn refuse_what_tensor_cores_lack(&self, gradients: Option<[View; 2]>) -> Result<()> {
        let numbers = self.lengths()[0] / self.op.batch.max(1);
        if u32::try_from(numbers).is_err() {
            return unsupported(format!("no kernel has attention with samples of {numbers} numbers"));
        }
        for view in [self.op.qkv, self.op.output].into_iter().chain(gradients.into_iter().flatten()) {
            let address = self.context.memory.slice(view).address();
            if !address.is_multiple_of(PIECE) {
                return refused(format!("{view:?} of attention does not begin at a multiple of {PIECE} bytes"));
            }
        }
        Ok(())
    }

    fn forward(&self) -> Result<()> {
        let (op, e, [packed, output]) = (self.op, self.element(), self.lengths());
        let call = Call::new(self.kernels, self.context).view(op.output, e, output, "the output")?;
        let call = call.view(op.log_sum, state_of(e), rows_of_heads(op), "the log of the sum")?;
        let call = self.sizes(call.view(op.qkv, e, packed, "qkv")?)?;
        // SAFETY: all have the lengths that follow from the sizes.
        unsafe { self.launch(self.scale(call), Pass::Forward, op.heads) }
    }

    fn backward(&self, [d_output, d_qkv]: [View; 2]) -> Result<()> {
        let (op, e, [packed, output]) = (self.op, self.element(), self.lengths());
        let (state, rows) = (state_of(e), rows_of_heads(op));
        let delta = rows * state.bytes() as usize;
        let call = Call::new(self.kernels, self.context).scratch(0, delta)?;
        let call = call.view(op.output, e, output, "the output")?.view(d_output, e, output, "d_output")?;
        let sums = self.kernel(Pass::Delta)?;
        // SAFETY: as above; a block has 16 rows.
        unsafe { self.sizes(call)?.launch(sums, Threads::Blocks(rows.div_ceil(16) as u64)) }?;
        for (pass, heads) in [(Pass::Queries, op.heads), (Pass::Keys, op.kv_heads)] {
            let call = Call::new(self.kernels, self.context).view(d_qkv, e, packed, "d_qkv")?;
            let call = call.view(op.qkv, e, packed, "qkv")?.view(d_output, e, output, "d_output")?;
            let call = call.view(op.log_sum, state, rows, "the log of the sum")?.scratch(0, delta)?;
            let call = self.sizes(call)?;
            // SAFETY: as above; the two passes write apart, and the sums are there before them.
            unsafe { self.launch(self.scale(call), pass, heads) }?;
        }
        Ok(())
    }

    fn kernel(&self, pass: Pass) -> Result<&'a Kernel> {
        self.attention.kernel(self.kernels.gpu(), pass, self.kind, (self.element(), self.op.head_width))
    }

    /// The sizes, as kernels of this kind take them.
    fn sizes(&self, call: Call<'a>) -> Result<Call<'a>> {
        let op = self.op;
        let call = call.half(op.batch)?.half(op.sequence)?.half(op.heads)?.half(op.kv_heads)?;
        let call = if self.kind == AttentionKernel::Plain { call.half(op.head_width)? } else { call };
        Ok(call.flag(op.causal))
    }

    fn scale(&self, call: Call<'a>) -> Call<'a> {
        match self.kind {
            AttentionKernel::TensorCores => call,
            AttentionKernel::Plain => call.real(1.0 / (self.op.head_width as f64).sqrt()),
        }
    }

    /// # Safety
    /// As [`Call::launch`].
    unsafe fn launch(&self, call: Call<'_>, pass: Pass, heads: usize) -> Result<()> {
        let kernel =
            self.attention.kernel(self.kernels.gpu(), pass, self.kind, (self.element(), self.op.head_width))?;
        let blocks = self.op.batch * heads * self.op.sequence.div_ceil(ROWS[self.kind as usize]);
        if blocks > LONGEST {
            return unsupported(format!("no kernel has attention of {blocks} blocks of rows"));
        }
        // SAFETY: the caller's.
        unsafe { call.launch(kernel, Threads::Blocks(blocks as u64)) }
    }
}
