//! Slow links in a tournament: pairs that are slower than both of their members explain.
//!
//! The logarithm of a pair's time is that of the fleet, plus what each of its two members adds, plus chance: an additive model
//! that least squares fit. The pair with the largest Studentised rest is taken away again and again, and those up to the last that
//! chance does not explain are outliers, as in Rosner's test ([`crate::fleet`]). A link is slow where it is one of these, and lies
//! further out than any rest on the fast side. Members are then judged as a fleet.

use std::collections::BTreeMap;

use crate::distribution::student_quantile;
use crate::fleet::{Fleet, LEAST_DEFICIT, Member, fleet};
use crate::quantile::median;

/// Fewer members have too few pairs to tell a link from its members.
pub const FEWEST_LINKED: usize = 6;

/// Links that are looked for, at most; and of small tournaments a share of the pairs.
const MOST_SLOW: usize = 48;
const PART_SLOW: usize = 8;
/// The noise of a pair is taken to be at least this, on logarithms.
const LEAST_NOISE: f64 = 0.002;
/// Steps in which the pairs that were taken away are replaced by what the others explain.
const STEPS: usize = 8;

/// How far two blocks are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The blocks; equal within one.
    pub blocks: [usize; 2],
    /// The logarithm of the median time of the pairs between them.
    pub value: f64,
}

/// A tournament, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Members, by what each adds to the pairs that it is in. A pair has it once.
    pub members: Fleet,
    /// Slow links: the pair, and how many times as long it takes as its members explain, the slowest first.
    pub slow: Vec<([usize; 2], f64)>,
    /// The deviation of a link that is found in nine of ten tries.
    pub smallest: f64,
    /// Between each two blocks.
    pub distances: Vec<Distance>,
}

/// Judges the links of a square of times, of which only the part above the diagonal is read. `blocks`: the block of each
/// member, from 0. `level`: the chance that any healthy member or link is called slow, half for each. None below
/// [`FEWEST_LINKED`], and if a pair has no positive time.
pub fn links(times: &[Vec<f64>], blocks: &[usize], level: f64) -> Option<Links> {
    if times.len() < FEWEST_LINKED || blocks.len() != times.len() {
        return None;
    }
    let mut fit = Fit::new(times)?;
    let distances = fit.take_distances(blocks);
    let first = fit.free();
    let mut removed: Vec<Removed> = Vec::new();
    for _ in 0..MOST_SLOW.min(fit.pairs() / PART_SLOW) {
        let (pair, studentised) = fit.most_extreme();
        let quantile = student_quantile(1.0 - level / 4.0 / fit.left() as f64, fit.free() - 1.0);
        removed.push(Removed { pair, is_beyond: studentised > quantile });
        fit.leave_out(pair);
    }
    let last = removed.iter().rposition(|step| step.is_beyond).map_or(0, |at| at + 1);
    fit.take_back(removed[last..].iter().map(|step| step.pair));
    let noise = fit.noise();
    let least = student_quantile(1.0 - level / 4.0 / fit.pairs() as f64, fit.free() - 1.0) * noise / fit.share().sqrt();
    let fastest = fit.fastest();
    let is_slow = |rest: f64| rest >= LEAST_DEFICIT.ln_1p() && rest > fastest;
    let rests = removed[..last].iter().map(|step| (step.pair, fit.rest(step.pair)));
    let mut slow: Vec<([usize; 2], f64)> =
        rests.filter(|(_, rest)| is_slow(*rest)).map(|(pair, rest)| (pair, rest.exp())).collect();
    slow.sort_by(|a, b| b.1.total_cmp(&a.1));
    let variance = noise.powi(2) / (times.len() - 2) as f64;
    let of_members: Vec<Member> =
        fit.added.iter().map(|value| Member { value: *value, variance, degrees: first }).collect();
    let members = fleet(&of_members, level / 2.0)?;
    let smallest = least.max(LEAST_DEFICIT.ln_1p()) + student_quantile(0.9, first) * noise;
    Some(Links { members, slow, smallest, distances })
}

/// A step of the search.
struct Removed {
    pair: [usize; 2],
    is_beyond: bool,
}

/// The additive model of a tournament.
struct Fit {
    /// Logarithms of times, both ways; of pairs that are left out, what the others explain.
    square: Vec<Vec<f64>>,
    /// Those that are left out, with their own logarithms.
    left_out: Vec<([usize; 2], f64)>,
    common: f64,
    added: Vec<f64>,
}

impl Fit {
    /// None where a pair has no positive time.
    fn new(times: &[Vec<f64>]) -> Option<Self> {
        let members = times.len();
        let mut square = vec![vec![0.0; members]; members];
        for (low, row) in times.iter().enumerate() {
            for (offset, time) in row.get(low + 1..members)?.iter().enumerate() {
                let high = low + 1 + offset;
                let time = Some(*time).filter(|time| time.is_finite() && *time > 0.0)?;
                (square[low][high], square[high][low]) = (time.ln(), time.ln());
            }
        }
        let mut fit = Self { square, left_out: Vec::new(), common: 0.0, added: vec![0.0; members] };
        fit.solve();
        Some(fit)
    }

    /// Takes away what lies between blocks: pairs within the first block keep their times.
    fn take_distances(&mut self, blocks: &[usize]) -> Vec<Distance> {
        let count = blocks.iter().max().map_or(0, |last| last + 1);
        if count < 2 {
            return Vec::new();
        }
        let mut pairs: BTreeMap<[usize; 2], Vec<f64>> = BTreeMap::new();
        let between = |low: usize, high: usize| [blocks[low].min(blocks[high]), blocks[low].max(blocks[high])];
        for low in 0..blocks.len() {
            for high in low + 1..blocks.len() {
                pairs.entry(between(low, high)).or_default().push(self.square[low][high]);
            }
        }
        let values: BTreeMap<[usize; 2], f64> = pairs.iter().map(|(blocks, all)| (*blocks, median(all))).collect();
        for low in 0..blocks.len() {
            for high in low + 1..blocks.len() {
                let rest = self.square[low][high] - values[&between(low, high)];
                (self.square[low][high], self.square[high][low]) = (rest, rest);
            }
        }
        self.solve();
        values.into_iter().map(|(blocks, value)| Distance { blocks, value }).collect()
    }

    fn members(&self) -> usize {
        self.added.len()
    }

    fn pairs(&self) -> usize {
        self.members() * (self.members() - 1) / 2
    }

    fn left(&self) -> usize {
        self.pairs() - self.left_out.len()
    }

    /// Degrees of freedom of the rests.
    fn free(&self) -> f64 {
        (self.left() - self.members()) as f64
    }

    /// The share of its variance that a rest keeps: all pairs have the same leverage.
    fn share(&self) -> f64 {
        1.0 - 2.0 / (self.members() - 1) as f64
    }

    /// Least squares: with the sum of what members add set to 0, row sums give each.
    fn solve_once(&mut self) {
        let members = self.members() as f64;
        let sums: Vec<f64> = self.square.iter().map(|row| row.iter().sum()).collect();
        self.common = sums.iter().sum::<f64>() / (members * (members - 1.0));
        for (added, sum) in self.added.iter_mut().zip(sums) {
            *added = (sum - (members - 1.0) * self.common) / (members - 2.0);
        }
    }

    /// The same, with pairs that are left out replaced by what the others explain, until that does not change (Yates, Empire
    /// Journal of Experimental Agriculture 1, 1933).
    fn solve(&mut self) {
        self.solve_once();
        for _ in 0..STEPS * usize::from(!self.left_out.is_empty()) {
            for at in 0..self.left_out.len() {
                let [low, high] = self.left_out[at].0;
                let explained = self.explained([low, high]);
                (self.square[low][high], self.square[high][low]) = (explained, explained);
            }
            self.solve_once();
        }
    }

    fn explained(&self, [low, high]: [usize; 2]) -> f64 {
        self.common + self.added[low] + self.added[high]
    }

    /// The logarithm of a pair's own time above what its members explain.
    fn rest(&self, pair: [usize; 2]) -> f64 {
        let own = self.left_out.iter().find(|(known, _)| *known == pair).map(|(_, own)| *own);
        own.unwrap_or(self.square[pair[0]][pair[1]]) - self.explained(pair)
    }

    /// The rests of the pairs that are not left out; of others 0.
    fn rests(&self) -> impl Iterator<Item = ([usize; 2], f64)> + '_ {
        let members = self.members();
        let pairs = (0..members).flat_map(move |low| (low + 1..members).map(move |high| [low, high]));
        pairs.map(|pair| (pair, self.square[pair[0]][pair[1]] - self.explained(pair)))
    }

    fn noise(&self) -> f64 {
        let squares: f64 = self.rests().map(|(_, rest)| rest.powi(2)).sum();
        (squares / self.free()).sqrt().max(LEAST_NOISE)
    }

    fn fastest(&self) -> f64 {
        self.rests().map(|(_, rest)| -rest).fold(0.0, f64::max)
    }

    /// The pair with the largest rest, and that in standard deviations of the others: externally Studentised.
    fn most_extreme(&self) -> ([usize; 2], f64) {
        let (pair, rest) =
            self.rests().fold(([0, 1], 0.0f64), |most, next| if next.1.abs() > most.1.abs() { next } else { most });
        let internal = rest.abs() / (self.noise() * self.share().sqrt());
        let free = self.free();
        let external = internal * ((free - 1.0) / (free - internal.powi(2)).max(1e-9)).sqrt();
        (pair, external)
    }

    fn leave_out(&mut self, pair: [usize; 2]) {
        self.left_out.push((pair, self.square[pair[0]][pair[1]]));
        self.solve();
    }

    fn take_back(&mut self, pairs: impl Iterator<Item = [usize; 2]>) {
        for pair in pairs {
            if let Some(at) = self.left_out.iter().position(|(known, _)| *known == pair) {
                let (_, own) = self.left_out.remove(at);
                (self.square[pair[0]][pair[1]], self.square[pair[1]][pair[0]]) = (own, own);
            }
        }
        self.solve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Marginal, Series, Situation};

    /// All at one distance.
    fn flat(times: &[Vec<f64>]) -> Option<Links> {
        links(times, &vec![0; times.len()], 0.01)
    }

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
                    let judged = flat(&square(members, 0.03, *seed)).unwrap();
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
                let judged = flat(&times).unwrap();
                judged.slow.iter().map(|(pair, _)| *pair).collect::<Vec<_>>() == [[17, 203]]
            })
            .count();
        assert!(found >= 18, "{found} of {tries}");
    }

    #[test]
    fn a_slow_member_is_not_called_slow_links() {
        let mut times = square(12, 0.005, 9);
        (0..12).for_each(|other| times[other.min(4)][other.max(4)] *= 1.2);
        let judged = flat(&times).unwrap();
        let slow: Vec<usize> = (0..12).filter(|at| judged.members.standings[*at].slow).collect();
        assert_eq!((slow, judged.slow), (vec![4], Vec::new()));
    }

    #[test]
    fn a_slow_link_makes_no_member_slow() {
        let mut times = square(8, 0.005, 2);
        times[1][6] *= 1.3;
        let judged = flat(&times).unwrap();
        assert!(judged.members.standings.iter().all(|standing| !standing.slow));
        assert_eq!(judged.slow[0].0, [1, 6]);
        assert!((judged.slow[0].1 / 1.3 - 1.0).abs() < 0.03, "{:?}", judged.slow);
    }

    #[test]
    fn a_small_deficit_of_a_link_is_not_named_however_certain() {
        for (factor, named) in [(1.015, false), (1.03, true)] {
            let mut times = square(16, 0.001, 4);
            times[3][9] *= factor;
            let judged = flat(&times).unwrap();
            assert_eq!(judged.slow.iter().any(|(pair, _)| *pair == [3, 9]), named, "{factor}: {judged:?}");
        }
    }

    #[test]
    fn few_members_and_missing_times_tell_nothing() {
        assert_eq!(flat(&square(5, 0.01, 1)), None);
        let mut times = square(8, 0.01, 1);
        times[2][5] = 0.0;
        assert_eq!(flat(&times), None);
    }

    #[test]
    fn members_are_judged_among_pairs_at_the_same_distance() {
        for (sizes, far) in [([12, 4], 1.4), ([62, 2], 1.4), ([8, 8], 3.0)] {
            let blocks: Vec<usize> = (0..2).flat_map(|block| vec![block; sizes[block]]).collect();
            let members = blocks.len();
            let mut times = square(members, 0.01, 40);
            let cells =
                times.iter_mut().enumerate().flat_map(|(low, row)| row.iter_mut().enumerate().map(move |c| (low, c)));
            cells.for_each(|(low, (high, time))| *time *= if blocks[low] == blocks[high] { 1.0 } else { far });
            let judged = links(&times, &blocks, 0.01).unwrap();
            assert!(judged.slow.is_empty() && judged.members.standings.iter().all(|one| !one.slow), "{judged:?}");
            let across = judged.distances.iter().find(|one| one.blocks == [0, 1]).unwrap().value;
            let within = judged.distances.iter().find(|one| one.blocks == [0, 0]).unwrap().value;
            assert!(((across - within).exp() / far - 1.0).abs() < 0.02);
            times[1][members - 1] *= 1.2;
            assert_eq!(links(&times, &blocks, 0.01).unwrap().slow[0].0, [1, members - 1]);
        }
    }
}
