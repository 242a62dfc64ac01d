//! Two groups among members of one kind: half of a fleet that is slower has no outliers, and would only widen the scatter.
//!
//! The sorted values are cut where the sum of squares within both parts is smallest (two means in one dimension, exact). The
//! statistic is the distance of the means over the standard deviation within the parts. Its critical values are those of
//! normal values without groups, by simulation: one sample in a thousand exceeds them.

/// A part has at least this share of the members: fewer are outliers.
const LEAST_SHARE: usize = 5;
/// A part has at least so many members.
const FEWEST: usize = 3;

/// Critical values by members (`calibrate` in the tests): larger fleets have smaller ones.
const CRITICAL: &[(usize, f64)] =
    &[(8, 9.3), (10, 7.9), (12, 6.6), (16, 5.8), (24, 4.8), (32, 4.4), (64, 3.8), (256, 3.1)];

/// Members in two groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// Whether each member is in the slower group.
    pub slower: Vec<bool>,
    /// The logarithm of the slower group's mean above that of the other.
    pub distance: f64,
}

/// Finds two groups that lie at least `least` apart; None where one group explains the values.
pub fn groups(values: &[f64], least: f64) -> Option<Groups> {
    let (cut, distance, statistic) = best_cut(values)?;
    let critical = CRITICAL.iter().rev().find(|(known, _)| *known <= values.len()).map(|(_, critical)| *critical)?;
    if distance < least || statistic <= critical {
        return None;
    }
    Some(Groups { slower: values.iter().map(|value| *value >= cut).collect(), distance })
}

/// The smallest value of the slower part, the distance of the means, and the statistic.
fn best_cut(values: &[f64]) -> Option<(f64, f64, f64)> {
    let members = values.len();
    let fewest = members.div_ceil(LEAST_SHARE).max(FEWEST);
    if members < 2 * fewest {
        return None;
    }
    let sorted = crate::quantile::sorted(values);
    // Around the middle value, sums of squares keep their digits.
    let middle = sorted[members / 2];
    let sum = |part: &[f64]| part.iter().map(|value| value - middle).sum::<f64>();
    let squares = |part: &[f64]| part.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
    let (all, all_squares) = (sum(&sorted), squares(&sorted));
    let (mut low, mut low_squares) = (sum(&sorted[..fewest - 1]), squares(&sorted[..fewest - 1]));
    let mut best: Option<(f64, f64, f64)> = None;
    let mut least_within = f64::INFINITY;
    for at in fewest..=members - fewest {
        let value = sorted[at - 1] - middle;
        (low, low_squares) = (low + value, low_squares + value.powi(2));
        let (below, above) = (at as f64, (members - at) as f64);
        let within = low_squares - low.powi(2) / below + (all_squares - low_squares) - (all - low).powi(2) / above;
        if within < least_within {
            least_within = within;
            let distance = (all - low) / above - low / below;
            let deviation = (within.max(0.0) / (members - 2) as f64).sqrt().max(crate::fleet::LEAST_SCATTER);
            best = Some((sorted[at], distance, distance / deviation));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::lognormal;

    fn draw(members: usize, seed: u64) -> Vec<f64> {
        lognormal(0.01, members, seed).iter().map(|sample| sample.ln()).collect()
    }

    #[test]
    fn critical_values_are_those_of_simulated_members() {
        let many = if crate::skip::heavy("critical values of two groups") { 20_000 } else { 4_000 };
        for (members, critical) in CRITICAL {
            let tries = many.min(400_000 / members);
            let beyond = (0..tries).filter(|seed| {
                best_cut(&draw(*members, 1 + *seed as u64)).is_some_and(|(_, _, statistic)| statistic > *critical)
            });
            // One in a thousand, and three standard errors.
            let expected = tries as f64 / 1000.0;
            let beyond = beyond.count() as f64;
            assert!(beyond <= expected + 3.0 * expected.sqrt().max(1.0), "{members}: {beyond} of {tries}");
        }
    }

    #[test]
    fn half_of_the_members_that_are_slower_are_a_group() {
        for (members, slower) in [(16, 8), (16, 6), (64, 20)] {
            let mut values = draw(members, 3);
            values.iter_mut().take(slower).for_each(|value| *value += 0.08);
            let found = groups(&values, 0.02).unwrap();
            assert_eq!(found.slower, (0..members).map(|at| at < slower).collect::<Vec<_>>());
            assert!((found.distance - 0.08).abs() < 0.01);
            assert_eq!(groups(&values, 0.2), None);
        }
        assert_eq!(groups(&draw(16, 3), 0.0), None);
        assert_eq!(groups(&draw(5, 3), 0.0), None);
    }
}
