//! Slow links in a tournament: pairs that are slower than both of their members explain.
//!
//! The logarithm of a pair's time is that of the fleet, plus what each of its two members adds, plus chance. What members add is
//! found by median polish (Tukey, Exploratory Data Analysis, 1977), so that single slow links do not move it. What is left over
//! tells the noise by its median absolute deviation, and a link is slow where its rest is beyond what the largest of so many
//! normal values is, and beyond the largest rest on the fast side. Members are then judged as a [`fleet`].

use crate::distribution::student_quantile;
use crate::fleet::{Fleet, LEAST_DEFICIT, Member, fleet};
use crate::quantile::median;

/// Fewer members have too few pairs to tell a link from its members.
pub const FEWEST_LINKED: usize = 6;

/// Steps of the polish. It converges in a few.
const STEPS: usize = 12;
/// The noise of a pair is taken to be at least this, on logarithms.
const LEAST_NOISE: f64 = 0.002;
/// The median absolute deviation of a normal distribution in standard deviations, inverse.
const MAD: f64 = 1.4826;

/// A tournament, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Members, by what each adds to the pairs that it is in. A pair has it once.
    pub members: Fleet,
    /// Slow links: the pair, and how many times as long it takes as its members explain, the slowest first.
    pub slow: Vec<([usize; 2], f64)>,
    /// The deviation of a link that is found in nine of ten tries.
    pub smallest: f64,
}

/// Judges the links of a square of times, of which only the part above the diagonal is read. `level`: the chance that any
/// healthy member or link is called slow, half for each. None below [`FEWEST_LINKED`], and if a pair has no positive time.
pub fn links(times: &[Vec<f64>], level: f64) -> Option<Links> {
    let members = times.len();
    if members < FEWEST_LINKED {
        return None;
    }
    let mut square = vec![vec![0.0; members]; members];
    for low in 0..members {
        for high in low + 1..members {
            let time = times[low].get(high).copied().filter(|time| time.is_finite() && *time > 0.0)?;
            (square[low][high], square[high][low]) = (time.ln(), time.ln());
        }
    }
    let (common, added) = polish(&square);
    let rest = |low: usize, high: usize| square[low][high] - common - added[low] - added[high];
    let rests: Vec<([usize; 2], f64)> = (0..members)
        .flat_map(|low| (low + 1..members).map(move |high| [low, high]))
        .map(|pair| (pair, rest(pair[0], pair[1])))
        .collect();
    let sizes: Vec<f64> = rests.iter().map(|(_, rest)| rest.abs()).collect();
    let free = (rests.len() - members) as f64;
    // What the members were fitted to takes freedom from the rests.
    let noise = (MAD * median(&sizes) * (rests.len() as f64 / free).sqrt()).max(LEAST_NOISE);
    let fastest = rests.iter().map(|(_, rest)| -rest).fold(0.0, f64::max);
    let quantile = student_quantile(1.0 - level / 2.0 / rests.len() as f64, free);
    let least = (quantile * noise).max(LEAST_DEFICIT.ln_1p());
    let mut slow: Vec<([usize; 2], f64)> =
        rests.iter().filter(|(_, rest)| *rest > least.max(fastest)).map(|(pair, rest)| (*pair, rest.exp())).collect();
    slow.sort_by(|a, b| b.1.total_cmp(&a.1));
    // The median of so many rests, as one of normal values.
    let variance = noise.powi(2) * std::f64::consts::FRAC_PI_2 / (members - 1) as f64;
    let of_members: Vec<Member> = added.iter().map(|value| Member { value: *value, variance }).collect();
    let judged = fleet(&of_members, level / 2.0)?;
    Some(Links { members: judged, slow, smallest: least + student_quantile(0.9, free) * noise })
}

/// The common part, and what each member adds.
fn polish(square: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let members = square.len();
    let all: Vec<f64> = (0..members).flat_map(|low| square[low][low + 1..].to_vec()).collect();
    let mut common = median(&all);
    let mut added = vec![0.0; members];
    for _ in 0..STEPS {
        // Half of each row's median, as both members of a pair move at once.
        let moved: Vec<f64> = (0..members)
            .map(|own| {
                let others = (0..members).filter(|other| *other != own);
                let rests: Vec<f64> =
                    others.map(|other| square[own][other] - common - added[own] - added[other]).collect();
                median(&rests)
            })
            .collect();
        added.iter_mut().zip(&moved).for_each(|(added, moved)| *added += moved / 2.0);
        let middle = median(&added);
        added.iter_mut().for_each(|added| *added -= middle);
        common += 2.0 * middle;
    }
    (common, added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Marginal, Series, Situation};

    /// Times of 1 us with this noise, and members that differ by 1%.
    fn square(members: usize, noise: f64, seed: u64) -> Vec<Vec<f64>> {
        let series = |noise: f64, count: usize, seed: u64| {
            let mut series = Series::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, seed);
            series.extend(count);
            series.samples
        };
        let own = series(0.01, members, seed + 77);
        let all = series(noise, members * members, seed);
        let of = |low: usize, high: usize| 1e-6 * all[low * members + high] * own[low] * own[high];
        (0..members).map(|low| (0..members).map(|high| of(low, high)).collect()).collect()
    }

    #[test]
    fn healthy_tournaments_raise_at_most_one_alarm_in_a_hundred() {
        for (members, tries) in [(6, 1500), (8, 1000), (32, 400), (128, 40)] {
            let alarms = (0..tries)
                .filter(|seed| {
                    let judged = links(&square(members, 0.03, *seed), 0.01).unwrap();
                    !judged.slow.is_empty() || judged.members.standings.iter().any(|standing| standing.slow)
                })
                .count();
            let expected = 0.01 * tries as f64;
            assert!(alarms as f64 <= expected + 3.0 * expected.sqrt(), "{members} members: {alarms} of {tries}");
        }
    }

    #[test]
    fn a_link_of_256_members_that_is_5_percent_slow_is_named_in_nine_of_ten() {
        let tries = 20;
        let found = (0..tries)
            .filter(|seed| {
                let mut times = square(256, 0.007, 500 + seed);
                times[17][203] *= 1.05;
                let judged = links(&times, 0.01).unwrap();
                judged.slow.iter().map(|(pair, _)| *pair).collect::<Vec<_>>() == [[17, 203]]
            })
            .count();
        assert!(found >= 18, "{found} of {tries}");
    }

    #[test]
    fn a_slow_member_is_not_called_slow_links() {
        let mut times = square(12, 0.005, 9);
        (0..12).for_each(|other| times[other.min(4)][other.max(4)] *= 1.2);
        let judged = links(&times, 0.01).unwrap();
        let slow: Vec<usize> = (0..12).filter(|at| judged.members.standings[*at].slow).collect();
        assert_eq!((slow, judged.slow), (vec![4], Vec::new()));
    }

    #[test]
    fn a_slow_link_makes_no_member_slow() {
        let mut times = square(8, 0.005, 2);
        times[1][6] *= 1.3;
        let judged = links(&times, 0.01).unwrap();
        assert!(judged.members.standings.iter().all(|standing| !standing.slow));
        assert_eq!(judged.slow[0].0, [1, 6]);
        assert!((judged.slow[0].1 / 1.3 - 1.0).abs() < 0.03, "{:?}", judged.slow);
    }

    #[test]
    fn few_members_and_missing_times_tell_nothing() {
        assert_eq!(links(&square(5, 0.01, 1), 0.01), None);
        let mut times = square(8, 0.01, 1);
        times[2][5] = 0.0;
        assert_eq!(links(&times, 0.01), None);
    }
}
