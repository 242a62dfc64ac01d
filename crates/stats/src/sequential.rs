//! Repeated looks at the ratio of two sides that are measured interleaved, pair by pair, until it is decided.
//!
//! The unit is the pair of worlds: one log ratio, independent of those of other pairs but for the moods of the machine, which
//! A B B A slices inside a pair mostly cancel. After some numbers of pairs one looks whether the interval decides, and stops
//! there. Plain 95% intervals would raise false alarms then: each look, and each case, is one more chance for an accident.
//!
//! **Correction.** The error of 5% is divided over cases in equal parts (Bonferroni), and the part of a case over its looks in
//! proportion to their pairs: alpha spending (Lan and DeMets, Biometrika 70, 1983) with a linear function, by the union bound
//! instead of their joint distribution. The bound holds under any dependence between looks and between cases. So all
//! intervals of all cases at all looks hold at once with 95%, whatever rule stops. Early looks get little, because their task
//! is to find large changes. Rejected: Holm's step-down, which decides more but has no intervals, and `same` needs one.
//! Rejected: confidence sequences (Howard et al., Annals of Statistics 49, 2021), which are wider at the few looks made here.
//! Where time ends the measurement between two looks, the share of the next look counts. Time does not know the ratio, so
//! that look is only an earlier one.
//!
//! **Interval.** With enough pairs the interval of Wilcoxon's signed ranks (Hollander, Wolfe and Chicken, Nonparametric
//! Statistical Methods, section 3.3), with the exact distribution. It assumes symmetry alone. Two equal sides have it by
//! design: which side comes first is drawn at random, so a log ratio and its negative are equally likely, whatever the machine
//! does. Few pairs have no such interval at a small error. There it is Student's t, which is conservative for heavy tails
//! (Efron, Journal of the American Statistical Association 64, 1969). Which of the two depends on the number of pairs only.

use crate::distribution::{normal_quantile, student_quantile};
use crate::quantile::{median, sorted};

/// The fewest pairs that decide anything.
pub const FEWEST_PAIRS: usize = 6;

/// The most pairs of a case.
pub const MOST_PAIRS: usize = 141;

/// Pairs at which one looks, each about half as many again as the one before.
const LADDER: [usize; 9] = [6, 9, 13, 19, 28, 42, 63, 94, MOST_PAIRS];

/// Chance that any interval of any case at any look does not hold.
const ERROR: f64 = 0.05;

/// Signed ranks are used where the smallest error that they reach is this part of the wanted one, or less.
const REACH: f64 = 0.25;

/// Power at which [`PairedRatio::smallest`] is found.
const POWER: f64 = 0.8;

/// When one looks at the ratio of a case, and what each look may spend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks {
    at: Vec<usize>,
    family: usize,
}

/// The ratio of two sides over pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// The middle of the log ratios, as a ratio.
    pub mid: f64,
    /// The interval at this look: all of them hold at once with 95%.
    pub ends: [f64; 2],
    /// The smallest relative change that as many pairs as noisy as these show in 80% of comparisons.
    pub smallest: f64,
}

impl Looks {
    /// The looks at a case that may take so many pairs, one of `family` cases that are judged together. Must be made before
    /// any ratio is looked at.
    pub fn new(most: usize, family: usize) -> Self {
        let most = most.clamp(FEWEST_PAIRS, MOST_PAIRS);
        // A look just before the last one spends and tells nothing new.
        let mut at: Vec<usize> = LADDER.into_iter().filter(|pairs| 6 * pairs <= 5 * most).collect();
        at.push(most);
        Self { at, family: family.max(1) }
    }

    /// Numbers of pairs at which one looks.
    pub fn at(&self) -> &[usize] {
        &self.at
    }

    /// Whether one looks after so many pairs.
    pub fn is_due(&self, pairs: usize) -> bool {
        self.at.contains(&pairs)
    }

    /// The most pairs.
    pub fn most(&self) -> usize {
        self.at.last().copied().unwrap_or(FEWEST_PAIRS)
    }

    /// The error that the look after so many pairs may make; between looks, and beyond the last, that of the next or last one.
    fn error(&self, pairs: usize) -> f64 {
        let all: usize = self.at.iter().sum();
        let look = self.at.iter().find(|look| **look >= pairs).or(self.at.last()).copied().unwrap_or(FEWEST_PAIRS);
        ERROR / self.family as f64 * look as f64 / all as f64
    }

    /// The ratio by these log ratios, one a pair. None below [`FEWEST_PAIRS`].
    pub fn ratio(&self, logs: &[f64]) -> Option<PairedRatio> {
        debug_assert!(logs.iter().all(|log| log.is_finite()), "log ratios are finite");
        if logs.len() < FEWEST_PAIRS {
            return None;
        }
        let (error, degrees) = (self.error(logs.len()), logs.len() as f64 - 1.0);
        let (mid, [low, high], critical) = match signed_ranks(logs, error) {
            Some((mid, ends)) => (mid, ends, -normal_quantile(error / 2.0)),
            None => {
                let mean = logs.iter().sum::<f64>() / logs.len() as f64;
                let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
                let critical = student_quantile(1.0 - error / 2.0, degrees);
                let half = critical * (squares / degrees / logs.len() as f64).sqrt();
                (mean, [mean - half, mean + half], critical)
            }
        };
        let half = (mid - low).max(high - mid);
        let smallest = (half * (1.0 + student_quantile(POWER, degrees) / critical)).exp_m1();
        Some(PairedRatio { mid: mid.exp(), ends: [low.exp(), high.exp()], smallest })
    }
}

/// The middle (Hodges and Lehmann) and the interval by signed ranks; None where so few cannot have one with this error.
fn signed_ranks(logs: &[f64], error: f64) -> Option<(f64, [f64; 2])> {
    let n = logs.len();
    if 2.0 * 0.5f64.powi(i32::try_from(n).ok()?) > REACH * error {
        return None;
    }
    let rank = signed_rank(n, error);
    let means: Vec<f64> =
        (0..n).flat_map(|i| (i..n).map(move |j| (i, j))).map(|(i, j)| 0.5 * (logs[i] + logs[j])).collect();
    let means = sorted(&means);
    Some((median(&means), [means[rank - 1], means[means.len() - rank]]))
}

/// The largest k with P(W < k) <= error / 2, W being the sum of the ranks of n signs that are fair coins; at least 1.
fn signed_rank(n: usize, error: f64) -> usize {
    // P(W = w) of the first ranks, one rank after the other.
    let mut chance = vec![0.0; n * (n + 1) / 2 + 1];
    chance[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..chance.len()).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    let mut below = 0.0;
    let k = chance.iter().position(|chance| {
        below += chance;
        below > error / 2.0
    });
    k.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn looks_share_the_error() {
        let looks = Looks::new(141, 4);
        assert_eq!(looks.at(), LADDER);
        let spent: f64 = looks.at().iter().map(|pairs| looks.error(*pairs)).sum();
        assert!((spent - 0.05 / 4.0).abs() < 1e-12, "{spent}");
        assert_eq!(looks.error(20), looks.error(28), "an end between looks is an earlier next look");
        assert_eq!(Looks::new(30, 1).at(), [6, 9, 13, 19, 30]);
        assert_eq!((Looks::new(0, 1).at(), Looks::new(1000, 1).most()), (&[6][..], MOST_PAIRS));
        assert!(looks.is_due(9) && !looks.is_due(10));
        assert_eq!(looks.ratio(&[0.0; 5]), None);
    }

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Hollander, Wolfe and Chicken, table of Wilcoxon's signed ranks: P(W <= 8) = 0.0244 at n = 10, P(W <= 3) = 0.0098 at
        // n = 9.
        assert_eq!(signed_rank(10, 0.05), 9);
        assert_eq!(signed_rank(9, 0.02), 4);
        assert_eq!(signed_rank(20, 0.05), 53);
        assert_eq!(signed_ranks(&[0.0; 6], 0.001), None, "2^-5 is more");
    }

    #[test]
    fn a_large_change_is_seen_at_the_first_look_and_none_in_equal_times() {
        let looks = Looks::new(141, 4);
        let logs = [0.30, 0.31, 0.29, 0.30, 0.32, 0.30];
        let ratio = looks.ratio(&logs).unwrap();
        assert!(ratio.ends[0] > 1.25 && ratio.ends[1] < 1.45, "{ratio:?}");
        assert!(ratio.smallest > 0.0 && ratio.smallest < 0.1, "{ratio:?}");
        let same = looks.ratio(&[0.0; 28]).unwrap();
        assert_eq!((same.mid, same.ends, same.smallest), (1.0, [1.0, 1.0], 0.0));
    }

    /// What a slice sees, in logarithms.
    #[derive(Clone, Copy, Debug)]
    enum Machine {
        /// Normal noise.
        Normal,
        /// Student's t with two degrees of freedom: no variance.
        Heavy,
        /// Exponential: always slower, never faster.
        Skewed,
        /// Each world lands on a fast or a slow placement, far apart, with hardly any other noise.
        Placement,
        /// The machine has two speeds and keeps each for so many slices on average.
        Regimes(f64),
        /// The first slice of a pair takes longer, by much more than the noise.
        Cold,
        /// The machine becomes slower all the time.
        Drift,
    }

    struct Lab {
        random: Xoshiro256PlusPlus,
        slow: bool,
        slices: f64,
        /// Whether B came first in the pair before, in a block of two.
        first_was_b: Option<bool>,
    }

    impl Lab {
        fn new(seed: u64) -> Self {
            Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), slow: false, slices: 0.0, first_was_b: None }
        }

        fn uniform(&mut self) -> f64 {
            self.random.random::<f64>()
        }

        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.uniform()).cos()
        }

        fn slice(&mut self, machine: Machine, place: usize) -> f64 {
            self.slices += 1.0;
            match machine {
                Machine::Normal => 0.03 * self.normal(),
                Machine::Heavy => {
                    // Of two degrees: a normal over the root of an exponential.
                    let scale = -(1.0 - self.uniform()).ln();
                    0.03 * self.normal() / scale.sqrt()
                }
                Machine::Skewed => -0.05 * (1.0 - self.uniform()).ln(),
                Machine::Placement => 1e-4 * self.normal(),
                Machine::Regimes(dwell) => {
                    self.slow ^= self.uniform() < 1.0 / dwell;
                    0.5 * f64::from(u8::from(self.slow)) + 0.005 * self.normal()
                }
                Machine::Cold => 0.2 * f64::from(u8::from(place == 0)) + 0.001 * self.normal(),
                Machine::Drift => 0.01 * self.slices + 0.001 * self.normal(),
            }
        }

        /// The log ratio of a pair, in A B B A or B A A B slices, as often one as the other.
        fn pair(&mut self, machine: Machine, change: f64) -> f64 {
            let b_first = match self.first_was_b.take() {
                Some(before) => !before,
                None => {
                    let drawn = self.uniform() < 0.5;
                    self.first_was_b = Some(drawn);
                    drawn
                }
            };
            let placed = matches!(machine, Machine::Placement);
            let world = |lab: &mut Self| if placed { 0.3 * f64::from(u8::from(lab.uniform() < 0.5)) } else { 0.0 };
            let worlds = [world(self), world(self)];
            let mut sums = [0.0; 2];
            for (place, second) in [false, true, true, false].into_iter().enumerate() {
                let side = usize::from(second ^ b_first);
                sums[side] += 0.5 * (self.slice(machine, place) + worlds[side]);
            }
            sums[1] - sums[0] + change
        }

        /// Whether the comparison of a case excludes 1, stopping at the first look at which it does, or at which all of the
        /// interval lies within 3%.
        fn finds(&mut self, machine: Machine, change: f64, looks: &Looks) -> bool {
            let mut logs = Vec::new();
            for look in looks.at() {
                logs.resize_with(*look, || self.pair(machine, change));
                let Some(PairedRatio { ends: [low, high], .. }) = looks.ratio(&logs) else { continue };
                if low >= 1.0 / 1.03 && high <= 1.03 {
                    return false;
                }
                if low > 1.0 || high < 1.0 {
                    return true;
                }
            }
            false
        }
    }

    const CASES: usize = 4;

    #[test]
    fn equal_sides_raise_few_alarms_over_all_cases_and_looks() {
        let looks = Looks::new(94, CASES);
        const TRIES: usize = 400;
        let machines = [
            Machine::Normal,
            Machine::Heavy,
            Machine::Skewed,
            Machine::Placement,
            Machine::Regimes(2.0),
            Machine::Regimes(30.0),
            Machine::Cold,
            Machine::Drift,
        ];
        let few = if crate::skip::heavy("false alarms of interleaved runs on every machine") { 8 } else { 3 };
        for machine in machines.into_iter().rev().take(few) {
            let mut lab = Lab::new(11);
            let alarm = |lab: &mut Lab| (0..CASES).filter(|_| lab.finds(machine, 0.0, &looks)).count() > 0;
            let alarms = (0..TRIES).filter(|_| alarm(&mut lab)).count();
            // 5%, and what so many tries may be off by chance (two standard deviations).
            let most = 0.05 * TRIES as f64 + 2.0 * (0.05 * 0.95 * TRIES as f64).sqrt();
            assert!(alarms as f64 <= most, "{machine:?}: {alarms} of {TRIES}");
        }
    }

    /// The test above would see it: intervals that are not corrected raise too many alarms.
    #[test]
    fn without_correction_there_would_be_many() {
        let looks = Looks::new(94, CASES);
        let mut lab = Lab::new(11);
        let mut alarms = 0;
        for _ in 0..200 {
            let mut logs: Vec<f64> = Vec::new();
            let plain = |logs: &[f64]| signed_ranks(logs, 0.05).is_some_and(|(_, [low, high])| low > 0.0 || high < 0.0);
            alarms += usize::from((0..CASES).any(|_| {
                logs.clear();
                looks.at().iter().any(|look| {
                    logs.resize_with(*look, || lab.pair(Machine::Normal, 0.0));
                    plain(&logs)
                })
            }));
        }
        assert!(alarms > 60, "{alarms}");
    }

    #[test]
    fn a_steady_drift_cancels_within_a_pair() {
        let mut lab = Lab::new(3);
        let logs: Vec<f64> = (0..40).map(|_| lab.pair(Machine::Drift, 0.0)).collect();
        // From slice to slice the machine becomes slower by 1%, ten times the noise.
        assert!(logs.iter().all(|log| log.abs() < 0.006), "{logs:?}");
    }

    #[test]
    fn the_smallest_change_is_found() {
        for machine in [Machine::Normal, Machine::Heavy, Machine::Skewed, Machine::Regimes(2.0)] {
            let looks = Looks::new(94, CASES);
            let mut lab = Lab::new(5);
            let smallest_changes: Vec<f64> = (0..40)
                .filter_map(|_| {
                    let logs: Vec<f64> = (0..94).map(|_| lab.pair(machine, 0.0)).collect();
                    Some(looks.ratio(&logs)?.smallest.max(0.03))
                })
                .collect();
            let found = smallest_changes.iter().filter(|smallest| lab.finds(machine, smallest.ln_1p(), &looks)).count();
            assert!(found * 10 >= smallest_changes.len() * 8, "{machine:?}: {found} of {}", smallest_changes.len());
        }
    }
}
