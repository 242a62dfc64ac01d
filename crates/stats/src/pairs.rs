//! Slow ranks and slow pairs in a matrix of times between ranks.
//!
//! The null hypothesis: no rank is slow, so the logarithm of a pair's time does not depend on which ranks it has. A rank is
//! compared by the median of its pairs with the median of all pairs without it; a pair with the median of all others. The
//! difference is divided by the mean absolute deviation of all pairs from the median of their side. Scaling all times, or
//! all their logarithms, changes neither statistic, so critical values follow from normal noise of any size. They are
//! tabulated by the number of ranks, and a test simulates healthy matrices against them.

use crate::distribution::normal_quantile;
use crate::quantile::median;

/// Fewer ranks have too few pairs to tell a slow rank from noise: of three pairs two always share a rank.
pub const FEWEST_RANKS: usize = 4;

/// A smaller ratio is not named, however certain: healthy links differ by as much.
const LEAST_RATIO: f64 = 1.25;

/// The deviation, in logarithms, is taken to be at least this: no pair is known better.
const LEAST_DEVIATION: f64 = 0.02;

/// One healthy matrix in so many exceeds the critical value over ranks, and one that over pairs.
const HEALTHY: f64 = 300.0;

/// Critical values by ranks: of the largest statistic over ranks, and over pairs (`calibrate` in the tests, rounded up).
const CRITICAL: &[(usize, f64, f64)] =
    &[(4, 7.1, 10.8), (5, 3.9, 7.1), (6, 3.15, 6.1), (8, 2.45, 5.6), (12, 1.9, 5.3), (16, 1.6, 5.4), (32, 1.15, 5.5)];

/// What a matrix of times shows.
#[derive(Clone, Debug, PartialEq)]
pub enum PairVerdict {
    /// Too few ranks, or a pair without a positive time.
    CannotTell,
    /// No rank and no pair is slower than noise allows.
    Healthy {
        /// A rank would have been named if its pairs took about so many times as long as the others.
        least: f64,
    },
    /// These ranks and pairs are slow.
    Slow {
        /// Ranks, each with the median time of its pairs over that of all others, the slowest first.
        ranks: Vec<(usize, f64)>,
        /// Pairs of ranks that are not slow, each with its time over the median of all others, the slowest first.
        pairs: Vec<([usize; 2], f64)>,
    },
}

/// Names the slow ranks and pairs of a matrix of times. Only the part above the diagonal is read.
///
/// Slow ranks are found one after the other, each without the pairs of those before it: a slow rank makes the pairs of the
/// others slow, too. The search ends when fewer than [`FEWEST_RANKS`] are left.
pub fn slow_pairs(times: &[Vec<f64>]) -> PairVerdict {
    let mut left: Vec<usize> = (0..times.len()).collect();
    let positive = |pair: &[usize; 2]| time(times, *pair).is_some();
    if left.len() < FEWEST_RANKS || !pairs_of(&left).iter().all(positive) {
        return PairVerdict::CannotTell;
    }
    let (mut ranks, mut pairs) = (Vec::new(), Vec::new());
    while left.len() >= FEWEST_RANKS {
        let Some((place, found)) =
            largest(by_rank(times, &left)).filter(|(_, found)| found.exceeds(critical(left.len()).0))
        else {
            break;
        };
        ranks.push((left.remove(place), found.difference.exp()));
    }
    if left.len() >= FEWEST_RANKS {
        let all = pairs_of(&left);
        let slow =
            by_pair(times, &left).into_iter().zip(all).filter(|(found, _)| found.exceeds(critical(left.len()).1));
        pairs.extend(slow.map(|(found, pair)| (pair, found.difference.exp())));
    }
    ranks.sort_by(|a, b| b.1.total_cmp(&a.1));
    pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
    if ranks.is_empty() && pairs.is_empty() {
        PairVerdict::Healthy { least: least(times, &left) }
    } else {
        PairVerdict::Slow { ranks, pairs }
    }
}

/// How many times as long the pairs of a rank must take for it to be named, at the spread of these.
fn least(times: &[Vec<f64>], ranks: &[usize]) -> f64 {
    let deviations = by_rank(times, ranks).into_iter().map(|found| found.deviation);
    let deviation = deviations.fold(LEAST_DEVIATION, f64::max);
    (deviation * critical(ranks.len()).0).max(LEAST_RATIO.ln()).exp()
}

/// How far one side lies above the other, in logarithms, and how far pairs lie from the median of their side.
#[derive(Clone, Copy, Debug)]
struct Contrast {
    difference: f64,
    deviation: f64,
}

impl Contrast {
    fn statistic(self) -> f64 {
        self.difference / self.deviation
    }

    fn exceeds(self, critical: f64) -> bool {
        self.difference >= LEAST_RATIO.ln() && self.difference / self.deviation.max(LEAST_DEVIATION) > critical
    }
}

fn time(times: &[Vec<f64>], [low, high]: [usize; 2]) -> Option<f64> {
    times.get(low)?.get(high).copied().filter(|time| time.is_finite() && *time > 0.0)
}

fn pairs_of(ranks: &[usize]) -> Vec<[usize; 2]> {
    let with = |(place, low): (usize, &usize)| ranks[place + 1..].iter().map(|high| [*low, *high]).collect::<Vec<_>>();
    ranks.iter().enumerate().flat_map(with).collect()
}

fn largest(found: Vec<Contrast>) -> Option<(usize, Contrast)> {
    found.into_iter().enumerate().max_by(|a, b| a.1.statistic().total_cmp(&b.1.statistic()))
}

/// One side against the other.
fn compare(own: &[f64], others: &[f64]) -> Contrast {
    let (of_own, of_others) = (median(own), median(others));
    let apart = |values: &[f64], middle: f64| values.iter().map(|value| (value - middle).abs()).sum::<f64>();
    // Each side's own median takes one value's freedom.
    let free = (own.len() + others.len() - 2).max(1) as f64;
    let deviation = (apart(own, of_own) + apart(others, of_others)) / free;
    Contrast { difference: of_own - of_others, deviation }
}

fn logarithms(times: &[Vec<f64>], ranks: &[usize]) -> Vec<([usize; 2], f64)> {
    pairs_of(ranks).into_iter().filter_map(|pair| Some((pair, time(times, pair)?.ln()))).collect()
}

fn by_rank(times: &[Vec<f64>], ranks: &[usize]) -> Vec<Contrast> {
    let all = logarithms(times, ranks);
    let of = |rank: &usize| {
        let (own, others): (Vec<_>, Vec<_>) = all.iter().partition(|(pair, _)| pair.contains(rank));
        let values = |side: Vec<&([usize; 2], f64)>| side.into_iter().map(|(_, value)| *value).collect::<Vec<_>>();
        compare(&values(own), &values(others))
    };
    ranks.iter().map(of).collect()
}

fn by_pair(times: &[Vec<f64>], ranks: &[usize]) -> Vec<Contrast> {
    let all: Vec<f64> = logarithms(times, ranks).into_iter().map(|(_, value)| value).collect();
    let of = |place: usize| {
        let others: Vec<f64> = all[..place].iter().chain(&all[place + 1..]).copied().collect();
        compare(&all[place..=place], &others)
    };
    (0..all.len()).map(of).collect()
}

/// The critical values for so many ranks. That over ranks falls with their number, so the nearest smaller number of the table
/// is safe. That over pairs rises for many: as the largest of independent normal values, in mean absolute deviations.
fn critical(ranks: usize) -> (f64, f64) {
    let known = CRITICAL.iter().rev().find(|(known, ..)| *known <= ranks);
    let Some((_, by_rank, by_pair)) = known else { return (f64::INFINITY, f64::INFINITY) };
    let pairs = (ranks * (ranks - 1) / 2) as f64;
    let deviations = (std::f64::consts::PI / 2.0).sqrt();
    (*by_rank, by_pair.max(deviations * normal_quantile(1.0 - 1.0 / (HEALTHY * pairs))))
}

#[cfg(test)]
mod tests {
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// What is left out unless it is asked for.
    const NAME: &str = "alarms of healthy pairs at every number of ranks";

    struct Draw(Xoshiro256PlusPlus);

    impl Draw {
        fn new(seed: u64) -> Self {
            Self(Xoshiro256PlusPlus::seed_from_u64(seed))
        }

        fn uniform(&mut self) -> f64 {
            self.0.random::<f64>()
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }

        /// Times of 1 us with normal noise of their logarithms.
        fn matrix(&mut self, ranks: usize, noise: f64) -> Vec<Vec<f64>> {
            let mut row = || (0..ranks).map(|_| 1e-6 * (noise * self.normal()).exp()).collect();
            (0..ranks).map(|_| row()).collect()
        }
    }

    /// The value that this share of the draws exceeds.
    fn exceeded(mut draws: Vec<f64>, share: f64) -> f64 {
        draws.sort_by(f64::total_cmp);
        draws[((1.0 - share) * draws.len() as f64) as usize]
    }

    /// Critical values for so many ranks, by simulation.
    fn calibrate(ranks: usize, matrices: usize) -> (f64, f64) {
        let mut draw = Draw::new(7);
        let all: Vec<usize> = (0..ranks).collect();
        let of = |found: Vec<Contrast>| largest(found).map_or(0.0, |(_, found)| found.statistic());
        let drawn: Vec<(f64, f64)> = (0..matrices)
            .map(|_| {
                let times = draw.matrix(ranks, 0.1);
                (of(by_rank(&times, &all)), of(by_pair(&times, &all)))
            })
            .collect();
        let (by_rank, by_pair) = drawn.into_iter().unzip();
        (exceeded(by_rank, 1.0 / HEALTHY), exceeded(by_pair, 1.0 / HEALTHY))
    }

    #[test]
    fn critical_values_are_those_of_simulated_matrices() {
        let sizes = [(4, 40_000), (5, 40_000), (6, 30_000), (8, 20_000), (12, 8_000)];
        let few = if crate::skip::heavy(NAME) { 5 } else { 2 };
        for (ranks, matrices) in sizes.into_iter().take(few) {
            let ((by_rank, by_pair), (rank, pair)) = (critical(ranks), calibrate(ranks, matrices));
            for (known, simulated) in [(by_rank, rank), (by_pair, pair)] {
                assert!((0.97..1.15).contains(&(known / simulated)), "{ranks} ranks: {known}, simulated {simulated}");
            }
        }
    }

    /// Alarms among 1,000 healthy matrices.
    fn alarms(mut healthy: impl FnMut(&mut Draw) -> Vec<Vec<f64>>) -> usize {
        let mut draw = Draw::new(22);
        (0..1000).filter(|_| !is_healthy(&slow_pairs(&healthy(&mut draw)))).count()
    }

    #[test]
    fn healthy_matrices_raise_an_alarm_in_at_most_one_of_a_hundred() {
        let sizes = if crate::skip::heavy(NAME) { &[4, 5, 6, 7, 8, 12, 16][..] } else { &[4, 7] };
        for &ranks in sizes {
            for noise in [0.02, 0.1, 0.5] {
                let alarms = alarms(|draw| draw.matrix(ranks, noise));
                assert!(alarms <= 10, "{alarms} of 1000: {ranks} ranks, noise {noise}");
            }
        }
        // Two sockets: half of the ranks on each, and pairs across take 1.6 times as long.
        for ranks in [4, 8, 16] {
            let far = |low: usize, high: usize| if (low < ranks / 2) == (high < ranks / 2) { 1.0 } else { 1.6 };
            let alarms = alarms(|draw| {
                let mut times = draw.matrix(ranks, 0.1);
                let cells = times
                    .iter_mut()
                    .enumerate()
                    .flat_map(|(low, row)| row.iter_mut().enumerate().map(move |c| (low, c)));
                cells.for_each(|(low, (high, time))| *time *= far(low, high));
                times
            });
            assert!(alarms <= 10, "{alarms} of 1000: {ranks} ranks on two sockets");
        }
    }

    /// The pairs of these ranks take so many times as long.
    fn slowed(mut times: Vec<Vec<f64>>, ranks: &[usize], factor: f64) -> Vec<Vec<f64>> {
        for (low, row) in times.iter_mut().enumerate() {
            for (high, time) in row.iter_mut().enumerate() {
                *time *= if ranks.contains(&low) || ranks.contains(&high) { factor } else { 1.0 };
            }
        }
        times
    }

    fn is_healthy(verdict: &PairVerdict) -> bool {
        matches!(verdict, PairVerdict::Healthy { .. })
    }

    /// A rank slowed by what was said to be the least is named, in noise of any size; one slowed by a third of it is not.
    #[test]
    fn what_would_have_been_named_is() {
        for noise in [0.0, 0.05, 0.3] {
            let mut times = vec![vec![1.0; 8]; 8];
            for (low, row) in times.iter_mut().enumerate() {
                for (high, time) in row.iter_mut().enumerate() {
                    *time = f64::exp(if (low + high) % 2 == 0 { noise } else { -noise });
                }
            }
            let PairVerdict::Healthy { least } = slow_pairs(&times) else { panic!("{noise}: a slow rank") };
            let slowed = |factor: f64| {
                let mut times = times.clone();
                let of = |low: usize, high: usize| if low == 3 || high == 3 { factor } else { 1.0 };
                for (low, row) in times.iter_mut().enumerate() {
                    row.iter_mut().enumerate().for_each(|(high, time)| *time *= of(low, high));
                }
                slow_pairs(&times)
            };
            let PairVerdict::Slow { ranks, .. } = slowed(least * 1.1) else { panic!("{noise}: {least} is not named") };
            assert_eq!(ranks[0].0, 3, "{noise}");
            assert!(is_healthy(&slowed(1.0 + (least - 1.0) / 3.0)), "{noise}: {least}");
        }
    }

    #[test]
    fn a_slow_rank_is_named_and_no_other() {
        for (count, slow, factor) in
            [(4, vec![1], 5.0), (5, vec![0], 3.0), (8, vec![7], 2.0), (8, vec![2, 5], 3.0), (16, vec![3], 1.5)]
        {
            let mut draw = Draw::new(5);
            let named = (0..200).filter(|_| {
                let PairVerdict::Slow { ranks, pairs } = slow_pairs(&slowed(draw.matrix(count, 0.05), &slow, factor))
                else {
                    return false;
                };
                let mut found: Vec<usize> = ranks.iter().map(|(rank, _)| *rank).collect();
                found.sort_unstable();
                let near = ranks.iter().all(|(_, ratio)| (0.7..1.4).contains(&(ratio / factor)));
                found == slow && pairs.is_empty() && near
            });
            let named = named.count();
            assert!(named >= 196, "{named} of 200: {slow:?} of {count} ranks, {factor} times as slow");
        }
    }

    #[test]
    fn a_slow_pair_is_named_and_no_rank() {
        let mut draw = Draw::new(6);
        let mut times = draw.matrix(8, 0.05);
        times[2][6] *= 3.0;
        let PairVerdict::Slow { ranks, pairs } = slow_pairs(&times) else { panic!("nothing is named") };
        assert_eq!((ranks.len(), pairs.len(), pairs[0].0), (0, 1, [2, 6]));
    }

    #[test]
    fn too_few_ranks_and_missing_times_cannot_tell() {
        let mut draw = Draw::new(1);
        for ranks in 0..FEWEST_RANKS {
            assert_eq!(slow_pairs(&slowed(draw.matrix(ranks, 0.05), &[1], 50.0)), PairVerdict::CannotTell, "{ranks}");
        }
        for gone in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            let mut times = draw.matrix(6, 0.05);
            times[1][4] = gone;
            assert_eq!(slow_pairs(&times), PairVerdict::CannotTell, "{gone}");
        }
    }

    #[test]
    fn equal_times_are_healthy() {
        assert_eq!(slow_pairs(&vec![vec![1e-6; 6]; 6]), PairVerdict::Healthy { least: LEAST_RATIO });
    }
}
