//! Buffers and views: what operations name instead of memory. Where a buffer lies is decided after all operations are
//! known (see `plan`), so that lifetimes are.

use terms::Dtype;

/// What a buffer is for: the categories of memory reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Parameters: masters, and the copies that are computed with.
    Parameter,
    /// Gradients of parameters.
    Gradient,
    /// Optimizer state.
    Optimizer,
    /// What the forward pass leaves for the backward pass, gradients of activations, and their temporaries.
    Activation,
    /// What exists only to be sent or received.
    Communication,
    /// Tokens, images, targets.
    Input,
    /// Losses, norms, loss scale: a few numbers.
    Scalar,
}

/// How long a buffer holds what was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From step to step.
    Persistent,
    /// From the first instruction of a step that names it to the last.
    Step,
}

/// Names a buffer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u32);

/// A buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it is for.
    pub category: Category,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// What it holds.
    pub dtype: Dtype,
    /// How many.
    pub len: usize,
}

impl Buffer {
    /// Size of the buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.len * self.dtype.bytes() as usize
    }
}

/// Consecutive elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The buffer that the elements are in.
    pub buffer: BufferId,
    /// First element.
    pub offset: usize,
    /// Elements.
    pub len: usize,
}

impl View {
    /// A part of it.
    ///
    /// # Panics
    /// When it does not lie inside: a bug in the program.
    pub fn part(self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "{offset} + {len} lies outside of {} elements", self.len);
        Self { buffer: self.buffer, offset: self.offset + offset, len }
    }
}
