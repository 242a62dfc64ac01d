//! Activations: GELU, ReLU, SwiGLU, and their gradients.

use std::ops::Range;

use super::{GRAIN, grain};
use crate::context::Context;
use crate::element::Wide;
use crate::kernels::simd::{Isa, Number, Raw, Real, lanes, versions};
use crate::memory::Memory;
use crate::op::Rows;

/// Runs activations and their gradients.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise; parts use disjoint ranges, and what may be an input as well is staged.
    let raw = |view| unsafe { Raw::<E>::new(memory, view) };
    match op {
        Rows::GeluForward { x, y, exact } => one(context, raw(*x), raw(*y), if *exact { gelu_erf } else { gelu_tanh }),
        Rows::GeluBackward { x, dy, dx, exact } => {
            let kernel = if *exact { gelu_erf_gradient } else { gelu_tanh_gradient };
            two(context, raw(*x), raw(*dy), raw(*dx), kernel);
        }
        Rows::ReluForward { x, y } => one(context, raw(*x), raw(*y), relu),
        Rows::ReluBackward { y, dy, dx } => two(context, raw(*y), raw(*dy), raw(*dx), relu_gradient),
        Rows::SwiGluForward { x, y, width } => {
            let (x, y, width) = (raw(*x), raw(*y), *width);
            assert!(x.len() == 2 * y.len() && y.len() % width == 0, "x has gate and up for each element of y");
            context.split(y.len() / width, grain(width), |_, rows| {
                // SAFETY: x and y do not overlap; parts write disjoint rows.
                let (x, y) = unsafe {
                    (
                        x.slice(rows.start * 2 * width..rows.end * 2 * width),
                        y.slice_mut(rows.start * width..rows.end * width),
                    )
                };
                swiglu(x, y, width);
            });
        }
        Rows::SwiGluBackward { x, dy, dx, width } => {
            let (x, dy, dx, width) = (raw(*x), raw(*dy), raw(*dx), *width);
            assert!(x.len() == 2 * dy.len() && x.len() == dx.len() && dy.len() % width == 0, "as in the forward pass");
            context.split(dy.len() / width, grain(width), |_, rows| {
                let both = rows.start * 2 * width..rows.end * 2 * width;
                // SAFETY: as above.
                let (x, dy, dx) = unsafe {
                    (x.slice(both.clone()), dy.slice(rows.start * width..rows.end * width), dx.slice_mut(both))
                };
                swiglu_gradient(x, dy, dx, width);
            });
        }
        other => unreachable!("{other:?} is of another module"),
    }
}

fn one<E: Number>(context: &Context<'_>, x: Raw<E>, y: Raw<E>, kernel: fn(Raw<E>, Raw<E>, Range<usize>)) {
    assert_eq!(x.len(), y.len(), "as many outputs as inputs");
    context.split(y.len(), GRAIN, |_, range| kernel(x, y, range));
}

type Two<E> = fn(Raw<E>, Raw<E>, Raw<E>, Range<usize>);

fn two<E: Number>(context: &Context<'_>, x: Raw<E>, dy: Raw<E>, dx: Raw<E>, kernel: Two<E>) {
    assert!(x.len() == dx.len() && dy.len() == dx.len(), "as many outputs as inputs");
    context.split(dx.len(), GRAIN, |_, range| kernel(x, dy, dx, range));
}

/// 2 sqrt(2 / pi), and the weight of the cube: Hendrycks and Gimpel, arXiv 1606.08415.
const TANH: [f64; 2] = [1.595_769_121_605_730_7, 0.044_715];

/// `x (1 + tanh(u)) / 2 = x sigmoid(2 u)`: for x far below zero, where the first form cancels, the second does not.
#[inline(always)]
fn tanh_gate<I: Isa, T: Real>(x: T) -> T {
    let cube = I::fma(x * x, T::from_f64(TANH[0] * TANH[1]), T::from_f64(TANH[0]));
    (x * cube).sigmoid::<I>()
}

versions! {
    fn gelu_tanh<I, E: Number>(x: Raw<E>, y: Raw<E>, range: Range<usize>) {
        lanes::map(x, y, range, |x| x * tanh_gate::<I, E::Wide>(x));
    }
}

versions! {
    fn gelu_tanh_gradient<I, E: Number>(x: Raw<E>, dy: Raw<E>, dx: Raw<E>, range: Range<usize>) {
        lanes::map_two(x, dy, dx, range, |x, dy| {
            let gate = tanh_gate::<I, E::Wide>(x);
            let slope = I::fma(x * x, E::Wide::from_f64(3.0 * TANH[0] * TANH[1]), E::Wide::from_f64(TANH[0]));
            dy * I::fma(x * slope, gate * (E::Wide::ONE - gate), gate)
        });
    }
}

versions! {
    fn gelu_erf<I, E: Number>(x: Raw<E>, y: Raw<E>, range: Range<usize>) {
        lanes::map(x, y, range, |x| x * x.normal::<I>().0);
    }
}

versions! {
    fn gelu_erf_gradient<I, E: Number>(x: Raw<E>, dy: Raw<E>, dx: Raw<E>, range: Range<usize>) {
        lanes::map_two(x, dy, dx, range, |x, dy| {
            let (cumulative, density) = x.normal::<I>();
            dy * I::fma(x, density, cumulative)
        });
    }
}

versions! {
    /// NaN stays NaN: a loss that is not a number must be seen.
    fn relu<I, E: Number>(x: Raw<E>, y: Raw<E>, range: Range<usize>) {
        lanes::map(x, y, range, |x| if x <= E::Wide::ZERO { E::Wide::ZERO } else { x });
    }
}

versions! {
    fn relu_gradient<I, E: Number>(y: Raw<E>, dy: Raw<E>, dx: Raw<E>, range: Range<usize>) {
        lanes::map_two(y, dy, dx, range, |y, dy| if y > E::Wide::ZERO { dy } else { E::Wide::ZERO });
    }
}

versions! {
    fn swiglu<I, E: Number>(x: &[E], y: &mut [E], width: usize) {
        for (x, y) in x.chunks_exact(2 * width).zip(y.chunks_exact_mut(width)) {
            let (gate, up) = x.split_at(width);
            for ((gate, up), y) in gate.iter().zip(up).zip(y) {
                let gate = gate.load();
                *y = E::store(gate * gate.sigmoid::<I>() * up.load());
            }
        }
    }
}

versions! {
    fn swiglu_gradient<I, E: Number>(x: &[E], dy: &[E], dx: &mut [E], width: usize) {
        for ((x, dy), dx) in x.chunks_exact(2 * width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(2 * width)) {
            let (gate, up) = x.split_at(width);
            let (d_gate, d_up) = dx.split_at_mut(width);
            let gradients = dy.iter().zip(d_gate.iter_mut().zip(d_up));
            for ((gate, up), (dy, (d_gate, d_up))) in gate.iter().zip(up).zip(gradients) {
                let (gate, dy) = (gate.load(), dy.load());
                let sigmoid = gate.sigmoid::<I>();
                let slope = sigmoid * I::fma(gate, E::Wide::ONE - sigmoid, E::Wide::ONE);
                *d_up = E::store(dy * gate * sigmoid);
                *d_gate = E::store(dy * up.load() * slope);
            }
        }
    }
}
