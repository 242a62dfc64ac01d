//! Products of 16-bit floats where the CPU has no instruction for them: blocks are widened to f32 in scratch and
//! multiplied there.

use gemm_common::Parallelism;
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::product::{Matrix, Size, product};
use crate::element::{Element, Wide};

/// Most rows and columns of a block of the result.
const SIDE: usize = 256;
/// Most products of each sum at once.
const DEPTH: usize = 512;

/// Elements of the wide type that `run` takes as scratch.
pub(super) fn scratch(size: Size) -> usize {
    let Size { m, n, k } = Size { m: size.m.min(SIDE), n: size.n.min(SIDE), k: size.k.min(DEPTH) };
    m * k + k * n + m * n
}

/// `c = a b + bias`, or `+=`; c is E or its wide type.
///
/// # Safety
/// The matrices are there, c is row-major and overlaps none of them, and nobody else uses c.
pub(super) unsafe fn run<E: Element, C: Element<Wide = E::Wide>>(
    size: Size,
    a: Matrix<E>,
    b: Matrix<E>,
    c: Matrix<C>,
    bias: Option<*const E>,
    accumulate: bool,
    scratch: &mut [E::Wide],
) {
    for i in (0..size.m).step_by(SIDE) {
        for j in (0..size.n).step_by(SIDE) {
            let (m, n) = ((size.m - i).min(SIDE), (size.n - j).min(SIDE));
            let (sums, rest) = scratch.split_at_mut(m * n);
            // SAFETY: the block lies inside.
            unsafe {
                block(Size { m, n, k: size.k }, a.from(i, 0), b.from(0, j), sums, rest);
                let bias = bias.map(|bias| std::slice::from_raw_parts(bias.add(j), n));
                store(sums, c.from(i, j), n, bias, accumulate);
            }
        }
    }
}

/// Sums of one block of the result.
unsafe fn block<E: Element>(size: Size, a: Matrix<E>, b: Matrix<E>, sums: &mut [E::Wide], scratch: &mut [E::Wide]) {
    for p in (0..size.k).step_by(DEPTH) {
        let k = (size.k - p).min(DEPTH);
        let (wide_a, wide_b) = scratch.split_at_mut(size.m * k);
        // SAFETY: the blocks lie inside; scratch is ours.
        unsafe {
            let a = widen_block(a.from(0, p), size.m, k, wide_a);
            let b = widen_block(b.from(p, 0), k, size.n, wide_b);
            let c = Matrix::rows(sums.as_mut_ptr(), size.n);
            product(Size { k, ..size }, c, a, b, E::Wide::ONE, p > 0, Parallelism::None);
        }
    }
}

/// A block in the wide type, stored the same way round.
unsafe fn widen_block<E: Element>(from: Matrix<E>, rows: usize, columns: usize, to: &mut [E::Wide]) -> Matrix<E::Wide> {
    let by_row = from.column == 1;
    let (count, len) = if by_row { (rows, columns) } else { (columns, rows) };
    for (i, to) in to.chunks_exact_mut(len).take(count).enumerate() {
        let at = from.at.wrapping_add(i * if by_row { from.row } else { from.column });
        // SAFETY: a stored row of the block.
        widen(unsafe { std::slice::from_raw_parts(at, len) }, to);
    }
    Matrix::stored(to.as_mut_ptr(), len, !by_row)
}

/// Each element in the wide type.
pub(super) fn widen<E: Element>(from: &[E], to: &mut [E::Wide]) {
    if E::DTYPE == f16::DTYPE {
        // SAFETY: the types are f16 and its wide type, f32.
        let (from, to) = unsafe { (cast(from), cast_mut::<_, f32>(to)) };
        <[f16]>::convert_to_f32_slice(from, to);
    } else {
        from.iter().zip(to).for_each(|(from, to)| *to = from.widen());
    }
}

/// Each element rounded.
pub(super) fn narrow<E: Element>(from: &[E::Wide], to: &mut [E]) {
    if E::DTYPE == f16::DTYPE {
        // SAFETY: the types are f16 and its wide type, f32.
        let (from, to) = unsafe { (cast::<_, f32>(from), cast_mut::<_, f16>(to)) };
        to.convert_from_f32_slice(from);
    } else {
        from.iter().zip(to).for_each(|(from, to)| *to = E::narrow(*from));
    }
}

/// # Safety
/// The types are the same.
unsafe fn cast<A, B>(slice: &[A]) -> &[B] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), slice.len()) }
}

/// # Safety
/// The types are the same.
unsafe fn cast_mut<A, B>(slice: &mut [A]) -> &mut [B] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast(), slice.len()) }
}

/// Writes or adds sums and bias to c.
unsafe fn store<E: Element, C: Element<Wide = E::Wide>>(
    sums: &mut [E::Wide],
    c: Matrix<C>,
    columns: usize,
    bias: Option<&[E]>,
    accumulate: bool,
) {
    for (i, sums) in sums.chunks_exact_mut(columns).enumerate() {
        // SAFETY: a row of the block.
        let c = unsafe { std::slice::from_raw_parts_mut(c.at.add(i * c.row), columns) };
        if let Some(bias) = bias {
            sums.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias.widen());
        }
        if accumulate {
            sums.iter_mut().zip(c.iter()).for_each(|(sum, c)| *sum += c.widen());
        }
        narrow(sums, c);
    }
}
