//! Initial values of parameters: a pure function of seed, parameter name and index, so that every way of cutting a model
//! over ranks begins with the same numbers, bit for bit, on every machine.
//!
//! Number `i` of a normal parameter, `i` counting in the whole parameter:
//!
//! 1. `key = mix(fnv1a(name) ^ mix(seed + G))`, with 64-bit FNV-1a of the name's bytes, SplitMix64's finaliser [`terms::mix`] and
//!    its increment `G` (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014); all sums
//!    wrap.
//! 2. `word = mix(key + (i + 1) G)`: SplitMix64's own stream from the state `key`, reached without the numbers before.
//! 3. `q = (2 m + 1) / 2^53 - 1/2` for the upper 52 bits `m` of the word: exact in f64, symmetric, never 0 or +-1/2.
//! 4. The inverse of the normal distribution at 1/2 + q by Wichura's PPND7 (algorithm AS 241, Applied Statistics 37,
//!    1988; relative error about 1e-7), times the standard deviation.
//!
//! Only additions, products, quotients and a square root are used, which IEEE 754 rounds in one way; the logarithm of the
//! tails is our own, because those of mathematics libraries differ in their last bit. Box-Muller was left out for the
//! same reason. `python/rankmark_worker/initial.py` is the same formula.

use crate::parameter::{Init, Parameter};

/// 2^64 over the golden ratio, odd.
const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

/// Numbers that are made at once: the first pass over them is branchless and becomes vector code.
const BATCH: usize = 128;

/// 64-bit FNV-1a.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

/// Natural logarithm of a number in (0, 1/2], to about 1e-15: `m 2^e` with m in [sqrt(1/2), sqrt(2)), and
/// `ln m = 2 atanh((m - 1) / (m + 1))` by its series. The argument is at most 0.172.
fn ln(x: f64) -> f64 {
    const TERMS: i32 = 10;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = f64::from_bits((bits & 0x000F_FFFF_FFFF_FFFF) | 0x3FF0_0000_0000_0000);
    if m >= std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let z = (m - 1.0) / (m + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for term in (0..TERMS).rev() {
        sum = sum * square + 1.0 / f64::from(2 * term + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * sum
}

/// PPND7 for |q| <= 0.425.
#[inline(always)]
fn central(q: f64) -> f64 {
    let r = 0.180625 - q * q;
    let above = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
    let below = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0;
    q * above / below
}

/// PPND7 for the rest of (-1/2, 1/2).
fn tail(q: f64) -> f64 {
    let r = (-ln(0.5 - q.abs())).sqrt();
    let value = if r <= 5.0 {
        let r = r - 1.6;
        let above = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777;
        above / ((0.12021132975 * r + 0.73700164250) * r + 1.0)
    } else {
        let r = r - 5.0;
        let above = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150;
        above / ((0.012258202635 * r + 0.24197894225) * r + 1.0)
    };
    if q < 0.0 { -value } else { value }
}

/// Calls `put(place, value)` for `len` standard normal numbers from `first` on.
fn normals(key: u64, first: usize, len: usize, mut put: impl FnMut(usize, f64)) {
    let mut state = key.wrapping_add(INCREMENT.wrapping_mul(first as u64));
    let mut places = 0..len;
    while !places.is_empty() {
        let batch = places.len().min(BATCH);
        let mut words = [0u64; BATCH];
        for word in &mut words {
            state = state.wrapping_add(INCREMENT);
            *word = terms::mix(state);
        }
        // The upper 52 bits as the fraction of a number in [1, 2): no conversion from integers, all steps exact.
        let q = words.map(|word| (f64::from_bits((word >> 12) | 0x3FF0_0000_0000_0000) - 1.5) + f64::EPSILON / 2.0);
        let mut values = q.map(central);
        for (value, q) in values.iter_mut().zip(q).take(batch) {
            if q.abs() > 0.425 {
                *value = tail(q);
            }
        }
        for value in &values[..batch] {
            put(places.start, *value);
            places.start += 1;
        }
    }
}

/// The initial values of a parameter from index `first` on.
pub fn initial_f64(parameter: &Parameter, seed: u64, first: usize, out: &mut [f64]) {
    match parameter.init {
        Init::Constant(value) => out.fill(value),
        Init::Normal(deviation) => {
            let key = terms::mix(fnv1a(parameter.name.as_bytes()) ^ terms::mix(seed.wrapping_add(INCREMENT)));
            normals(key, first, out.len(), |place, value| out[place] = deviation * value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_is_right_in_all_three_pieces() {
        // Quantiles of the normal distribution: NIST/SEMATECH tables, and 2^-53 by its asymptotic series.
        let known = [
            (0.0, 0.0),
            (0.25, 0.674_489_750),
            (0.425, 1.439_531_471),
            (0.475, 1.959_963_985),
            (-0.499, -3.090_232_306),
            (0.5 - 1e-9, 5.997_807_015),
            (f64::EPSILON / 2.0 - 0.5, -8.209_536_152),
        ];
        for (q, expected) in known {
            let value: f64 = if q.abs() <= 0.425 { central(q) } else { tail(q) };
            assert!((value - expected).abs() <= 2e-7 * expected.abs().max(1.0), "{q}: {value}, not {expected}");
        }
        let gap = tail(0.425 + 1e-12) - central(0.425);
        assert!(gap.abs() < 1e-6, "the pieces meet: {gap}");
    }

    #[test]
    fn the_logarithm_is_right_to_its_last_bits() {
        for step in 1..=2000 {
            for x in [f64::from(step) / 4000.0, f64::EPSILON / 2.0 * f64::from(step)] {
                let error = (ln(x) / x.ln() - 1.0).abs();
                assert!(error < 1e-15, "{x}: {error:e}");
            }
        }
    }
}
