//! Attention by the kernels of attention.cu, attention_gradient.cu and attention_plain.cu. The backward pass first sums `d_output x output`
//! of each row into scratch memory. By tensor cores, one pass over the keys then gives their gradients and those of values, and parts of
//! those of queries, which are summed (`parts`). The plain kernels take a pass over queries, and one over keys.

mod parts;

use std::fmt;
use std::sync::Arc;

use device::cuda::{Gpu, Kernel, Threads};
use terms::Dtype;

pub use parts::{PartLimits, QueryGradients};

use super::launch::{DeviceContext, Kernels, LaunchCall, Lazy, Result, refused, state_of};
use crate::cuda::ProductError;
use crate::op::{Attention, Dense};
use crate::{Memory, View};

/// kernels/attention.cu, compiled for sm_80 in ISA 7.8 (`cargo xtask ptx`).
pub const ATTENTION: &str = include_str!("../../../kernels/attention.ptx");
/// kernels/attention_gradient.cu, compiled for sm_80 in ISA 7.8.
pub const ATTENTION_GRADIENT: &str = include_str!("../../../kernels/attention_gradient.ptx");
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
/// Bytes that a block of attention_gradient.cu shares, by the width of its heads: two blocks fit a multiprocessor from sm_80 on, but not
/// those of sm_86 and sm_89, which have 100 KiB.
const SHARED: [(usize, u32); 2] = [(64, 82_944), (128, 74_240)];
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelPass {
    Forward,
    /// Gradients of queries.
    Queries,
    /// Gradients of keys and values.
    Keys,
    /// `rowsum(d_output output)`, for both.
    Delta,
    /// Gradients of keys and values, and parts of those of queries.
    Gradient,
    /// The sum of these parts.
    Sum,
}

impl KernelPass {
    /// The kernel's name, before the kind of elements.
    fn stem(self) -> &'static str {
        match self {
            Self::Forward => "attention_",
            Self::Queries => "attention_queries_",
            Self::Keys => "attention_keys_",
            Self::Delta => "attention_delta_",
            Self::Gradient => "attention_gradient_",
            Self::Sum => "attention_sum_",
        }
    }
}

/// Kernels that are loaded together, with their text.
const SETS: [(AttentionKernel, &str, &[KernelPass]); 4] = [
    (AttentionKernel::TensorCores, ATTENTION, &[KernelPass::Forward]),
    (AttentionKernel::TensorCores, ATTENTION, &[KernelPass::Queries]),
    (AttentionKernel::TensorCores, ATTENTION_GRADIENT, &[KernelPass::Delta, KernelPass::Gradient, KernelPass::Sum]),
    (
        AttentionKernel::Plain,
        ATTENTION_PLAIN,
        &[KernelPass::Forward, KernelPass::Queries, KernelPass::Keys, KernelPass::Delta],
    ),
];

/// All kernels of attention, each text loaded when an operation first needs it: the driver takes seconds to compile one.
#[derive(Debug)]
pub(super) struct AttentionKernels {
    has_tensor_cores: bool,
    limits: PartLimits,
    /// Each of [`SETS`], of each of [`OF_TENSOR_CORES`] or of [`PLAIN`].
    sets: [[Lazy; KINDS]; SETS.len()],
}

impl AttentionKernels {
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let has_tensor_cores = gpu.capability()? >= FIRST;
        Ok(Self { has_tensor_cores, limits: PartLimits::default(), sets: Default::default() })
    }

    /// Parts of gradients of queries stay within these limits from now on.
    pub(super) fn limit(&mut self, limits: PartLimits) {
        self.limits = limits;
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
        let (op, is_backward) = match op {
            Dense::AttentionForward(op) => (op, false),
            Dense::AttentionBackward { forward, .. } => (forward, true),
            Dense::MatMul(_) => return Ok(()),
        };
        let element = (memory.dtype(op.qkv), op.head_width);
        let kind = self.choose(op, element.0)?;
        let is_apart = kind == AttentionKernel::TensorCores && self.limits.choose(op) == QueryGradients::Apart;
        let passes: &[KernelPass] = match (is_backward, is_apart) {
            (false, _) => &[KernelPass::Forward],
            (true, false) => &[KernelPass::Delta],
            (true, true) => &[KernelPass::Delta, KernelPass::Queries],
        };
        passes.iter().try_for_each(|pass| self.kernel(gpu, *pass, kind, element).map(|_| ()))
    }

    fn kernel(
        &self,
        gpu: &Arc<Gpu>,
        pass: KernelPass,
        kind: AttentionKernel,
        element: (Dtype, usize),
    ) -> Result<&Kernel> {
        let place = match kind {
            AttentionKernel::TensorCores => OF_TENSOR_CORES.iter().position(|known| *known == element),
            AttentionKernel::Plain => PLAIN.iter().position(|known| *known == element.0),
        };
        let found = SETS.iter().zip(&self.sets).find(|((of, _, passes), _)| *of == kind && passes.contains(&pass));
        let (Some(place), Some(((_, text, passes), held))) = (place, found) else {
            return unsupported(format!("no kernel has attention of {}", element.0));
        };
        let suffix = match kind {
            AttentionKernel::TensorCores => format!("{}_{}", element.0, element.1),
            AttentionKernel::Plain => element.0.to_string(),
        };
        let names = || passes.iter().map(|pass| format!("{}{suffix}", pass.stem())).collect();
        let loaded = held[place].get_with(gpu, text, names, |kernels| {
            let gradient = passes.iter().position(|pass| *pass == KernelPass::Gradient);
            let shared = SHARED.iter().find(|(width, _)| *width == element.1);
            match (gradient, shared) {
                (Some(place), Some((_, bytes))) => Ok(gpu.share(&mut kernels[place], *bytes)?),
                _ => Ok(()),
            }
        })?;
        let place = passes.iter().position(|each| *each == pass).unwrap_or(0);
        Ok(&loaded[place])
    }
}

fn unsupported<T>(what: String) -> Result<T> {
    Err(ProductError::Unsupported(what))
}

/// Bytes of scratch memory for the backward pass: a number of each row of each head, and parts of gradients of queries where tensor cores
/// may compute them.
pub(super) fn scratch(op: &Dense, bytes: usize) -> usize {
    match op {
        Dense::AttentionBackward { forward, .. } => {
            let is_wide = bytes == 2 && OF_TENSOR_CORES.iter().any(|(_, width)| *width == forward.head_width);
            delta_bytes(forward, bytes.max(4)) + if is_wide { PartLimits::default().scratch_bytes(forward) } else { 0 }
        }
        _ => 0,
    }
}

/// Bytes of a number of each row of each head, to a multiple of what a load of four takes.
fn delta_bytes(op: &Attention, state: usize) -> usize {
    (rows_of_heads(op) * state).next_multiple_of(PIECE)
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
    let run = AttentionRun { kernels, attention, op: forward, kind, context };
    if kind == AttentionKernel::TensorCores {
        run.refuse_what_tensor_cores_lack(gradients)?;
    }
    match gradients {
        None => run.forward(),
        Some(gradients) => run.backward(gradients),
    }
}

/// One operation.
struct AttentionRun<'a> {
    kernels: &'a Kernels,
    attention: &'a AttentionKernels,
    op: &'a Attention,
    kind: AttentionKernel,
    context: &'a DeviceContext<'a>,
}

impl<'a> AttentionRun<'a> {
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
        let call = LaunchCall::new(self.kernels, self.context).view(op.output, e, output, "the output")?;
        let call = call.view(op.log_sum, state_of(e), rows_of_heads(op), "the log of the sum")?;
        let call = self.sizes(call.view(op.qkv, e, packed, "qkv")?)?;
        // SAFETY: all have the lengths that follow from the sizes.
        unsafe { self.launch(self.scale(call), KernelPass::Forward, op.heads) }
    }

    fn backward(&self, [d_output, d_qkv]: [View; 2]) -> Result<()> {
        let (op, e, [packed, output]) = (self.op, self.element(), self.lengths());
        let (state, rows) = (state_of(e), rows_of_heads(op));
        let delta = rows * state.bytes() as usize;
        let call = LaunchCall::new(self.kernels, self.context).scratch(0, delta)?;
        let call = call.view(op.output, e, output, "the output")?.view(d_output, e, output, "d_output")?;
        let sums = self.kernel(KernelPass::Delta)?;
        // SAFETY: as above; a block has 16 rows.
        unsafe { self.sizes(call)?.launch(sums, Threads::Blocks(rows.div_ceil(16) as u64)) }?;
        if self.kind == AttentionKernel::TensorCores {
            return self.of_tensor_cores([d_output, d_qkv]);
        }
        for (pass, heads) in [(KernelPass::Queries, op.heads), (KernelPass::Keys, op.kv_heads)] {
            let call = LaunchCall::new(self.kernels, self.context).view(d_qkv, e, packed, "d_qkv")?;
            let call = self.sizes(self.gradients(call, d_output)?)?;
            // SAFETY: as above; the two passes write apart, and the sums are there before them.
            unsafe { self.launch(self.scale(call), pass, heads) }?;
        }
        Ok(())
    }

    /// What all passes over gradients read, behind what they write.
    fn gradients(&self, call: LaunchCall<'a>, d_output: View) -> Result<LaunchCall<'a>> {
        let (op, e, [packed, output]) = (self.op, self.element(), self.lengths());
        let (state, rows) = (state_of(e), rows_of_heads(op));
        let call = call.view(op.qkv, e, packed, "qkv")?.view(d_output, e, output, "d_output")?;
        call.view(op.log_sum, state, rows, "the log of the sum")?.scratch(0, rows * state.bytes() as usize)
    }

    /// The backward pass behind its first sums. Scratch memory has these, then parts.
    fn of_tensor_cores(&self, [d_output, d_qkv]: [View; 2]) -> Result<()> {
        let (op, e, packed) = (self.op, self.element(), self.lengths()[0]);
        let call = || LaunchCall::new(self.kernels, self.context).view(d_qkv, e, packed, "d_qkv");
        let parts_at = delta_bytes(op, state_of(e).bytes() as usize);
        let joined = match self.attention.limits.choose(op) {
            QueryGradients::Parts(joined) => Some(joined),
            QueryGradients::Apart => {
                let queries = self.sizes(self.gradients(call()?, d_output)?)?;
                // SAFETY: as above.
                unsafe { self.launch(queries, KernelPass::Queries, op.heads) }?;
                None
            }
        };
        let keys = match joined {
            Some(joined) => call()?.scratch(parts_at, parts::bytes(op, joined))?,
            None => call()?.word(0),
        };
        let keys = self.sizes(self.gradients(keys, d_output)?)?.half(joined.unwrap_or(1))?;
        let blocks = parts::blocks_of_threads(op, joined.unwrap_or(1));
        let Some(blocks) = u32::try_from(blocks).ok().filter(|blocks| *blocks as usize <= LONGEST) else {
            return unsupported(format!("no kernel has attention of {blocks} blocks of keys"));
        };
        // SAFETY: as above; the parts have the rows that they are to have, and without memory for them none are written.
        unsafe { keys.launch(self.kernel(KernelPass::Gradient)?, Threads::Each(blocks)) }?;
        let Some(joined) = joined else { return Ok(()) };
        let sum = self.sizes(call()?.scratch(parts_at, parts::bytes(op, joined))?)?.half(joined)?;
        let fours = rows_of_heads(op) * op.head_width / 4;
        // SAFETY: as above; the parts are there before it.
        unsafe { sum.launch(self.kernel(KernelPass::Sum)?, Threads::Elements(fours as u64)) }
    }

    fn kernel(&self, pass: KernelPass) -> Result<&'a Kernel> {
        self.attention.kernel(self.kernels.gpu(), pass, self.kind, (self.element(), self.op.head_width))
    }

    /// The sizes, as kernels of this kind take them.
    fn sizes(&self, call: LaunchCall<'a>) -> Result<LaunchCall<'a>> {
        let op = self.op;
        let call = call.half(op.batch)?.half(op.sequence)?.half(op.heads)?.half(op.kv_heads)?;
        let call = if self.kind == AttentionKernel::Plain { call.half(op.head_width)? } else { call };
        Ok(call.flag(op.causal))
    }

    fn scale(&self, call: LaunchCall<'a>) -> LaunchCall<'a> {
        match self.kind {
            AttentionKernel::TensorCores => call,
            AttentionKernel::Plain => call.real(1.0 / (self.op.head_width as f64).sqrt()),
        }
    }

    /// # Safety
    /// As [`LaunchCall::launch`].
    unsafe fn launch(&self, call: LaunchCall<'_>, pass: KernelPass, heads: usize) -> Result<()> {
        let blocks = self.op.batch * heads * self.op.sequence.div_ceil(ROWS[self.kind as usize]);
        if blocks > LONGEST {
            return unsupported(format!("no kernel has attention of {blocks} blocks of rows"));
        }
        // SAFETY: the caller's.
        unsafe { call.launch(self.kernel(pass)?, Threads::Blocks(blocks as u64)) }
    }
}
