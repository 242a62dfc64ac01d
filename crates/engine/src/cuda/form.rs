//! What is multiplied, and what happens to the result.

use device::Slice;
use terms::Dtype;

use super::{Arithmetic, ProductError};

/// What happens to the result before it is written. `z` is the product, plus the bias where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing happens: c = z.
    Plain,
    /// c = z, with a bias for each column.
    Bias,
    /// c = GELU(z), by the formula with the hyperbolic tangent.
    Gelu,
    /// c = GELU(z), with a bias for each column, and z is written to the auxiliary matrix: training needs it.
    GeluBiasKept,
    /// c = z times the derivative of GELU at the auxiliary matrix.
    GeluGradient,
    /// c = z times the derivative of GELU at the auxiliary matrix, and the sums of the columns of c are
    /// written as the bias's gradient.
    GeluBiasGradient,
    /// c = z, and the sums over the depth of A, one for each row of c, are written as the bias's gradient: A is the gradient of a layer's
    /// output, and c that of its weight.
    BiasGradient,
}

impl Epilogue {
    /// Every epilogue.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Bias,
        Self::Gelu,
        Self::GeluBiasKept,
        Self::GeluGradient,
        Self::GeluBiasGradient,
        Self::BiasGradient,
    ];

    /// Whether a vector is read or written: a bias, or its gradient.
    pub fn has_bias(self) -> bool {
        matches!(self, Self::Bias | Self::GeluBiasKept | Self::GeluBiasGradient | Self::BiasGradient)
    }

    /// Whether a second matrix of the result's shape is read or written.
    pub fn has_auxiliary(self) -> bool {
        matches!(self, Self::GeluBiasKept | Self::GeluGradient | Self::GeluBiasGradient)
    }

    /// cublasLtEpilogue_t. The library's D is the transpose of C, and its first operand is B.
    pub(super) fn code(self) -> i32 {
        const BIAS: i32 = 4;
        const GELU: i32 = 32;
        const GELU_GRADIENT: i32 = 64 | 128;
        const KEEPS: i32 = 128;
        match self {
            Self::Plain => 1,
            Self::Bias => BIAS,
            Self::Gelu => GELU,
            Self::GeluBiasKept => GELU | KEEPS | BIAS,
            Self::GeluGradient => GELU_GRADIENT,
            Self::GeluBiasGradient => GELU_GRADIENT | 16,
            Self::BiasGradient => 512,
        }
    }
}

/// Matrices of so many products that lie in one buffer, and elements from one to the next: of A, B and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// How many.
    pub count: usize,
    /// Elements from one matrix to the next: of A, B and C.
    pub strides: [usize; 3],
}

/// A product C = A B of row-major matrices: A is `[m, k]`, B is `[k, n]`, C is `[m, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    /// The types.
    pub arithmetic: Arithmetic,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Depth.
    pub k: usize,
    /// A is stored `[k, m]`.
    pub a_transposed: bool,
    /// B is stored `[n, k]`.
    pub b_transposed: bool,
    /// Adds to what C holds.
    pub accumulate: bool,
    /// What happens to the result.
    pub epilogue: Epilogue,
    /// C has type f32 although A and B have 16 bits: gradients of weights.
    pub is_wide: bool,
    /// Several such products at once.
    pub batch: Option<Batch>,
}

/// Where a product's matrices lie, each from its first element on.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    /// The matrix A, row-major as [`Form`] says.
    pub a: &'a Slice,
    /// The matrix B, row-major as [`Form`] says.
    pub b: &'a Slice,
    /// The matrix C, row-major as [`Form`] says.
    pub c: &'a Slice,
    /// [`Form::vector`] elements of the result's type, where the epilogue has them.
    pub bias: Option<&'a Slice>,
    /// `[m, n]` of the result's type, where the epilogue has it.
    pub auxiliary: Option<&'a Slice>,
}

impl Form {
    /// A plain product.
    pub fn new(arithmetic: Arithmetic, [m, n, k]: [usize; 3]) -> Self {
        let (a_transposed, b_transposed, accumulate) = (false, arithmetic.needs().1, false);
        let (epilogue, batch) = (Epilogue::Plain, None);
        Self { arithmetic, m, n, k, a_transposed, b_transposed, accumulate, epilogue, is_wide: false, batch }
    }

    /// Elements that A, B and C take, gaps between the matrices of a batch included.
    pub fn elements(&self) -> [usize; 3] {
        let one = [self.m * self.k, self.k * self.n, self.m * self.n];
        let Some(batch) = self.batch else { return one };
        std::array::from_fn(|place| batch.strides[place] * (batch.count - 1) + one[place])
    }

    /// Elements of a bias, or of its gradient: of each column, or of each row.
    pub fn vector(&self) -> usize {
        if self.epilogue == Epilogue::BiasGradient { self.m } else { self.n }
    }

    /// Types of A, B and C.
    pub fn dtypes(&self) -> [Dtype; 3] {
        let operand = self.arithmetic.operand();
        [operand, operand, self.result()]
    }

    /// The type of C.
    pub fn result(&self) -> Dtype {
        if self.is_wide { Dtype::F32 } else { self.arithmetic.result() }
    }

    /// cudaDataType_t of C.
    pub(super) fn result_code(&self) -> i32 {
        if self.is_wide { Arithmetic::WIDE } else { self.arithmetic.codes().result }
    }

    /// Refuses what no library could multiply.
    pub(super) fn check(&self) -> Result<(), ProductError> {
        let Self { m, n, k, arithmetic, .. } = *self;
        let (multiple, b_transposed) = arithmetic.needs();
        let refused = |why: String| Err(ProductError::Unsupported(why));
        if m == 0 || n == 0 || k == 0 || self.batch.is_some_and(|batch| batch.count == 0) {
            return refused(format!("a product of {m} x {n} x {k} is empty"));
        }
        // The library takes sizes of 64 bits, and kernels of it strides of 32.
        if [m, n, k].into_iter().any(|size| size > i32::MAX as usize) {
            return refused(format!("a product of {m} x {n} x {k} has a side past {}", i32::MAX));
        }
        if !k.is_multiple_of(multiple) || !n.is_multiple_of(multiple) {
            let what = arithmetic.operand();
            return refused(format!("products of {what} need n = {n} and k = {k} to be multiples of {multiple}"));
        }
        if self.is_wide && !matches!(arithmetic, Arithmetic::Bf16 | Arithmetic::F16) {
            return refused(format!("products of {} have no result of f32", arithmetic.operand()));
        }
        if (self.a_transposed || !self.b_transposed) && b_transposed {
            return refused(format!("products of {} need A as [m, k] and B as [n, k]", arithmetic.operand()));
        }
        Ok(())
    }
}
