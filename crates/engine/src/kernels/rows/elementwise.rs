//! Filling, converting, adding.

use std::ops::Range;

use terms::Dtype;

use super::{GRAIN, grain};
use crate::buffer::View;
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::kernels::simd::{Number, Raw, lanes, typed, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// Runs `Fill`, `Convert`, `Add`, `AddBias`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run(op: &Rows, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Rows::Fill { y, value } => match memory.dtype(*y) {
                Dtype::I32 => fill::<i32>(*y, Element::narrow(*value), memory, context),
                dtype => typed!(dtype, E => fill::<E>(*y, E::nearest(*value), memory, context)),
            },
            Rows::Convert { x, y } => typed!(memory.dtype(*x), A => typed!(memory.dtype(*y), B =>
                convert::<A, B>(*x, *y, memory, context))),
            Rows::Add { a, b, y } => typed!(memory.dtype(*y), E => add::<E>([*a, *b, *y], memory, context)),
            Rows::AddBias { x, bias } => typed!(memory.dtype(*x), E => add_bias::<E>(*x, *bias, memory, context)),
            other => unreachable!("{other:?} is of another module"),
        }
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn fill<E: Element>(y: View, value: E, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise; parts write disjoint ranges.
    let y = unsafe { Raw::<E>::new(memory, y) };
    context.split(y.len(), GRAIN, |_, range| {
        // SAFETY: as above.
        unsafe { y.slice_mut(range) }.fill(value);
    });
}

versions! {
    fn convert_part<I, A: Number, B: Number>(x: Raw<A>, y: Raw<B>, range: Range<usize>) {
        if A::DTYPE == Dtype::F64 || B::DTYPE == Dtype::F64 {
            lanes::convert(x, y, range, |x| B::nearest(x.load().f64()));
        } else {
            // Both are computed with as f32: what goes through f64 comes back unchanged, and costs nothing.
            lanes::convert(x, y, range, |x| B::store(B::Wide::from_f64(x.load().f64())));
        }
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn convert<A: Number, B: Number>(x: View, y: View, memory: &Memory, context: &Context<'_>) {
    assert_eq!(x.len, y.len, "as many elements are converted as there is room for");
    // SAFETY: the caller's promise; parts write disjoint ranges.
    let (x, y) = unsafe { (Raw::<A>::new(memory, x), Raw::<B>::new(memory, y)) };
    context.split(y.len(), GRAIN, |_, range| convert_part(x, y, range));
}

versions! {
    fn add_part<I, E: Number>(a: Raw<E>, b: Raw<E>, y: Raw<E>, range: Range<usize>) {
        lanes::map_two(a, b, y, range, |a, b| a + b);
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn add<E: Number>(views: [View; 3], memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise; parts use disjoint ranges, and y is read where it is written, if at all.
    let [a, b, y] = views.map(|view| unsafe { Raw::<E>::new(memory, view) });
    assert!(a.len() == y.len() && b.len() == y.len(), "{views:?} differ in length");
    context.split(y.len(), GRAIN, |_, range| add_part(a, b, y, range));
}

versions! {
    fn add_bias_rows<I, E: Number>(x: &mut [E], bias: &[E]) {
        for row in x.chunks_exact_mut(bias.len()) {
            for (x, bias) in row.iter_mut().zip(bias) {
                *x = E::store(x.load() + bias.load());
            }
        }
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn add_bias<E: Number>(x: View, bias: View, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise; parts write disjoint rows.
    let (x, bias) = unsafe { (Raw::<E>::new(memory, x), memory.read::<E>(bias)) };
    let columns = bias.len();
    assert_eq!(x.len() % columns, 0, "rows are as long as the bias");
    context.split(x.len() / columns, grain(columns), |_, rows| {
        // SAFETY: as above.
        add_bias_rows(unsafe { x.slice_mut(rows.start * columns..rows.end * columns) }, bias);
    });
}
