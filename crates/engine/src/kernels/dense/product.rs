//! One product of strided matrices of f32 or f64, by the crates of `gemm`. Not by `gemm` itself, which also brings kernels
//! of complex numbers.

use gemm_common::Parallelism;
use terms::Dtype;

use crate::element::Wide;

/// A matrix in memory: element (i, j) lies `i row + j column` elements after the first.
#[derive(Debug)]
pub struct Matrix<T> {
    /// Element (0, 0).
    pub at: *mut T,
    /// From row to row.
    pub row: usize,
    /// From column to column.
    pub column: usize,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Matrix<T> {}

// SAFETY: an address; every use of it is unsafe and says who else may touch the memory.
unsafe impl<T: Send> Send for Matrix<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Matrix<T> {}

impl<T> Matrix<T> {
    /// Row-major, `stride` elements from row to row.
    pub(crate) fn rows(at: *mut T, stride: usize) -> Self {
        Self { at, row: stride, column: 1 }
    }

    /// The transpose of this matrix, in the same memory.
    pub(crate) fn transposed(self) -> Self {
        Self { at: self.at, row: self.column, column: self.row }
    }

    /// Row-major with `stride`, or the transpose of that.
    pub(super) fn stored(at: *mut T, stride: usize, transposed: bool) -> Self {
        let stored = Self::rows(at, stride);
        if transposed { stored.transposed() } else { stored }
    }

    /// The memory of this matrix as elements of another type.
    fn cast<U>(self) -> Matrix<U> {
        Matrix { at: self.at.cast(), row: self.row, column: self.column }
    }

    /// What begins at element (i, j).
    ///
    /// # Safety
    /// The element lies inside, or one past the end.
    pub(super) unsafe fn from(self, i: usize, j: usize) -> Self {
        // SAFETY: the caller's.
        Self { at: unsafe { self.at.add(i * self.row + j * self.column) }, ..self }
    }
}

/// Rows, columns, and products in each sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Products in each sum.
    pub k: usize,
}

impl Size {
    /// Whether results, of f32, take 4 MiB and more: the next reader would not find them in a second cache.
    pub(super) fn many(self) -> bool {
        self.m * self.n * size_of::<f32>() >= 4 << 20
    }
}

/// `c = scale a b`, or `c += scale a b` with `add`.
///
/// # Safety
/// The matrices are as large as `size` says, c overlaps neither a nor b, and nobody else writes to them meanwhile.
pub(crate) unsafe fn product<W: Wide>(
    size: Size,
    c: Matrix<W>,
    a: Matrix<W>,
    b: Matrix<W>,
    scale: W,
    add: bool,
    parallelism: Parallelism,
) {
    let transposed = Size { m: size.n, n: size.m, ..size };
    // Kernels write columns. The `gemm` crate decides so, too.
    let (size, c, a, b) =
        if c.column < c.row { (transposed, c.transposed(), b.transposed(), a.transposed()) } else { (size, c, a, b) };
    // SAFETY: the caller's; the type is that of the function.
    unsafe {
        match W::DTYPE {
            Dtype::F64 => {
                let [c, a, b] = [c, a, b].map(Matrix::cast::<f64>);
                call(gemm_f64::gemm::f64::get_gemm_fn(), size, c, a, b, scale.f64(), add, parallelism);
            }
            _ => {
                let [c, a, b] = [c, a, b].map(Matrix::cast::<f32>);
                call(gemm_f32::gemm::f32::get_gemm_fn(), size, c, a, b, f32::from_f64(scale.f64()), add, parallelism);
            }
        }
    }
}

/// A kernel of `gemm`: m, n, k; dst and its strides, column first; whether to add to it; lhs and rhs alike; alpha and beta of
/// `dst = alpha dst + beta lhs rhs`; three flags of complex numbers.
type Gemm<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// # Safety
/// As [`product`].
#[expect(clippy::too_many_arguments, reason = "those of a product, and the kernel")]
unsafe fn call<W: Wide>(
    gemm: Gemm<W>,
    size: Size,
    c: Matrix<W>,
    a: Matrix<W>,
    b: Matrix<W>,
    scale: W,
    add: bool,
    parallelism: Parallelism,
) {
    // SAFETY: the caller's.
    unsafe {
        gemm(
            size.m,
            size.n,
            size.k,
            c.at,
            c.column as isize,
            c.row as isize,
            add,
            a.at.cast_const(),
            a.column as isize,
            a.row as isize,
            b.at.cast_const(),
            b.column as isize,
            b.row as isize,
            W::ONE,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}
