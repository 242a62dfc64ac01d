//! SGD with momentum and AdamW, by the formulas of PyTorch 2 (`torch/optim/sgd.py`, `torch/optim/adamw.py`), numbers
//! that do not change within a step computed in f64.

use std::ops::Range;

use super::control::{SKIPPED, SQUARES};
use crate::buffer::View;
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Number, Raw, Real, versions};
use crate::memory::Memory;
use crate::op::{SCALE, Update};

/// Elements of work that are worth another thread; a multiple of [`BLOCK`].
const GRAIN: usize = 64 * 1024;

/// Elements between an update and its copy: their master is still in the first cache.
const BLOCK: usize = 1024;

/// Runs `Sgd` and `AdamW`: E is the copy's type, or the masters' where there is none.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Update, memory: &Memory, context: &Context<'_>) {
    let (Update::Sgd { parameters, gradients, copy, control, clip, .. }
    | Update::AdamW { parameters, gradients, copy, control, clip, .. }) = op
    else {
        unreachable!("{op:?} is of another module")
    };
    // SAFETY: the caller's promise; parts change disjoint ranges.
    let control = unsafe { memory.read::<f64>(*control) };
    if control[SKIPPED] == 1.0 {
        return;
    }
    let factor = factor(control[SQUARES], *clip, control[SCALE]);
    // SAFETY: as above.
    let raw = |view: View| unsafe { Raw::<E::Wide>::new(memory, view) };
    // SAFETY: as above.
    let copy = copy.map(|copy| unsafe { Raw::<E>::new(memory, copy) });
    let (parameters, gradients) = (raw(*parameters), raw(*gradients));
    let len = parameters.len();
    assert!(gradients.len() == len && copy.is_none_or(|copy| copy.len() == len), "all arrays are of one length");
    let finish = |range: Range<usize>| {
        if let Some(copy) = copy {
            // SAFETY: as above.
            unsafe { narrow(parameters.slice(range.clone()), copy.slice_mut(range)) };
        }
    };
    match op {
        Update::Sgd { velocity, rate, momentum, .. } => {
            let velocity = velocity.map(raw);
            assert!(velocity.is_none_or(|velocity| velocity.len() == len), "all arrays are of one length");
            let sgd = Sgd {
                factor: E::Wide::from_f64(factor),
                momentum: E::Wide::from_f64(*momentum),
                rate: E::Wide::from_f64(*rate),
            };
            in_blocks(context, len, |range| {
                // SAFETY: as above.
                unsafe {
                    let (p, g) = (parameters.slice_mut(range.clone()), gradients.slice(range.clone()));
                    match velocity {
                        Some(velocity) => momentum_step(p, g, velocity.slice_mut(range.clone()), sgd),
                        None => plain_step(p, g, sgd),
                    }
                }
                finish(range);
            });
        }
        Update::AdamW { first, second, rate, beta1, beta2, epsilon, decay, .. } => {
            let (first, second) = (raw(*first), raw(*second));
            assert!(first.len() == len && second.len() == len, "all arrays are of one length");
            let adam = Adam::new(factor, *rate, [*beta1, *beta2], *epsilon, *decay, context.step.number);
            in_blocks(context, len, |range| {
                // SAFETY: as above.
                unsafe {
                    let (p, g) = (parameters.slice_mut(range.clone()), gradients.slice(range.clone()));
                    adam_step(p, g, first.slice_mut(range.clone()), second.slice_mut(range.clone()), adam);
                }
                finish(range);
            });
        }
        other => unreachable!("{other:?} is of another module"),
    }
}

/// What gradients are multiplied by: the loss scale is taken out, and their norm is at most `clip`.
fn factor(squares: f64, clip: Option<f64>, loss_scale: f64) -> f64 {
    let norm = squares.sqrt() / loss_scale;
    clip.map_or(1.0, |clip| (clip / norm).min(1.0)) / loss_scale
}

fn in_blocks(context: &Context<'_>, len: usize, step: impl Fn(Range<usize>) + Sync) {
    context.split(len, GRAIN, |_, range| {
        for at in range.clone().step_by(BLOCK) {
            step(at..(at + BLOCK).min(range.end));
        }
    });
}

versions! {
    fn narrow<I, E: Number>(x: &[E::Wide], y: &mut [E]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = E::store(*x);
        }
    }
}

#[derive(Clone, Copy)]
struct Sgd<S> {
    factor: S,
    momentum: S,
    rate: S,
}

versions! {
    fn plain_step<I, S: Real>(p: &mut [S], g: &[S], by: Sgd<S>) {
        for (p, g) in p.iter_mut().zip(g) {
            *p = I::fma(-by.rate, *g * by.factor, *p);
        }
    }
}

versions! {
    // From zero, the first velocity is the gradient, as PyTorch's clone of it.
    fn momentum_step<I, S: Real>(p: &mut [S], g: &[S], v: &mut [S], by: Sgd<S>) {
        for ((p, g), v) in p.iter_mut().zip(g).zip(v) {
            *v = I::fma(by.momentum, *v, *g * by.factor);
            *p = I::fma(-by.rate, *v, *p);
        }
    }
}

#[derive(Clone, Copy)]
struct Adam<S> {
    factor: S,
    /// 1 - rate decay.
    shrink: S,
    /// 1 - beta1.
    weight1: S,
    beta2: S,
    /// 1 - beta2.
    weight2: S,
    /// 1 / sqrt(1 - beta2^t).
    correction2: S,
    epsilon: S,
    /// rate / (1 - beta1^t).
    rate: S,
}

impl<S: Real> Adam<S> {
    fn new(factor: f64, rate: f64, [beta1, beta2]: [f64; 2], epsilon: f64, decay: f64, step: u64) -> Self {
        let correction = |beta: f64| 1.0 - beta.powf(step as f64);
        Self {
            factor: S::from_f64(factor),
            shrink: S::from_f64(1.0 - rate * decay),
            weight1: S::from_f64(1.0 - beta1),
            beta2: S::from_f64(beta2),
            weight2: S::from_f64(1.0 - beta2),
            correction2: S::from_f64(1.0 / correction(beta2).sqrt()),
            epsilon: S::from_f64(epsilon),
            rate: S::from_f64(rate / correction(beta1)),
        }
    }
}

versions! {
    fn adam_step<I, S: Real>(p: &mut [S], g: &[S], m: &mut [S], v: &mut [S], by: Adam<S>) {
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            let g = *g * by.factor;
            *m = I::fma(by.weight1, g - *m, *m);
            *v = I::fma(by.weight2 * g, g, by.beta2 * *v);
            let denominator = I::fma(v.root(), by.correction2, by.epsilon);
            *p = *p * by.shrink - by.rate * *m / denominator;
        }
    }
}
