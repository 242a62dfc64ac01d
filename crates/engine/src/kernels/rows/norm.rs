//! LayerNorm (Ba et al., arXiv 1607.06450) and RMSNorm (Zhang and Sennrich, arXiv 1910.07467). A row is read from
//! memory once: mean, variance (of the centred row, which cannot cancel) and result are taken while it lies in the
//! cache.

use std::ops::Range;

use super::grain;
use super::sums::{add_parts, split_counted};
use crate::context::Context;
use crate::element::{Element, Wide};
use crate::kernels::simd::lanes::{self, BLOCK, LANES};
use crate::kernels::simd::{Isa, Number, Raw, versions};
use crate::memory::Memory;
use crate::op::{Norm, Rows};

/// Runs norms and their gradients.
///
/// # Safety
/// As [`crate::execute`].
pub(super) unsafe fn run<E: Number>(op: &Rows, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Rows::NormForward { norm, y } => {
                let y = Raw::<E>::new(memory, *y);
                run_forward(norm, y, memory, context);
            }
            Rows::NormBackward { norm, dy, dx, accumulate, d_gain, d_bias, accumulate_parameters } => {
                let (dy, dx) = (Raw::<E>::new(memory, *dy), Raw::<E>::new(memory, *dx));
                let columns = norm.columns;
                assert!(
                    d_gain.len == columns && d_bias.is_none_or(|d_bias| d_bias.len == columns),
                    "a gradient a column"
                );
                let total = columns * (1 + usize::from(d_bias.is_some()));
                let parts = run_backward(norm, dy, dx, *accumulate, total, memory, context);
                add_parts(context, parts, total, 0, memory.write::<E::Wide>(*d_gain), *accumulate_parameters);
                if let Some(d_bias) = d_bias {
                    add_parts(context, parts, total, columns, memory.write::<E::Wide>(*d_bias), *accumulate_parameters);
                }
            }
            other => unreachable!("{other:?} is of another module"),
        }
    }
}

/// # Safety
/// As [`crate::execute`].
unsafe fn run_forward<E: Number>(norm: &Norm, y: Raw<E>, memory: &Memory, context: &Context<'_>) {
    // SAFETY: the caller's promise; parts write disjoint rows.
    let (x, statistics, gain, bias) = unsafe {
        let bias = norm.bias.map(|bias| memory.read::<E>(bias));
        (memory.read::<E>(norm.x), Raw::<E::Wide>::new(memory, norm.statistics), memory.read::<E>(norm.gain), bias)
    };
    let columns = norm.columns;
    assert!(x.len() == norm.rows * columns && y.len() == x.len() && gain.len() == columns, "rows x columns");
    context.split(norm.rows, grain(columns), |_, rows| {
        let range = rows.start * columns..rows.end * columns;
        // SAFETY: as above.
        let (statistics, y) =
            unsafe { (statistics.slice_mut(2 * rows.start..2 * rows.end), y.slice_mut(range.clone())) };
        match bias {
            Some(bias) => layer_norm::<E>(&x[range], gain, bias, statistics, y, norm.epsilon),
            None => rms_norm::<E>(&x[range], gain, statistics, y, norm.epsilon),
        }
    });
}

versions! {
    fn layer_norm<I, E: Number>(
        x: &[E], gain: &[E], bias: &[E], statistics: &mut [E::Wide], y: &mut [E], epsilon: f64,
    ) {
        let columns = gain.len();
        let share = E::Wide::ONE / E::Wide::from_f64(columns as f64);
        let epsilon = E::Wide::from_f64(epsilon);
        let rows = x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).zip(statistics.chunks_exact_mut(2));
        for ((x, y), statistics) in rows {
            let mean = lanes::sum(x, |sum: E::Wide, x| sum + x) * share;
            let variance = lanes::sum(x, |sum, x| I::fma(x - mean, x - mean, sum)) * share;
            let scale = E::Wide::ONE / (variance + epsilon).root();
            statistics[0] = mean;
            statistics[1] = scale;
            for ((y, x), (gain, bias)) in y.iter_mut().zip(x).zip(gain.iter().zip(bias)) {
                *y = E::store(I::fma((x.load() - mean) * scale, gain.load(), bias.load()));
            }
        }
    }
}

versions! {
    fn rms_norm<I, E: Number>(
        x: &[E], gain: &[E], statistics: &mut [E::Wide], y: &mut [E], epsilon: f64,
    ) {
        let columns = gain.len();
        let share = E::Wide::ONE / E::Wide::from_f64(columns as f64);
        let epsilon = E::Wide::from_f64(epsilon);
        let rows = x.chunks_exact(columns).zip(y.chunks_exact_mut(columns)).zip(statistics.chunks_exact_mut(2));
        for ((x, y), statistics) in rows {
            let square = lanes::sum(x, |sum, x| I::fma(x, x, sum)) * share;
            let scale = E::Wide::ONE / (square + epsilon).root();
            statistics[0] = E::Wide::ZERO;
            statistics[1] = scale;
            for ((y, x), gain) in y.iter_mut().zip(x).zip(gain) {
                *y = E::store(x.load() * scale * gain.load());
            }
        }
    }
}

/// Writes dx, leaves this part's sums for gain (and bias) in its area, and gives how many parts did.
///
/// # Safety
/// As [`crate::execute`].
unsafe fn run_backward<E: Number>(
    norm: &Norm,
    dy: Raw<E>,
    dx: Raw<E>,
    accumulate: bool,
    total: usize,
    memory: &Memory,
    context: &Context<'_>,
) -> usize {
    // SAFETY: the caller's promise.
    let (x, gain, statistics) =
        unsafe { (memory.read::<E>(norm.x), memory.read::<E>(norm.gain), memory.read::<E::Wide>(norm.statistics)) };
    let columns = norm.columns;
    assert!(x.len() == norm.rows * columns && dy.len() == x.len() && dx.len() == x.len(), "rows x columns");
    assert!(gain.len() == columns && statistics.len() == 2 * norm.rows, "a gain a column, two statistics a row");
    split_counted(context, norm.rows, grain(columns), |part, rows| {
        // SAFETY: the area is this part's.
        let sums = unsafe { context.area::<E::Wide>(part, total) };
        sums.fill(E::Wide::ZERO);
        let (d_gain, d_bias) = sums.split_at_mut(columns);
        let gradient = Gradient { x, gain, statistics, dy, dx, accumulate, centred: norm.bias.is_some() };
        backward_rows(&gradient, rows, d_gain, d_bias);
    })
}

struct Gradient<'a, E: Element> {
    x: &'a [E],
    gain: &'a [E],
    statistics: &'a [E::Wide],
    dy: Raw<E>,
    dx: Raw<E>,
    accumulate: bool,
    centred: bool,
}

versions! {
    fn backward_rows<I, E: Number>(
        all: &Gradient<'_, E>, rows: Range<usize>, d_gain: &mut [E::Wide], d_bias: &mut [E::Wide],
    ) {
        let columns = all.gain.len();
        for row in rows {
            let range = row * columns..(row + 1) * columns;
            let (mean, scale) = (all.statistics[2 * row], all.statistics[2 * row + 1]);
            let x = &all.x[range.clone()];
            // SAFETY: this part alone writes its rows, below, after this slice's last use.
            let dy = unsafe { all.dy.slice(range.clone()) };
            let sums = if d_bias.is_empty() {
                row_sums::<I, E, false>(x, dy, all.gain, [mean, scale], d_gain, &mut [])
            } else {
                row_sums::<I, E, true>(x, dy, all.gain, [mean, scale], d_gain, d_bias)
            };
            let share = scale / E::Wide::from_f64(columns as f64);
            let [along_one, along_x] = [if all.centred { sums[0] * share } else { E::Wide::ZERO }, sums[1] * share];
            row_gradient::<I, E>(all, range, [mean, scale], [along_one, along_x]);
        }
    }
}

/// `sum dy gain` and `sum dy gain x_hat` of a row; adds `dy x_hat` to d_gain and, with BIAS, dy to d_bias.
#[inline(always)]
fn row_sums<I: Isa, E: Number, const BIAS: bool>(
    x: &[E],
    dy: &[E],
    gain: &[E],
    [mean, scale]: [E::Wide; 2],
    d_gain: &mut [E::Wide],
    d_bias: &mut [E::Wide],
) -> [E::Wide; 2] {
    let columns = x.len();
    let (mut ones, mut alongs) = ([E::Wide::ZERO; LANES], [E::Wide::ZERO; LANES]);
    let mut at = 0;
    while at + LANES <= columns {
        let (x, dy, gain) = (&x[at..at + LANES], &dy[at..at + LANES], &gain[at..at + LANES]);
        let d_gain = &mut d_gain[at..at + LANES];
        for lane in 0..LANES {
            let (hat, dy) = ((x[lane].load() - mean) * scale, dy[lane].load());
            let weighted = dy * gain[lane].load();
            d_gain[lane] = I::fma(dy, hat, d_gain[lane]);
            ones[lane] += weighted;
            alongs[lane] = I::fma(weighted, hat, alongs[lane]);
        }
        if BIAS {
            for (d_bias, dy) in d_bias[at..at + LANES].iter_mut().zip(dy) {
                *d_bias += dy.load();
            }
        }
        at += LANES;
    }
    let (mut one, mut along) = (lanes::total(ones), lanes::total(alongs));
    for column in at..columns {
        let (hat, dy) = ((x[column].load() - mean) * scale, dy[column].load());
        let weighted = dy * gain[column].load();
        d_gain[column] = I::fma(dy, hat, d_gain[column]);
        one += weighted;
        along = I::fma(weighted, hat, along);
        if BIAS {
            d_bias[column] += dy;
        }
    }
    [one, along]
}

/// `dx = scale (dy gain) - along_one - x_hat along_x`, the two already multiplied by scale / columns.
#[inline(always)]
fn row_gradient<I: Isa, E: Number>(
    all: &Gradient<'_, E>,
    range: Range<usize>,
    [mean, scale]: [E::Wide; 2],
    [along_one, along_x]: [E::Wide; 2],
) {
    let first = range.start;
    let mut at = range.start;
    while at < range.end {
        let here = at..(at + BLOCK).min(range.end);
        let dy = all.dy.block::<BLOCK>(here.clone(), E::default());
        let mut dx = [E::default(); BLOCK];
        if all.accumulate {
            dx = all.dx.block::<BLOCK>(here.clone(), E::default());
        }
        let gain = &all.gain[here.start - first..here.end - first];
        for ((dx, dy), (x, gain)) in dx.iter_mut().zip(&dy).zip(all.x[here.clone()].iter().zip(gain)) {
            let hat = (x.load() - mean) * scale;
            let value = I::fma(dy.load() * gain.load(), scale, -I::fma(hat, along_x, along_one));
            *dx = E::store(dx.load() + value);
        }
        all.dx.put(here.clone(), &dx);
        at = here.end;
    }
}
