//! The ceiling of a machine from repeated probes of it: how fast it can be when nothing disturbs it.

use crate::quantile::sorted;
use crate::trials::Ratio;

/// The fewest probes that tell a ceiling: of fewer, one disturbed probe decides.
pub const FEWEST_PROBES: usize = 3;

/// The fastest probes count, a third of all and one more: the others may have had a neighbour.
const FASTEST_OF: usize = 3;

/// By how many of the distances between the fastest and the slowest of these the interval goes beyond the slowest: the fastest
/// are faster than an undisturbed probe usually is. Found by simulation (`tests/all/limits.rs` of `measure`).
const BEYOND: f64 = 3.0;

/// One of so many of them is not believed to be the fastest: a clock may be read wrongly.
const MISREAD_OF: usize = 6;

/// Time of the ceiling: the middle of the fastest probes, a third of all and one more, between ends somewhat beyond the fastest
/// and the slowest of them. None below [`FEWEST_PROBES`] and where a time is not positive.
///
/// Rejected: the median of all probes, which a busy neighbour moves by its factor; the fastest probe, which one wrong
/// reading of a clock decides.
pub fn ceiling(probes: &[f64]) -> Option<Ratio> {
    if probes.len() < FEWEST_PROBES || !probes.iter().all(|time| time.is_finite() && *time > 0.0) {
        return None;
    }
    let mut fastest = sorted(probes);
    fastest.truncate((probes.len().div_ceil(FASTEST_OF) + 1).max(FEWEST_PROBES));
    // Of an even number the lower middle: where few probes are undisturbed, it still is one of them.
    let mid = fastest[(fastest.len() - 1) / 2];
    let (low, high) = (fastest[0], fastest[fastest.len() - 1]);
    // A wrong reading near zero must not make an end that is none.
    let least = (low - (mid - low)).max(0.5 * low);
    let spread = high - fastest[fastest.len() / MISREAD_OF];
    Some(Ratio { mid, ends: Some([least, high + BEYOND * spread]) })
}

/// The share of a ceiling that a time reaches, with the interval that both give. The distances of both to the ends of their
/// intervals add in quadrature on logarithms (Zou and Donner, Statistics in Medicine 27, 2008).
pub fn share_of_ceiling(ceiling: Ratio, time: f64, ends: Option<[f64; 2]>) -> Option<Ratio> {
    let usable = ceiling.mid > 0.0 && time.is_finite() && time > 0.0;
    if !usable {
        return None;
    }
    let mid = ceiling.mid / time;
    let ends = ceiling.ends.zip(ends).filter(|([low, _], [fast, _])| *low > 0.0 && *fast > 0.0).map(
        |([low, high], [fast, slow])| {
            let below = (ceiling.mid / low).ln().hypot((slow / time).ln());
            let above = (high / ceiling.mid).ln().hypot((time / fast).ln());
            [mid * (-below).exp(), mid * above.exp()]
        },
    );
    Some(Ratio { mid, ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_neighbour_does_not_move_a_ceiling_nor_does_one_wrong_reading() {
        let quiet = [1.00, 1.01, 0.99, 1.02, 1.00, 1.01];
        for (at, time) in [(0, 200.0), (3, 5.0), (5, 0.5)] {
            let mut probes = quiet;
            probes[at] = time;
            let found = ceiling(&probes).unwrap();
            assert!((found.mid - 1.0).abs() < 0.02, "{probes:?}: {found:?}");
        }
        let busy = [1.01, 1.9, 1.00, 2.4, 1.7, 1.02];
        assert!((ceiling(&busy).unwrap().mid - 1.01).abs() < 0.011, "half of them disturbed");
    }

    #[test]
    fn two_probes_tell_no_ceiling() {
        assert_eq!(ceiling(&[1.0, 1.0]), None);
        assert_eq!(ceiling(&[1.0, 1.0, 0.0]), None);
        assert_eq!(ceiling(&[1.0, 1.0, f64::NAN]), None);
    }

    #[test]
    fn a_share_has_the_uncertainty_of_both() {
        let exact = Ratio { mid: 1.0, ends: Some([1.0, 1.0]) };
        let share = share_of_ceiling(exact, 2.0, Some([1.6, 2.5])).unwrap();
        let [low, high] = share.ends.unwrap();
        assert_eq!(share.mid, 0.5);
        assert!((low - 0.4).abs() < 1e-12 && (high - 0.625).abs() < 1e-12, "{share:?}");
        assert_eq!(share_of_ceiling(exact, 2.0, None).unwrap().ends, None);
        assert_eq!(share_of_ceiling(exact, 0.0, None), None);
    }
}
