//! The four numbers that decide about a step's update: the norm of all gradients, and the loss scale.
//!
//! The scale changes as `torch.amp.GradScaler`'s does by default: halved after a step with a gradient that is not
//! finite, doubled after 2000 good steps in a row.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::View;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Number, lanes, typed, versions};
use crate::memory::Memory;
use crate::op::{SCALE, Update};

/// Places in `control`.
const GOOD_STEPS: usize = 1;
pub(super) const SQUARES: usize = 2;
pub(super) const SKIPPED: usize = 3;

/// Good steps after which the scale doubles.
const GROWTH_INTERVAL: f64 = 2000.0;

/// Runs what only looks at gradients and `control`.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run(op: &Update, memory: &Memory, context: &Context<'_>) {
    let (Update::SumSquares { control, .. }
    | Update::BeginNorm { control }
    | Update::Judge { control, .. }
    | Update::EndStep { control }) = op
    else {
        unreachable!("{op:?} is of another module")
    };
    // SAFETY: the caller's promise.
    let control = unsafe { memory.write::<f64>(*control) };
    assert_eq!(control.len(), 4, "control has four numbers");
    match op {
        Update::SumSquares { x, .. } => {
            // SAFETY: the caller's promise.
            control[SQUARES] += typed!(memory.dtype(*x), E => unsafe { sum_squares::<E>(*x, memory, context) });
        }
        Update::BeginNorm { .. } => control[SQUARES] = 0.0,
        Update::Judge { dynamic, .. } => judge(control, *dynamic),
        _ => end_step(control),
    }
}

fn judge(control: &mut [f64], dynamic: bool) {
    let bad = dynamic && !control[SQUARES].is_finite();
    control[SKIPPED] = f64::from(u8::from(bad));
    // Without dynamic scaling it stays 0, so that `end_step`, which does not know, changes nothing.
    control[GOOD_STEPS] = if bad || !dynamic { 0.0 } else { control[GOOD_STEPS] + 1.0 };
}

fn end_step(control: &mut [f64]) {
    if control[SKIPPED] == 1.0 {
        control[SCALE] *= 0.5;
    } else if control[GOOD_STEPS] >= GROWTH_INTERVAL {
        control[SCALE] *= 2.0;
        control[GOOD_STEPS] = 0.0;
    }
}

/// Stretches that are summed apart, at most; how many depends on the length alone, so the sum does not depend on the
/// number of threads.
const STRETCHES: usize = 64;

/// Shortest stretch.
const STRETCH: usize = 64 * 1024;

/// Streams that a stretch is read in at once: one alone leaves memory waiting.
const STREAMS: usize = 4;

versions! {
    fn squares<I, E: Number>(x: &[E]) -> f64 {
        let quarter = x.len() / STREAMS / lanes::LANES * lanes::LANES;
        let (streams, rest) = x.split_at(STREAMS * quarter);
        let mut sums = [0.0; lanes::LANES];
        for at in (0..quarter).step_by(lanes::LANES) {
            for stream in 0..STREAMS {
                let block = &streams[stream * quarter + at..][..lanes::LANES];
                for (sum, x) in sums.iter_mut().zip(block) {
                    let x = x.load().f64();
                    *sum = I::fma(x, x, *sum);
                }
            }
        }
        lanes::total(sums) + lanes::sum(rest, |sum: f64, x| I::fma(x.f64(), x.f64(), sum))
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn sum_squares<E: Number>(x: View, memory: &Memory, context: &Context<'_>) -> f64 {
    // SAFETY: the caller's promise.
    let x = unsafe { memory.read::<E>(x) };
    let stretch = x.len().div_ceil(STRETCHES).next_multiple_of(lanes::LANES).max(STRETCH);
    let sums = [const { AtomicU64::new(0) }; STRETCHES];
    context.split(x.len().div_ceil(stretch), 1, |_, stretches| {
        for at in stretches {
            let here = &x[at * stretch..((at + 1) * stretch).min(x.len())];
            sums[at].store(squares(here).to_bits(), Ordering::Relaxed);
        }
    });
    sums.into_iter().map(|sum| f64::from_bits(sum.into_inner())).sum()
}
