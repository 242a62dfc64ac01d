//! The two shapes of loops that kernels are made of: element by element, and sums over a row.

use std::ops::Range;

use super::{Number, Raw, Real};
use crate::element::Wide;

/// Sums run in this many lanes at once, which hides the latency of additions at every vector width; what a sum's error
/// grows with is the number of elements over this.
pub(crate) const LANES: usize = 64;

/// Elements that are loaded, computed and stored together where input and output may be the same memory.
pub(crate) const BLOCK: usize = 128;

/// Adds lanes up, always in the same order.
#[inline(always)]
pub(crate) fn total<T: Real>(mut lanes: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `fold(fold(start, x[0]), x[1]) ...` in lanes, which are then added: `fold` must add something to its first argument.
#[inline(always)]
pub(crate) fn sum<E: Number, T: Real>(x: &[E], fold: impl Fn(T, E::Wide) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (blocks, tail) = x.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = fold(lanes[lane], block[lane].load());
        }
    }
    // Into an array of its own: an index that is not constant would keep the lanes above out of registers.
    let mut last = [T::ZERO; LANES];
    for (lane, value) in last.iter_mut().zip(tail) {
        *lane = fold(*lane, value.load());
    }
    for lane in 0..LANES {
        lanes[lane] += last[lane];
    }
    total(lanes)
}

/// The largest, at least `start`. NaN may be skipped: the exponential that follows meets it.
#[inline(always)]
pub(crate) fn largest<E: Number>(x: &[E], start: E::Wide) -> E::Wide {
    let mut lanes = [start; LANES];
    let (blocks, tail) = x.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].larger(block[lane].load());
        }
    }
    let rest = tail.iter().fold(start, |largest, value| largest.larger(value.load()));
    lanes.iter().fold(rest, |largest, value| largest.larger(*value))
}

/// `y[i] = f(x[i])` over a range, of elements as they are stored; y may be x.
#[inline(always)]
pub(crate) fn convert<A: Number, B: Number>(x: Raw<A>, y: Raw<B>, range: Range<usize>, f: impl Fn(A) -> B) {
    let mut at = range.start;
    while at < range.end {
        let here = at..(at + BLOCK).min(range.end);
        let input = x.block::<BLOCK>(here.clone(), A::default());
        let mut output = [B::default(); BLOCK];
        for (output, input) in output.iter_mut().zip(&input) {
            *output = f(*input);
        }
        y.put(here.clone(), &output);
        at = here.end;
    }
}

/// `y[i] = f(x[i])` over a range; y may be x.
#[inline(always)]
pub(crate) fn map<E: Number>(x: Raw<E>, y: Raw<E>, range: Range<usize>, f: impl Fn(E::Wide) -> E::Wide) {
    convert(x, y, range, |x| E::store(f(x.load())));
}

/// `y[i] = f(a[i], b[i])` over a range; y may be a or b.
#[inline(always)]
pub(crate) fn map_two<E: Number>(
    a: Raw<E>,
    b: Raw<E>,
    y: Raw<E>,
    range: Range<usize>,
    f: impl Fn(E::Wide, E::Wide) -> E::Wide,
) {
    let mut at = range.start;
    while at < range.end {
        let here = at..(at + BLOCK).min(range.end);
        let first = a.block::<BLOCK>(here.clone(), E::default());
        let second = b.block::<BLOCK>(here.clone(), E::default());
        let mut output = [E::default(); BLOCK];
        for (output, (a, b)) in output.iter_mut().zip(first.iter().zip(&second)) {
            *output = E::store(f(a.load(), b.load()));
        }
        y.put(here.clone(), &output);
        at = here.end;
    }
}
