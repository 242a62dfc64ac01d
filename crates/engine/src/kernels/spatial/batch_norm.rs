//! Batch norm: memory-bound passes over rows of channels. Sums are taken in f32 over short blocks of rows, and carried in
//! f64 from block to block, part to part (in their order), and rank to rank.

use std::ops::Range;

use super::lanes::lanes;
use super::{SharedElements, wide_bytes};
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::memory::Memory;
use crate::op::Spatial;

/// Rows that are summed in the type of the arithmetic before the sum is carried to f64. An error of sums is at most
/// `BLOCK` roundings of f32.
const BLOCK: usize = 16;

/// Runs one operation.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Element>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's: views overlap only as `Spatial` says, which the two functions that may work in place know.
    unsafe {
        match op {
            Spatial::BatchNormSum { x, partial, channels } => {
                sum(memory.read::<E>(*x), memory.write(*partial), *channels, context);
            }
            Spatial::BatchNormForward { .. } => forward::<E>(op, memory, context),
            Spatial::BatchNormBackwardSum { x, y, dy, statistics, partial, channels } => {
                let y = y.map(|y| memory.read::<E>(y));
                let (x, dy) = (memory.read::<E>(*x), memory.write::<E>(*dy));
                backward_sum(x, y, dy, memory.read(*statistics), memory.write(*partial), *channels, context);
            }
            Spatial::BatchNormBackward { .. } => backward::<E>(op, memory, context),
            Spatial::BatchNormParameters { partial, d_gain, d_bias, accumulate } => {
                // Its type is found by that of the gradients: E is S here.
                let partial = memory.read::<f64>(*partial);
                let (bias, gain) = partial.split_at(partial.len() / 2);
                add(gain, memory.write::<E>(*d_gain), *accumulate);
                add(bias, memory.write::<E>(*d_bias), *accumulate);
            }
            other => unreachable!("{other:?} is not a batch norm"),
        }
    }
}

/// Scratch bytes of one part; None for what is not a batch norm.
pub(super) fn scratch_bytes(op: &Spatial, bytes: usize) -> Option<usize> {
    match op {
        // Two sums a channel in f64, and those of a block.
        Spatial::BatchNormSum { channels, .. } | Spatial::BatchNormBackwardSum { channels, .. } => {
            Some(2 * channels * (8 + wide_bytes(bytes)))
        }
        Spatial::BatchNormForward { channels, .. } => Some(2 * channels * wide_bytes(bytes)),
        Spatial::BatchNormBackward { channels, .. } => Some(3 * channels * wide_bytes(bytes)),
        Spatial::BatchNormParameters { .. } => Some(0),
        _ => None,
    }
}

fn add<S: Element>(from: &[f64], to: &mut [S], accumulate: bool) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = S::narrow(S::Wide::from_f64(*from) + if accumulate { to.widen() } else { S::Wide::ZERO });
    }
}

/// Rows of `channels` elements.
fn rows(len: usize, channels: usize) -> usize {
    assert!(channels > 0 && len.is_multiple_of(channels), "{len} elements are not rows of {channels}");
    len / channels
}

/// Adds up two sums a channel over all rows: `block(rows, sums)` adds those of a few rows to `sums` (`[2 channels]`).
fn sums<S: Wide>(
    rows: usize,
    channels: usize,
    partial: &mut [f64],
    context: &Context<'_>,
    block: impl Fn(Range<usize>, &mut [S]) + Sync,
) {
    for part in 0..context.threads {
        // SAFETY: no part runs yet. Those that get no rows leave zeros.
        unsafe { context.area::<f64>(part, 2 * channels) }.fill(0.0);
    }
    context.split(rows, BLOCK, |part, range| {
        // SAFETY: once a part, as `scratch_bytes` counts.
        let (total, short) = unsafe {
            let short = 2 * channels * size_of::<S>() / size_of::<f64>();
            let (total, short) = context.area::<f64>(part, 2 * channels + short).split_at_mut(2 * channels);
            (total, numbers::<S>(short))
        };
        for first in range.clone().step_by(BLOCK) {
            short.fill(S::ZERO);
            block(first..(first + BLOCK).min(range.end), short);
            carry(short, total);
        }
    });
    partial.fill(0.0);
    for part in 0..context.threads {
        // SAFETY: all parts are done, and their areas begin with their totals.
        let total = unsafe { context.area::<f64>(part, 2 * channels) };
        partial.iter_mut().zip(total).for_each(|(to, from)| *to += *from);
    }
}

/// Scratch as narrower numbers.
fn numbers<S: Wide>(scratch: &mut [f64]) -> &mut [S] {
    let len = size_of_val(scratch) / size_of::<S>();
    // SAFETY: inside the slice; S is f32 or f64: any bits are a value of it, and it needs no more alignment.
    unsafe { std::slice::from_raw_parts_mut(scratch.as_mut_ptr().cast(), len) }
}

fn sum<E: Element>(x: &[E], partial: &mut [f64], channels: usize, context: &Context<'_>) {
    sums::<E::Wide>(rows(x.len(), channels), channels, partial, context, |rows, sums| {
        add_squares(&x[rows.start * channels..rows.end * channels], sums);
    });
}

#[rustfmt::skip]
lanes! {
    fn carry<S: Wide>(short: &[S], total: &mut [f64]) {
        for (to, from) in total.iter_mut().zip(short) {
            *to += from.f64();
        }
    }

    // Sums and sums of squares of each column.
    fn add_squares<E: Element>(x: &[E], sums: &mut [E::Wide]) {
        let (sums, squares) = sums.split_at_mut(sums.len() / 2);
        for row in x.chunks_exact(sums.len()) {
            for ((sum, square), x) in sums.iter_mut().zip(squares.iter_mut()).zip(row) {
                let x = x.widen();
                *sum += x;
                *square += x * x;
            }
        }
    }

    // Masks dy where ReLU cut; sums of dy and of dy (x - mean) of each column.
    fn mask_and_add<E: Element>(x: &[E], y: Option<&[E]>, dy: &mut [E], mean: &[E::Wide], sums: &mut [E::Wide]) {
        let channels = mean.len();
        let (sums, products) = sums.split_at_mut(channels);
        for (index, (x, dy)) in x.chunks_exact(channels).zip(dy.chunks_exact_mut(channels)).enumerate() {
            if let Some(y) = y {
                let y = &y[index * channels..][..channels];
                let numbers = x.iter().zip(dy).zip(y).zip(mean);
                for ((((x, dy), y), mean), (sum, product)) in numbers.zip(sums.iter_mut().zip(products.iter_mut())) {
                    let passes = y.widen() > E::Wide::ZERO;
                    let d = if passes { dy.widen() } else { E::Wide::ZERO };
                    *dy = E::narrow(d);
                    *sum += d;
                    *product += d * (x.widen() - *mean);
                }
            } else {
                let numbers = x.iter().zip(dy.iter()).zip(mean);
                for (((x, dy), mean), (sum, product)) in numbers.zip(sums.iter_mut().zip(products.iter_mut())) {
                    let d = dy.widen();
                    *sum += d;
                    *product += d * (x.widen() - *mean);
                }
            }
        }
    }

    // y = (x - mean) scale + bias (+ residual), then ReLU. Without `residual`, y itself is it where `in_place` says so.
    fn apply<E: Element>(
        x: &[E], residual: Option<&[E]>, in_place: bool, relu: bool, y: &mut [E],
        mean: &[E::Wide], scale: &[E::Wide], bias: &[E::Wide],
    ) {
        let channels = mean.len();
        let floor = |value: E::Wide| if relu && value <= E::Wide::ZERO { E::Wide::ZERO } else { value };
        for (index, (x, y)) in x.chunks_exact(channels).zip(y.chunks_exact_mut(channels)).enumerate() {
            let constants = mean.iter().zip(scale).zip(bias);
            let numbers = x.iter().zip(y).zip(constants);
            let normal = |x: &E, mean: &E::Wide, scale: &E::Wide, bias: &E::Wide| (x.widen() - *mean) * *scale + *bias;
            if let Some(residual) = residual {
                let residual = &residual[index * channels..][..channels];
                for (((x, y), ((mean, scale), bias)), residual) in numbers.zip(residual) {
                    *y = E::narrow(floor(normal(x, mean, scale, bias) + residual.widen()));
                }
            } else if in_place {
                for ((x, y), ((mean, scale), bias)) in numbers {
                    *y = E::narrow(floor(normal(x, mean, scale, bias) + y.widen()));
                }
            } else {
                for ((x, y), ((mean, scale), bias)) in numbers {
                    *y = E::narrow(floor(normal(x, mean, scale, bias)));
                }
            }
        }
    }

    // dx = scale (dy - shift - (x - mean) slope). Without `dy`, dx itself is it.
    fn apply_backward<E: Element>(
        x: &[E], dy: Option<&[E]>, dx: &mut [E],
        mean: &[E::Wide], scale: &[E::Wide], shift: &[E::Wide], slope: &[E::Wide],
    ) {
        let channels = mean.len();
        for (index, (x, dx)) in x.chunks_exact(channels).zip(dx.chunks_exact_mut(channels)).enumerate() {
            let constants = mean.iter().zip(scale).zip(shift.iter().zip(slope));
            let numbers = x.iter().zip(dx).zip(constants);
            if let Some(dy) = dy {
                let dy = &dy[index * channels..][..channels];
                for (((x, dx), ((mean, scale), (shift, slope))), dy) in numbers.zip(dy) {
                    *dx = E::narrow((dy.widen() - *shift - (x.widen() - *mean) * *slope) * *scale);
                }
            } else {
                for ((x, dx), ((mean, scale), (shift, slope))) in numbers {
                    *dx = E::narrow((dx.widen() - *shift - (x.widen() - *mean) * *slope) * *scale);
                }
            }
        }
    }
}

fn backward_sum<E: Element>(
    x: &[E],
    y: Option<&[E]>,
    dy: &mut [E],
    statistics: &[E::Wide],
    partial: &mut [f64],
    channels: usize,
    context: &Context<'_>,
) {
    assert!(x.len() == dy.len() && y.is_none_or(|y| y.len() == x.len()), "rows of the same number");
    let (mean, deviations) = statistics.split_at(channels);
    let dy = SharedElements::new(dy);
    sums::<E::Wide>(rows(x.len(), channels), channels, partial, context, |rows, sums| {
        let range = rows.start * channels..rows.end * channels;
        // SAFETY: parts have different rows.
        let dy = unsafe { dy.part(range.start, range.len()) };
        mask_and_add(&x[range.clone()], y.map(|y| &y[range]), dy, mean, sums);
    });
    for (product, deviation) in partial[channels..].iter_mut().zip(deviations) {
        *product *= deviation.f64();
    }
}

/// # Safety
/// As [`run`].
unsafe fn forward<E: Element>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    let Spatial::BatchNormForward { x, partial, count, gain, bias, residual, y, statistics, channels, epsilon, relu } =
        op
    else {
        unreachable!("{op:?} is not a forward pass of a batch norm")
    };
    let channels = *channels;
    let in_place = residual.is_some_and(|residual| residual == *y);
    // SAFETY: the caller's: only y and the residual may be the same, and then the residual is read through y alone.
    unsafe {
        let statistics = memory.write::<E::Wide>(*statistics);
        finish(memory.read(*partial), *count, *epsilon, statistics);
        let (mean, deviation) = statistics.split_at(channels);
        let (x, gain, bias) = (memory.read::<E>(*x), memory.read::<E>(*gain), memory.read::<E>(*bias));
        let residual = residual.filter(|_| !in_place).map(|residual| memory.read::<E>(residual));
        let y = memory.write::<E>(*y);
        assert!(y.len() == x.len() && residual.is_none_or(|residual| residual.len() == x.len()), "equal rows");
        let y = SharedElements::new(y);
        context.split(rows(x.len(), channels), 1, |part, rows| {
            // Once a part; `scratch_bytes` counts the same numbers; parts have different rows.
            let (scale, shift) = context.area::<E::Wide>(part, 2 * channels).split_at_mut(channels);
            for channel in 0..channels {
                scale[channel] = deviation[channel] * gain[channel].widen();
                shift[channel] = bias[channel].widen();
            }
            let range = rows.start * channels..rows.end * channels;
            let y = y.part(range.start, range.len());
            let residual = residual.map(|residual| &residual[range.clone()]);
            apply(&x[range], residual, in_place, *relu, y, mean, scale, shift);
        });
    }
}

/// Mean and 1/sqrt(variance + epsilon) of each channel, from sums over `count` rows.
fn finish<S: Wide>(partial: &[f64], count: usize, epsilon: f64, statistics: &mut [S]) {
    let (means, deviations) = statistics.split_at_mut(partial.len() / 2);
    let (sums, squares) = partial.split_at(partial.len() / 2);
    for ((mean, deviation), (sum, square)) in means.iter_mut().zip(deviations).zip(sums.iter().zip(squares)) {
        let (average, square) = (sum / count as f64, square / count as f64);
        *mean = S::from_f64(average);
        // Rounding may leave less than nothing of a channel that never changes.
        *deviation = S::from_f64(1.0 / ((square - average * average).max(0.0) + epsilon).sqrt());
    }
}

/// # Safety
/// As [`run`].
unsafe fn backward<E: Element>(op: &Spatial, memory: &Memory, context: &Context<'_>) {
    let Spatial::BatchNormBackward { x, dy, statistics, gain, partial, count, dx, channels } = op else {
        unreachable!("{op:?} is not a backward pass of a batch norm")
    };
    let (channels, count) = (*channels, *count as f64);
    let in_place = dx == dy;
    // SAFETY: the caller's: only dx and dy may be the same, and then dy is read through dx alone.
    unsafe {
        let (mean, deviation) = memory.read::<E::Wide>(*statistics).split_at(channels);
        let (sum, product) = memory.read::<f64>(*partial).split_at(channels);
        let (x, gain) = (memory.read::<E>(*x), memory.read::<E>(*gain));
        let dy = (!in_place).then(|| memory.read::<E>(*dy));
        let dx = memory.write::<E>(*dx);
        assert!(dx.len() == x.len() && dy.is_none_or(|dy| dy.len() == x.len()), "equal rows");
        let dx = SharedElements::new(dx);
        context.split(rows(x.len(), channels), 1, |part, rows| {
            // Once a part; `scratch_bytes` counts the same numbers; parts have different rows.
            let (scale, area) = context.area::<E::Wide>(part, 3 * channels).split_at_mut(channels);
            let (shift, slope) = area.split_at_mut(channels);
            for channel in 0..channels {
                scale[channel] = deviation[channel] * gain[channel].widen();
                shift[channel] = E::Wide::from_f64(sum[channel] / count);
                slope[channel] = E::Wide::from_f64(product[channel] / count * deviation[channel].f64());
            }
            let range = rows.start * channels..rows.end * channels;
            let dx = dx.part(range.start, range.len());
            let dy = dy.map(|dy| &dy[range.clone()]);
            apply_backward(&x[range], dy, dx, mean, scale, shift, slope);
        });
    }
}
