//! Softmax and cross-entropy at once: logits are read from memory once and overwritten by their gradient once; no row
//! of probabilities is kept.
//!
//! A row with a negative target is ignored: it adds nothing to the loss, and its gradient is zero. `scale` is the
//! caller's, so the caller that ignores rows decides what they are divided by.

use std::ops::Range;

use super::grain;
use super::sums::split_counted;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Isa, Number, Raw, Real, lanes, versions};
use crate::memory::Memory;
use crate::op::{Rows, SCALE};

/// Classes that are looked at together: they stay in the first cache between the search for their largest and their
/// sum.
const CLASSES: usize = 2048;

/// Rows of logits: the classes, and how many elements a row has in all.
#[derive(Clone, Copy)]
struct LogitsShape {
    classes: usize,
    stride: usize,
}

impl LogitsShape {
    fn new(logits: usize, rows: usize, classes: usize) -> Self {
        let stride = logits.checked_div(rows).unwrap_or(classes);
        assert!(
            logits == rows * stride && stride >= classes,
            "{logits} logits are not {rows} rows of {classes} or more"
        );
        Self { classes, stride }
    }

    /// Where these rows lie.
    fn range(self, rows: &Range<usize>) -> Range<usize> {
        rows.start * self.stride..rows.end * self.stride
    }
}

/// Runs cross-entropy, whole or in parts of the classes.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Rows::CrossEntropy { .. } => whole::<E>(op, memory, context),
            Rows::CrossEntropyLargest { logits, largest, classes } => {
                let (logits, largest) = (memory.read::<E>(*logits), Raw::<E::Wide>::new(memory, *largest));
                let shape = LogitsShape::new(logits.len(), largest.len(), *classes);
                context.split(largest.len(), grain(*classes), |_, rows| {
                    // Parts write disjoint rows.
                    let largest = largest.slice_mut(rows.clone());
                    largest_rows(&logits[shape.range(&rows)], shape, largest);
                });
            }
            Rows::CrossEntropySum { .. } => sum::<E>(op, memory, context),
            Rows::CrossEntropyFinish { .. } => finish::<E>(op, memory, context),
            other => unreachable!("{other:?} is of another module"),
        }
    }
}

/// Adds the parts' losses, which they left in their areas, in order.
///
/// # Safety
/// Parts 0..parts have run and left one f64 each; none runs now.
unsafe fn add_losses(context: &Context<'_>, parts: usize, scale: f64, loss: &mut [f64]) {
    // SAFETY: the parts' own borrows ended with them.
    let sum: f64 = (0..parts).map(|part| unsafe { context.area::<f64>(part, 1) }[0]).sum();
    loss[0] += scale * sum;
}

/// # Safety
/// As [`crate::execute`].
unsafe fn whole<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::CrossEntropy { logits, targets, loss, control, classes, scale } = op else {
        unreachable!("{op:?} is another function's")
    };
    // SAFETY: the caller's promise; parts change disjoint rows.
    let (logits, targets, loss) =
        unsafe { (Raw::<E>::new(memory, *logits), memory.read::<i32>(*targets), memory.write::<f64>(*loss)) };
    let shape = LogitsShape::new(logits.len(), targets.len(), *classes);
    // SAFETY: the caller's promise.
    let factor = scale * unsafe { memory.read::<f64>(*control) }[SCALE];
    let parts = split_counted(context, targets.len(), grain(*classes), |part, rows| {
        // SAFETY: as above; the area is this part's.
        let (logits, area) = unsafe { (logits.slice_mut(shape.range(&rows)), context.area::<f64>(part, 1)) };
        area[0] = whole_rows(logits, shape, &targets[rows], factor);
    });
    // SAFETY: these parts left their sums, and have ended.
    unsafe { add_losses(context, parts, *scale, loss) };
}

versions! {
    /// The sum of losses; logits become gradients.
    fn whole_rows<I, E: Number>(logits: &mut [E], shape: LogitsShape, targets: &[i32], factor: f64) -> f64 {
        let mut loss = 0.0;
        for (row, target) in logits.chunks_exact_mut(shape.stride).zip(targets) {
            let (row, padding) = row.split_at_mut(shape.classes);
            padding.fill(E::default());
            let Ok(target) = usize::try_from(*target) else {
                row.fill(E::default());
                continue;
            };
            assert!(target < row.len(), "target {target} of {} classes", row.len());
            let (largest, sum) = largest_and_sum::<I, E>(row);
            let shifted = row[target].load().f64() - largest.f64();
            loss += sum.ln() - shifted;
            gradient_row::<I, E>(row, Some(target), largest, sum, factor);
        }
        loss
    }
}

/// The largest of a row, and the sum of exponentials of what is left when it is taken away: online (Milakov and
/// Gimelshein, arXiv 1805.02867), by blocks instead of elements, so that rescaling costs nothing.
#[inline(always)]
fn largest_and_sum<I: Isa, E: Number>(row: &[E]) -> (E::Wide, f64) {
    let (mut largest, mut sum) = (lowest::<E>(), 0.0);
    for block in row.chunks(CLASSES) {
        let before = largest;
        largest = lanes::largest(block, largest);
        sum *= (before.f64() - largest.f64()).exp();
        sum += lanes::sum(block, |sum: E::Wide, x| sum + (x - largest).exponential::<I>()).f64();
    }
    (largest, sum)
}

/// Below any logit but minus infinity. Not that: the difference of two would be NaN in a row's masked beginning.
#[inline(always)]
fn lowest<E: Number>() -> E::Wide {
    E::Wide::from_f64(f64::from(f32::MIN))
}

/// Logits to gradients, `factor (p - onehot)`.
#[inline(always)]
fn gradient_row<I: Isa, E: Number>(row: &mut [E], target: Option<usize>, largest: E::Wide, sum: f64, factor: f64) {
    let at_target = target.map(|target| {
        let p = (row[target].load() - largest).exponential::<I>().f64() / sum;
        E::store(E::Wide::from_f64(factor * (p - 1.0)))
    });
    let each = E::Wide::from_f64(factor / sum);
    for x in row.iter_mut() {
        *x = E::store((x.load() - largest).exponential::<I>() * each);
    }
    if let (Some(target), Some(value)) = (target, at_target) {
        row[target] = value;
    }
}

versions! {
    fn largest_rows<I, E: Number>(logits: &[E], shape: LogitsShape, largest: &mut [E::Wide]) {
        for (row, largest) in logits.chunks_exact(shape.stride).zip(largest) {
            *largest = lanes::largest(&row[..shape.classes], lowest::<E>());
        }
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn sum<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::CrossEntropySum { logits, targets, largest, sums, classes, first } = op else {
        unreachable!("{op:?} is another function's")
    };
    // SAFETY: the caller's promise; parts write disjoint rows.
    let (logits, targets, largest, sums) = unsafe {
        (
            memory.read::<E>(*logits),
            memory.read::<i32>(*targets),
            memory.read::<E::Wide>(*largest),
            Raw::<E::Wide>::new(memory, *sums),
        )
    };
    let count = targets.len();
    let shape = LogitsShape::new(logits.len(), count, *classes);
    assert!(largest.len() == count && sums.len() == 2 * count, "a number for each row");
    context.split(count, grain(*classes), |_, rows| {
        // SAFETY: as above.
        let (sums, at_target) =
            unsafe { (sums.slice_mut(rows.clone()), sums.slice_mut(count + rows.start..count + rows.end)) };
        sum_rows::<E>(&logits[shape.range(&rows)], shape, &largest[rows.clone()], sums);
        for ((at_target, row), largest) in at_target.iter_mut().zip(rows.clone()).zip(&largest[rows]) {
            let class = class_of(targets[row], *first, *classes);
            *at_target = class.map_or(E::Wide::ZERO, |class| logits[row * shape.stride + class].load() - *largest);
        }
    });
}

versions! {
    fn sum_rows<I, E: Number>(logits: &[E], shape: LogitsShape, largest: &[E::Wide], sums: &mut [E::Wide]) {
        for ((row, sum), largest) in logits.chunks_exact(shape.stride).zip(sums).zip(largest) {
            let row = &row[..shape.classes];
            let exponentials = |block: &[E]| lanes::sum(block, |sum: E::Wide, x| sum + (x - *largest).exponential::<I>()).f64();
            *sum = E::Wide::from_f64(row.chunks(CLASSES).map(exponentials).sum());
        }
    }
}

/// Column of this part that a target has, if it has one.
#[inline(always)]
fn class_of(target: i32, first: usize, classes: usize) -> Option<usize> {
    usize::try_from(target).ok()?.checked_sub(first).filter(|class| *class < classes)
}

/// # Safety
/// As [`crate::execute`].
unsafe fn finish<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    let Rows::CrossEntropyFinish { logits, targets, largest, sums, loss, control, classes, first, scale, counts } = op
    else {
        unreachable!("{op:?} is another function's")
    };
    // SAFETY: the caller's promise; parts change disjoint rows.
    let (logits, targets, largest, sums) = unsafe {
        (
            Raw::<E>::new(memory, *logits),
            memory.read::<i32>(*targets),
            memory.read::<E::Wide>(*largest),
            memory.read::<E::Wide>(*sums),
        )
    };
    let count = targets.len();
    let shape = LogitsShape::new(logits.len(), count, *classes);
    assert!(largest.len() == count && sums.len() == 2 * count, "a number for each row");
    let (sums, at_target) = sums.split_at(count);
    // SAFETY: the caller's promise.
    let factor = scale * unsafe { memory.read::<f64>(*control) }[SCALE];
    let parts = split_counted(context, count, grain(*classes), |part, rows| {
        // SAFETY: as above; the area is this part's.
        let (logits, area) = unsafe { (logits.slice_mut(shape.range(&rows)), context.area::<f64>(part, 1)) };
        let statistics = [&largest[rows.clone()], &sums[rows.clone()]];
        finish_rows::<E>(logits, shape, &targets[rows.clone()], statistics, *first, factor);
        let seen = rows.filter(|row| targets[*row] >= 0);
        area[0] = seen.map(|row| sums[row].f64().ln() - at_target[row].f64()).sum();
    });
    if *counts {
        // SAFETY: the caller's promise; these parts left their sums, and have ended.
        unsafe { add_losses(context, parts, *scale, memory.write::<f64>(*loss)) };
    }
}

versions! {
    fn finish_rows<I, E: Number>(
        logits: &mut [E], shape: LogitsShape, targets: &[i32], statistics: [&[E::Wide]; 2], first: usize, factor: f64,
    ) {
        let [largest, sums] = statistics;
        for (((row, target), largest), sum) in logits.chunks_exact_mut(shape.stride).zip(targets).zip(largest).zip(sums) {
            let (row, padding) = row.split_at_mut(shape.classes);
            padding.fill(E::default());
            if *target < 0 {
                row.fill(E::default());
            } else {
                gradient_row::<I, E>(row, class_of(*target, first, shape.classes), *largest, sum.f64(), factor);
            }
        }
    }
}
