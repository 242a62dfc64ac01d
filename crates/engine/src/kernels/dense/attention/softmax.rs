//! What happens to a tile of scores, row by row, with an exponential that compiles to vector code.
//!
//! Each body is compiled for AVX-512, for AVX2 and for any CPU; which one runs is decided at run time.

use crate::element::{Element, Wide};

/// Sums and maxima run in this many lanes, always: the order of additions does not depend on the CPU.
const LANES: usize = 16;

/// A score that is not seen: its exponential is zero.
const HIDDEN: f64 = -1e30;

/// A type with an exponential.
pub(in super::super) trait Exponential: Wide {
    /// `exp(self)` for `self <= 0`, to about one unit in the last place; zero where the result would not be normal.
    /// `FMA` says whether the CPU fuses: without, asking for it calls a function.
    fn exponential<const FMA: bool>(self) -> Self;

    /// Natural logarithm.
    fn logarithm(self) -> Self;
}

macro_rules! exponential {
    ($type:ty, $lowest:expr, $magic:expr, $mantissa:expr, $high:expr, $low:expr, $coefficients:expr) => {
        impl Exponential for $type {
            #[inline(always)]
            fn exponential<const FMA: bool>(self) -> Self {
                let add = |a: Self, b: Self, c: Self| if FMA { a.mul_add(b, c) } else { a * b + c };
                let x = if self < $lowest { $lowest } else { self };
                // Adding 1.5 x 2^mantissa leaves the nearest integer in the lowest bits.
                let shifted = add(x, std::f64::consts::LOG2_E as Self, $magic);
                let n = shifted - $magic;
                let r = add(n, -$low, add(n, -$high, x));
                let mut p: Self = 0.0;
                for c in $coefficients {
                    p = add(p, r, c);
                }
                let p = add(p * r, r, r) + 1.0;
                let result = Self::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << $mantissa));
                if self < $lowest { 0.0 } else { result }
            }

            fn logarithm(self) -> Self {
                self.ln()
            }
        }
    };
}

// exp(r) = 1 + r + r^2 p(r) for |r| <= ln 2 / 2. f32: p and the two parts of ln 2 are Cephes' (Moshier, expf.c; 0.5 for its
// 0.50000001201, which is 0.5 in f32). f64: p is
// the Taylor series to r^13 / 13!; the next term is below 5e-18.
exponential!(
    f32,
    -87.0,
    12_582_912.0,
    23,
    0.693_359_4,
    -2.121_944_4e-4,
    [1.987_569_2e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]
);
exponential!(
    f64,
    -708.0,
    6_755_399_441_055_744.0,
    52,
    6.931_471_803_691_238e-1,
    1.908_214_929_270_587_7e-10,
    [
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5
    ]
);

/// What of a tile there is.
#[derive(Clone, Copy)]
pub(super) struct Window {
    /// From row to row.
    pub(super) stride: usize,
    /// Columns.
    pub(super) columns: usize,
    /// Columns that are written: those past `columns`, and what a row does not see, become zero.
    pub(super) padded: usize,
    /// Columns that row 0 sees; each further row sees one more. None: all.
    pub(super) visible: Option<usize>,
}

impl Window {
    /// What row `i` sees, in whole lanes if there is room for them: what it does not see becomes `value` there, and zero
    /// after.
    #[inline(always)]
    fn hide<'a, W: Wide>(&self, row: &'a mut [W], i: usize, value: W) -> &'a mut [W] {
        let seen = self.visible.map_or(self.columns, |visible| (visible + i).min(self.columns));
        let (row, hidden) = row[..self.padded].split_at_mut(seen.next_multiple_of(LANES).min(self.padded));
        hidden.fill(W::ZERO);
        row[seen..].fill(value);
        row
    }
}

/// Running maximum, sum and unnormalised output of the rows of a tile.
pub(super) struct RunningSoftmax<'a, W> {
    /// Largest score so far.
    pub(super) largest: &'a mut [W],
    /// Sum of exponentials so far.
    pub(super) sum: &'a mut [W],
    /// `[rows, width]`: what the sum belongs to.
    pub(super) output: &'a mut [W],
    /// Columns of `output`.
    pub(super) width: usize,
    /// Whether this is the first tile of these rows.
    pub(super) first: bool,
}

macro_rules! by_cpu {
    ($(#[$doc:meta])* $name:ident, $body:ident, ($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(super) fn $name<W: Exponential>($($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
                fn avx512<W: Exponential>($($argument: $type),*) {
                    $body::<W, true>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2<W: Exponential>($($argument: $type),*) {
                    $body::<W, true>($($argument),*)
                }
                let fma = is_x86_feature_detected!("fma");
                let wide = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl");
                if fma && wide {
                    // SAFETY: the CPU has it.
                    return unsafe { avx512::<W>($($argument),*) };
                }
                if fma && is_x86_feature_detected!("avx2") {
                    // SAFETY: the CPU has it.
                    return unsafe { avx2::<W>($($argument),*) };
                }
            }
            $body::<W, false>($($argument),*)
        }
    };
}

by_cpu!(
    /// Scores become exponentials of `scale score` less the running maximum; maximum and sum go on, and the output so far is
    /// scaled to the new maximum.
    accumulate, accumulate_body, (scores: &mut [W], window: Window, scale: W, running: &mut RunningSoftmax<'_, W>)
);

by_cpu!(
    /// Scores become probabilities `p = exp(scale score - log_sum)`, and `d` (gradients of p) become gradients of scores,
    /// `p (d - delta) scale`.
    differentiate, differentiate_body,
    (scores: &mut [W], d: &mut [W], window: Window, scale: W, log_sum: &[W], delta: &[W])
);

#[inline(always)]
fn accumulate_body<W: Exponential, const FMA: bool>(
    scores: &mut [W],
    window: Window,
    scale: W,
    running: &mut RunningSoftmax<'_, W>,
) {
    let width = running.width;
    for (i, row) in scores.chunks_mut(window.stride).enumerate() {
        let row = window.hide(row, i, W::from_f64(HIDDEN));
        let mut largest = largest(row) * scale;
        if running.first {
            running.sum[i] = W::ZERO;
        } else {
            largest = largest.larger(running.largest[i]);
            let factor = (running.largest[i] - largest).exponential::<FMA>();
            running.sum[i] *= factor;
            running.output[i * width..(i + 1) * width].iter_mut().for_each(|value| *value *= factor);
        }
        running.largest[i] = largest;
        running.sum[i] += exponentials::<W, FMA>(row, scale, largest);
    }
}

/// Halves with halves.
#[inline(always)]
fn fold<W: Wide>(lanes: [W; LANES], with: impl Fn(W, W) -> W) -> W {
    let lanes: [W; 8] = std::array::from_fn(|i| with(lanes[i], lanes[i + 8]));
    let lanes: [W; 4] = std::array::from_fn(|i| with(lanes[i], lanes[i + 4]));
    with(with(lanes[0], lanes[2]), with(lanes[1], lanes[3]))
}

#[inline(always)]
fn largest<W: Wide>(row: &[W]) -> W {
    let mut lanes = [row[0]; LANES];
    let (whole, rest) = row.as_chunks::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.larger(*value);
        }
    }
    rest.iter().fold(fold(lanes, W::larger), |largest, value| largest.larger(*value))
}

/// `exp(x)` of what is zero or, by rounding, little above.
#[inline(always)]
fn below_zero<W: Exponential, const FMA: bool>(x: W) -> W {
    (if x > W::ZERO { W::ZERO } else { x }).exponential::<FMA>()
}

/// `x = exp(scale x - largest)`; gives the sum.
#[inline(always)]
fn exponentials<W: Exponential, const FMA: bool>(row: &mut [W], scale: W, largest: W) -> W {
    let mut lanes = [W::ZERO; LANES];
    let (whole, rest) = row.as_chunks_mut::<LANES>();
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *value = below_zero::<W, FMA>(scale * *value - largest);
            *lane += *value;
        }
    }
    // Lanes stay vectors only where all of them are used alike.
    let mut sum = fold(lanes, |a, b| a + b);
    for value in rest {
        *value = below_zero::<W, FMA>(scale * *value - largest);
        sum += *value;
    }
    sum
}

#[inline(always)]
fn differentiate_body<W: Exponential, const FMA: bool>(
    scores: &mut [W],
    d: &mut [W],
    window: Window,
    scale: W,
    log_sum: &[W],
    delta: &[W],
) {
    let rows = scores.chunks_mut(window.stride).zip(d.chunks_mut(window.stride));
    for (i, (scores, d)) in rows.enumerate() {
        let scores = window.hide(scores, i, W::from_f64(HIDDEN));
        let d = window.hide(d, i, W::ZERO);
        let (log_sum, delta) = (log_sum[i], delta[i]);
        for (score, d) in scores.iter_mut().zip(d) {
            let p = below_zero::<W, FMA>(scale * *score - log_sum);
            *score = p;
            *d = p * (*d - delta) * scale;
        }
    }
}

/// Sum of products.
#[inline(always)]
pub(super) fn dot<E: Element>(a: &[E], b: &[E]) -> E::Wide {
    let mut lanes = [E::Wide::ZERO; LANES];
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in whole_a.iter().zip(whole_b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a.widen() * b.widen();
        }
    }
    let rest: E::Wide = rest_a.iter().zip(rest_b).map(|(a, b)| a.widen() * b.widen()).sum();
    fold(lanes, |a, b| a + b) + rest
}
