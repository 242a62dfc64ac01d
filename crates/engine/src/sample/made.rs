//! A sample while it is made: its buffers, and what they hold.

use terms::{Dtype, splitmix64};

use crate::Program;
use crate::buffer::{Category, Lifetime, View};

/// Most elements of a buffer: what a plan asks for by mistake is refused before it is counted in bytes.
const MOST_ELEMENTS: u64 = 1 << 34;

/// What a buffer holds before an operation runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Numbers from -1 to 1.
    Noise,
    /// Numbers from 0.5 to 1.5.
    Positive,
    /// One number everywhere.
    Value(f64),
    /// Whole numbers from 0, fewer than these.
    Below(usize),
    /// For each window and channel of a pooling the place of the first pixel in that window.
    Windows(model::Pool),
}

impl Content {
    /// The element at this place.
    pub(super) fn at(&self, at: usize, seed: u64) -> f64 {
        let bits = || splitmix64(seed ^ at as u64);
        let noise = || (bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        match self {
            Self::Noise => noise(),
            Self::Positive => 1.0 + 0.5 * noise(),
            Self::Value(value) => *value,
            Self::Below(count) => (bits() % (*count).max(1) as u64) as f64,
            Self::Windows(pool) => first_pixel(pool, at) as f64,
        }
    }
}

/// The first pixel that a window holds, of an element of a pooling's result.
fn first_pixel(pool: &model::Pool, at: usize) -> usize {
    let (height, width) = pool.output();
    let window = at / pool.channels % (height * width);
    let along = |out: usize| (out * pool.stride).saturating_sub(pool.padding);
    along(window / width) * pool.width + along(window % width)
}

/// A sample while it is made.
pub(super) struct Made {
    pub(super) program: Program,
    pub(super) given: Vec<(View, Content)>,
    pub(super) written: Vec<View>,
    pub(super) is_idempotent: bool,
    /// The type of activations.
    pub(super) element: Dtype,
    /// The type of statistics, gradients of parameters, and masters.
    pub(super) state: Dtype,
}

impl Made {
    pub(super) fn new(element: Dtype) -> Self {
        let state = if element == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        Self {
            program: Program::default(),
            given: Vec::new(),
            written: Vec::new(),
            is_idempotent: true,
            element,
            state,
        }
    }

    pub(super) fn buffer(&mut self, dtype: Dtype, len: usize) -> View {
        self.program.buffer(Category::Activation, Lifetime::Persistent, dtype, len)
    }

    /// A buffer that is read.
    pub(super) fn reads(&mut self, dtype: Dtype, len: usize, content: Content) -> View {
        let view = self.buffer(dtype, len);
        self.given.push((view, content));
        view
    }

    /// A buffer of activations that is read.
    pub(super) fn input(&mut self, len: usize) -> View {
        self.reads(self.element, len, Content::Noise)
    }

    /// A buffer that is written, and not read before.
    pub(super) fn writes(&mut self, dtype: Dtype, len: usize) -> View {
        let view = self.buffer(dtype, len);
        // Whole numbers have no NaN.
        let before = if dtype.is_float() { f64::NAN } else { -1.0 };
        self.given.push((view, Content::Value(before)));
        self.written.push(view);
        view
    }

    /// A buffer of activations that is written, and not read before.
    pub(super) fn output(&mut self, len: usize) -> View {
        self.writes(self.element, len)
    }

    /// A buffer that is read and changed.
    pub(super) fn changes(&mut self, dtype: Dtype, len: usize, content: Content) -> View {
        self.is_idempotent = false;
        let view = self.reads(dtype, len, content);
        self.written.push(view);
        view
    }
}

/// The sizes, whose number was checked.
pub(super) fn sizes<const N: usize>(dims: &[u64]) -> Result<[usize; N], String> {
    let sizes: [u64; N] = dims.try_into().map_err(|_| format!("{} sizes, not {N}", dims.len()))?;
    match sizes.iter().find(|size| **size > MOST_ELEMENTS) {
        Some(size) => Err(format!("a size of {size} is more than {MOST_ELEMENTS}")),
        None => Ok(sizes.map(|size| size as usize)),
    }
}

/// Elements of a buffer with these sizes: at least one, and no more than a buffer may have.
pub(super) fn len<const N: usize>(sizes: [usize; N]) -> Result<usize, String> {
    let all = sizes.iter().try_fold(1_u64, |all, size| all.checked_mul(*size as u64));
    match all.filter(|all| *all <= MOST_ELEMENTS) {
        Some(0) => Err("a buffer of no element".to_owned()),
        Some(all) => Ok(all as usize),
        None => Err(format!("a buffer of more than {MOST_ELEMENTS} elements")),
    }
}
