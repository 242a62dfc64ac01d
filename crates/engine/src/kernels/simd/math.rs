//! Functions of numbers inside vector loops: for f32 by polynomials without branches, for f64 the C library's, since
//! f64 is for proofs and not for speed.

use super::{Isa, Portable, versions};
use crate::element::Wide;

/// A number that kernels compute with. NaN stays NaN in every function.
pub(crate) trait Real: Wide {
    /// `self a + b`, rounded once; see [`Isa::fma`], which kernels use.
    fn mul_add(self, a: Self, b: Self) -> Self;

    /// e^self. f32: within 2 units in the last place from -87 on, within 2^-149 below; exactly zero from -104 down.
    fn exponential<I: Isa>(self) -> Self;

    /// The standard normal distribution up to self, and its density there: `(1 + erf(self / sqrt(2))) / 2` and
    /// `exp(-self^2 / 2) / sqrt(2 pi)`. f32: within 2^-22 absolutely; below zero, where the distribution vanishes, also
    /// within `(4 + self^2) 2^-23` relatively.
    fn normal<I: Isa>(self) -> (Self, Self);

    /// `1 / (1 + e^-self)`.
    #[inline(always)]
    fn sigmoid<I: Isa>(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exponential::<I>())
    }
}

const SQRT_2_PI: f64 = 2.506_628_274_631_000_7;

impl Real for f32 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }

    // e^x = 2^n e^r with |r| <= ln(2) / 2; the polynomial is that of Cephes' expf (S. Moshier, netlib.org/cephes).
    #[inline(always)]
    fn exponential<I: Isa>(self) -> f32 {
        /// ln(2) in two parts; the first has so few bits that its product with n is exact.
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
        /// Adding it rounds to an integer, which then stands in the low bits: 1.5 x 2^23.
        const ROUND: f32 = 12_582_912.0;
        const POLYNOMIAL: [f32; 5] = [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5];
        // Past these the result is infinite or zero. Comparisons as they stand let NaN through.
        let x = if self > 89.0 { 89.0 } else { self };
        let x = if x < -104.0 { -104.0 } else { x };
        let rounded = I::fma(x, std::f32::consts::LOG2_E, ROUND);
        let n = rounded - ROUND;
        let r = I::fma(-n, LN_2[0], x);
        let r = I::fma(-n, LN_2[1], r);
        let mut y = 1.987_569_1e-4;
        for coefficient in POLYNOMIAL {
            y = I::fma(y, r, coefficient);
        }
        let y = I::fma(y, r * r, r) + 1.0;
        // 2^n in two factors, so that the largest finite and the subnormal results come out.
        let n = rounded.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
        let half = n >> 1;
        let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23).cast_unsigned());
        y * power(half) * power(n.wrapping_sub(half))
    }

    // erfc(a) = e^(-a^2) t Q(t) with t = 1 / (1 + 0.4 a), the form of Abramowitz and Stegun 7.1.26. Q was fitted here
    // by Lawson's iteration to the relative error over 0 <= a <= 12, which stays below 7.7e-8; e^(-a^2) underflows
    // beyond.
    #[inline(always)]
    fn normal<I: Isa>(self) -> (f32, f32) {
        const Q: [f32; 9] = [
            0.044_154_257,
            -0.154_406_86,
            0.113_028_66,
            0.054_864_21,
            0.102_498_85,
            0.183_778_65,
            0.204_322_2,
            0.226_106_47,
            0.225_653_65,
        ];
        let size = self.abs();
        let bell = (self * self * -0.5).exponential::<I>();
        let t = 1.0 / I::fma(size, 0.4 * std::f32::consts::FRAC_1_SQRT_2, 1.0);
        let mut q = Q[0];
        for coefficient in &Q[1..] {
            q = I::fma(q, t, *coefficient);
        }
        let tail = 0.5 * bell * t * q;
        (if self < 0.0 { tail } else { 1.0 - tail }, bell * (1.0 / SQRT_2_PI) as f32)
    }
}

unsafe extern "C" {
    /// `1 - erf(x)`, of the C library's mathematics, which std links.
    safe fn erfc(x: f64) -> f64;
}

impl Real for f64 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f64::mul_add(self, a, b)
    }
    #[inline(always)]
    fn exponential<I: Isa>(self) -> f64 {
        f64::exp(self)
    }
    #[inline(always)]
    fn normal<I: Isa>(self) -> (f64, f64) {
        (0.5 * erfc(-self * std::f64::consts::FRAC_1_SQRT_2), f64::exp(-0.5 * self * self) / SQRT_2_PI)
    }
}

/// The standard normal distribution up to x, and its density there: what tests compare [`evaluate`] with.
pub fn normal(x: f64) -> (f64, f64) {
    x.normal::<Portable>()
}

versions! {
    /// For each x: e^x, and the standard normal distribution up to x and its density there.
    pub fn evaluate<I>(x: &[f32], exponential: &mut [f32], cumulative: &mut [f32], density: &mut [f32]) {
        for (at, x) in x.iter().enumerate() {
            exponential[at] = x.exponential::<I>();
            (cumulative[at], density[at]) = x.normal::<I>();
        }
    }
}
