//! Single operations with buffers of their own: what a benchmark of kernels runs. The inverse of [`OperationShape`](crate::OperationShape).

mod dense;
mod made;
mod rows;
mod spatial;
mod update;

use half::{bf16, f16};
use terms::{Dtype, splitmix64};

use self::made::{Content, Made};
use crate::buffer::View;
use crate::program::Instruction;
use crate::{Element, Error, Loaded, Op, Program, Wide};

/// Each kernel that a [`Sample`] can run, and the sizes that it takes, in their order: those of [`OperationShape`](crate::OperationShape).
pub const KERNELS: &[(&str, &str)] = &[
    ("product_nn", PRODUCT),
    ("product_nt", PRODUCT),
    ("product_tn", PRODUCT),
    ("product_tt", PRODUCT),
    ("attention_forward", ATTENTION),
    ("attention_backward", ATTENTION),
    ("fill", ELEMENTS),
    ("add", ELEMENTS),
    ("relu_forward", ELEMENTS),
    ("relu_backward", ELEMENTS),
    ("convert", "elements, bytes of an element of the result"),
    ("dropout", "elements, columns"),
    ("gelu_forward", GELU),
    ("gelu_backward", GELU),
    ("column_sum", COLUMNS),
    ("add_bias", COLUMNS),
    ("norm_forward", NORM),
    ("norm_backward", NORM),
    ("swiglu_forward", SWIGLU),
    ("swiglu_backward", SWIGLU),
    ("rotary", "rows, heads, key and value heads, head width, sequence"),
    ("embedding_forward", EMBEDDING),
    ("embedding_backward", EMBEDDING),
    ("cross_entropy", LOSS),
    ("cross_entropy_largest", LOSS),
    ("cross_entropy_sum", LOSS),
    ("cross_entropy_finish", LOSS),
    ("conv_forward", CONVOLUTION),
    ("conv_backward_input", CONVOLUTION),
    ("conv_backward_weight", CONVOLUTION),
    ("batch_norm_sum", BATCH_NORM),
    ("batch_norm_forward", BATCH_NORM),
    ("batch_norm_backward_sum", BATCH_NORM),
    ("batch_norm_backward", BATCH_NORM),
    ("batch_norm_parameters", "channels"),
    ("max_pool_forward", POOL),
    ("max_pool_backward", POOL),
    ("average_pool_forward", POOL),
    ("average_pool_backward", POOL),
    ("sum_squares", ELEMENTS),
    ("sgd", "elements, 1 if there is momentum, bytes of an element of the copy (0: no copy)"),
    ("adamw", "elements, bytes of an element of the copy (0: no copy)"),
    ("begin_norm", ""),
    ("judge", ""),
    ("end_step", ""),
];

const PRODUCT: &str = "m, n, k, 1 if it adds to its result, bytes of an element of the result";
const ATTENTION: &str = "batch, sequence, heads, key and value heads, head width, 1 if causal";
const ELEMENTS: &str = "elements";
const GELU: &str = "elements, 1 if exact";
const COLUMNS: &str = "rows, columns";
const NORM: &str = "rows, columns, 1 if there is a bias";
const SWIGLU: &str = "rows, width";
const EMBEDDING: &str = "rows, width, tokens of the table, 1 if there are positions, 1 if there are segments";
const LOSS: &str = "rows, columns of a row, classes";
const CONVOLUTION: &str = "batch, inputs, outputs, kernel, stride, padding, height, width";
const BATCH_NORM: &str = "rows, channels, 1 if there is a residual or a mask";
const POOL: &str = "batch, channels, kernel, stride, padding, height, width";

/// Elements after which what a buffer holds repeats: prime, so that rows of no length are alike, and few, so that large buffers are
/// filled as fast as memory is.
const PERIOD: usize = 8191;

/// An operation of a given kernel and size, with buffers that hold what such an operation meets in a step.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The buffers, and the operation as the only instruction.
    pub program: Program,
    given: Vec<(View, Content)>,
    written: Vec<View>,
    is_idempotent: bool,
}

impl Sample {
    /// An operation of this kernel over these sizes, as [`KERNELS`] names them.
    ///
    /// # Errors
    /// In words: no such kernel, other sizes than it takes, or a type that it does not compute with.
    pub fn new(kernel: &str, dims: &[u64], dtype: Dtype) -> Result<Self, String> {
        let (_, takes) = KERNELS.iter().find(|(name, _)| *name == kernel).ok_or("there is no such kernel")?;
        if !matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::Bf16 | Dtype::F16) {
            return Err(format!("{dtype} is not computed with"));
        }
        let wanted = if takes.is_empty() { 0 } else { takes.split(", ").count() };
        if dims.len() != wanted {
            return Err(format!("{} sizes, not {wanted}: {takes}", dims.len()));
        }
        let mut made = Made::new(dtype);
        let op = dense::op(kernel, dims, &mut made)
            .or_else(|| rows::op(kernel, dims, &mut made))
            .or_else(|| spatial::op(kernel, dims, &mut made))
            .or_else(|| update::op(kernel, dims, &mut made));
        made.program.run(op.ok_or("there is no such kernel")??);
        let Made { program, given, written, is_idempotent, .. } = made;
        Ok(Self { program, given, written, is_idempotent })
    }

    /// The operation.
    ///
    /// # Panics
    /// Never: a sample has one.
    pub fn op(&self) -> &Op {
        match self.program.instructions.as_slice() {
            [Instruction::Run(op)] => op,
            other => unreachable!("a sample is one operation: {other:?}"),
        }
    }

    /// What is filled before the operation runs, each once.
    pub fn filled(&self) -> impl Iterator<Item = View> {
        self.given.iter().map(|(view, _)| *view)
    }

    /// What the operation writes.
    pub fn written(&self) -> &[View] {
        &self.written
    }

    /// Whether what it leaves follows from what its buffers held: not of a fill, and of what only counts steps.
    pub fn depends_on_inputs(&self) -> bool {
        self.given.iter().any(|(_, content)| matches!(content, Content::Noise | Content::Positive))
    }

    /// Whether a second call, on what the first left, leaves the same: the operation adds to nothing and changes none of its inputs.
    pub fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    /// Writes what the operation reads. What it only writes becomes NaN, so that an element that it leaves out shows.
    ///
    /// # Errors
    /// As [`Loaded::write`].
    ///
    /// # Safety
    /// As [`Loaded::write`].
    pub unsafe fn fill(&self, loaded: &mut dyn Loaded, seed: u64) -> Result<(), Error> {
        for (number, (view, content)) in self.given.iter().enumerate() {
            let seed = splitmix64(seed ^ ((number as u64 + 1) << 40));
            // SAFETY: the caller's.
            unsafe {
                match self.program.dtype(*view) {
                    Dtype::F32 => put::<f32>(loaded, *view, content, seed),
                    Dtype::F64 => put::<f64>(loaded, *view, content, seed),
                    Dtype::Bf16 => put::<bf16>(loaded, *view, content, seed),
                    Dtype::F16 => put::<f16>(loaded, *view, content, seed),
                    _ => put::<i32>(loaded, *view, content, seed),
                }?;
            }
        }
        Ok(())
    }
}

/// # Safety
/// As [`Loaded::write`].
unsafe fn put<E: Element>(loaded: &mut dyn Loaded, view: View, content: &Content, seed: u64) -> Result<(), Error> {
    let number = |at: usize| E::narrow(E::Wide::from_f64(content.at(at, seed)));
    let period = if matches!(content, Content::Windows(_)) { view.len } else { PERIOD };
    let numbers: Vec<E> = (0..view.len.min(period)).map(number).collect();
    let fill = |to: &mut [E]| to.chunks_mut(period.max(1)).for_each(|to| to.copy_from_slice(&numbers[..to.len()]));
    // SAFETY: the caller's.
    unsafe { loaded.put::<E>(view, fill) }
}
