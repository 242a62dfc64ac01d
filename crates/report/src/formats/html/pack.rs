//! Times relative to a median, as two letters each: trials and quantiles of many cases in few bytes.
//!
//! A code of 12 bits stands for `asinh(STEEP ln(time / median))`, so times near the median keep four digits, and those up
//! to a thousand times it still two: what a strip of dots can show. Exact values are in the record.

use crate::policy::ALPHABET;

/// How much finer the scale is near the median than far away.
const STEEP: f64 = 200.0;
/// The logarithm of the largest factor that has a code.
const REACH: f64 = 7.0;
/// The code of the median itself.
const MIDDLE: f64 = 2048.0;

/// Two letters for each time. What is not a positive number is as small as can be.
pub(super) fn pack(times: &[f64], median: f64) -> String {
    let scale = (MIDDLE - 1.0) / (STEEP * REACH).asinh();
    let letters = |time: &f64| {
        let distance = (STEEP * (time / median).ln()).asinh() * scale;
        let code = if distance.is_nan() { 0.0 } else { (MIDDLE + distance).round().clamp(0.0, 4095.0) };
        let code = code as usize;
        [char::from(ALPHABET[code >> 6]), char::from(ALPHABET[code & 63])]
    };
    times.iter().flat_map(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(text: &str, median: f64) -> Vec<f64> {
        let value = |letter: u8| ALPHABET.iter().position(|other| *other == letter).unwrap() as f64;
        let scale = (MIDDLE - 1.0) / (STEEP * REACH).asinh();
        let time = |pair: &[u8]| {
            let code = value(pair[0]) * 64.0 + value(pair[1]);
            ((code - MIDDLE) / scale).sinh() / STEEP
        };
        text.as_bytes().chunks(2).map(|pair| median * time(pair).exp()).collect()
    }

    #[test]
    fn times_near_the_median_keep_four_digits() {
        let times = [1.0e-5, 1.001e-5, 0.98e-5, 1.2e-5, 5e-5, 9e-3, 1e-8];
        let packed = pack(&times, 1e-5);
        assert_eq!(packed.len(), 2 * times.len());
        for (time, again) in times.iter().zip(unpacked(&packed, 1e-5)) {
            let (off, near) = ((again / time - 1.0).abs(), (time / 1e-5_f64).ln().abs());
            assert!(off < if near < 0.03 { 2e-4 } else { 0.02 }, "{time} {again}");
        }
        assert_eq!(pack(&[f64::NAN, 0.0], 1.0), "AAAA");
    }
}
