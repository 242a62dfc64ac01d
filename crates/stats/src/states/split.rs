//! Whether values lie on two levels.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::FEWEST_IN_STATE;
use crate::quantile::{at_rank, quantile, sorted};
use crate::trials::lag_one;

/// Levels that lie closer than this are not states: 5%.
const CLOSEST: f64 = 0.048_790_164;
/// The smallest spread of a level: clocks quantise, and computed times are all equal.
const FLOOR: f64 = 0.005;
/// So much of the distance between levels is empty, at least: a tail thins out, and has no gap.
const EMPTY: f64 = 0.3;
/// So many times further apart than chance reaches, levels need no proof by the order of time.
const CLEAR: f64 = 2.5;
/// Of the largest distance.
const NEARLY: f64 = 0.6;
/// The smaller group holds this share of the values, at least: a few slow trials are not a state.
const SMALLEST: f64 = 0.1;
/// Values below which no two levels are looked for.
const FEWEST: usize = 8;
/// Series of equally spread values by which a distance is judged.
const SERIES: usize = 2_000;
/// Beyond so many values the distance that chance reaches hardly falls.
const MOST: usize = 200;

/// Where the values of a channel split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ChannelSplit {
    pub(super) channel: usize,
    /// Logarithm between the levels.
    pub(super) border: f64,
    /// The distance of the levels over the one that chance reaches.
    pub(super) excess: f64,
}

/// The clearest split of these moments by any channel, if there is one at this level.
pub(super) fn best_split(logs: &[Vec<Option<f64>>], members: &[usize], level: f64) -> Option<ChannelSplit> {
    let channels = logs.first().map_or(0, Vec::len);
    let of = |(channel, reach): (usize, Reach)| {
        let values: Vec<f64> = members.iter().filter_map(|at| logs[*at][channel]).collect();
        let ordered = sorted(&values);
        let farthest = farthest(&ordered, reach)?;
        if farthest.apart < CLOSEST || farthest.between < EMPTY * farthest.apart {
            return None;
        }
        let border = 0.5 * (ordered[farthest.at - 1] + ordered[farthest.at]);
        let alone = independent(&values, &ordered, &farthest.cuts());
        let excess = farthest.distance / reached_by_chance(alone, reach, channels)?;
        let upper: Vec<bool> = values.iter().map(|value| *value > border).collect();
        let believed = excess > CLEAR || (excess > 1.0 && as_few_changes(&upper) < level);
        believed.then_some(ChannelSplit { channel, border, excess })
    };
    let both = |channel| [(channel, Reach::Whole), (channel, Reach::Nearest)];
    (0..channels).flat_map(both).filter_map(of).max_by(|a, b| a.excess.total_cmp(&b.excess))
}

/// How many values these are worth, that resemble their predecessors within their groups: as for the mean of a first-order
/// autoregression.
fn independent(values: &[f64], ordered: &[f64], cuts: &[usize]) -> usize {
    let mut levels: Vec<(f64, f64)> = Vec::new();
    let mut rest = ordered;
    for cut in cuts.iter().rev() {
        let (below, group) = rest.split_at(*cut);
        levels.push((group[0], middle(group)));
        rest = below;
    }
    let level = |value: f64| {
        let above = levels.iter().find(|(least, _)| value >= *least);
        above.map_or_else(|| middle(rest), |(_, middle)| *middle)
    };
    let residuals: Vec<f64> = values.iter().map(|value| value - level(*value)).collect();
    let alike = lag_one(&residuals).unwrap_or(0.0).clamp(0.0, 0.9);
    (values.len() as f64 * (1.0 - alike) / (1.0 + alike)).floor() as usize
}

/// The two groups of ascending values that lie furthest apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Farthest {
    /// The first value of the upper group.
    at: usize,
    /// The values of both groups that count.
    counted: (usize, usize),
    /// All values.
    of: usize,
    /// Between their medians.
    apart: f64,
    /// From nine tenths of the lower group to one tenth of the upper one.
    between: f64,
    /// Between their medians, in units of their spread.
    distance: f64,
}

impl Farthest {
    /// Where groups begin, the lowest left out.
    fn cuts(&self) -> Vec<usize> {
        [self.counted.0, self.at, self.counted.1].into_iter().filter(|cut| *cut > 0 && *cut < self.of).collect()
    }
}

/// What of the two sides counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// All of the sides: there are two levels.
    Whole,
    /// The sides as far as their largest gaps: a side may hold a third level.
    Nearest,
}

impl Reach {
    /// The chance that equally spread values lie as far apart. Alone it would be too large; the order of time is a second
    /// proof. Neighbourhoods are smaller than sides, so that a path which wanders passes for levels more often.
    const fn level(self) -> f64 {
        match self {
            Self::Whole => 0.05,
            Self::Nearest => 0.01,
        }
    }
}

fn farthest(ordered: &[f64], reach: Reach) -> Option<Farthest> {
    let n = ordered.len();
    if n < FEWEST {
        return None;
    }
    let least = FEWEST_IN_STATE.max((SMALLEST * n as f64).ceil() as usize);
    let of = |at: usize| {
        let (mut low, mut high) = ordered.split_at(at);
        if reach == Reach::Nearest {
            low = &low[largest_gap(low, least).unwrap_or(0)..];
            high = &high[..largest_gap(high, least).unwrap_or(high.len())];
        }
        let counted = (at - low.len(), at + high.len());
        let apart = middle(high) - middle(low);
        let spread = (0.5 * (deviation(low).powi(2) + deviation(high).powi(2))).sqrt();
        Farthest { at, counted, of: n, apart, between: between(low, high), distance: apart / spread }
    };
    let all: Vec<Farthest> = (least..=n.checked_sub(least)?).map(of).collect();
    let most = all.iter().map(|one| one.distance).fold(0.0, f64::max);
    // Quartiles hardly see a few values of the other group, so that many places are nearly as good: the gap is at one of them.
    let gap = |one: &Farthest| ordered[one.at] - ordered[one.at - 1];
    all.into_iter().filter(|one| one.distance >= NEARLY * most).max_by(|a, b| gap(a).total_cmp(&gap(b)))
}

/// The first value after the largest gap that leaves so many on both sides.
fn largest_gap(ordered: &[f64], least: usize) -> Option<usize> {
    let gap = |at: &usize| ordered[*at] - ordered[at - 1];
    (least..=ordered.len().checked_sub(least)?).max_by(|a, b| gap(a).total_cmp(&gap(b)))
}

/// The chance that values in random order change between the groups as rarely as these (Wald and Wolfowitz, Annals of
/// Mathematical Statistics 11, 1940). Whatever the distribution of independent values, this holds exactly.
fn as_few_changes(upper: &[bool]) -> f64 {
    let high = upper.iter().filter(|is| **is).count();
    let low = upper.len() - high;
    if high == 0 || low == 0 {
        return 1.0;
    }
    let runs = 1 + upper.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let logs: Vec<f64> = std::iter::once(0.0)
        .chain((1..=upper.len()).scan(0.0, |sum, n| {
            *sum += (n as f64).ln();
            Some(*sum)
        }))
        .collect();
    // The logarithm of the number of choices; None if there is none.
    let choose = |n: usize, k: usize| (k <= n).then(|| logs[n] - logs[k] - logs[n - k]);
    let all = choose(upper.len(), high).unwrap_or(0.0);
    let ways = |a: usize, b: usize| match (choose(low - 1, a), choose(high - 1, b)) {
        (Some(low), Some(high)) => (low + high - all).exp(),
        _ => 0.0,
    };
    // Of an even number of runs, half are in each group; of an odd one, either group has one more.
    let chance = |runs: usize| match runs % 2 {
        0 => 2.0 * ways(runs / 2 - 1, runs / 2 - 1),
        _ => ways(runs / 2, runs / 2 - 1) + ways(runs / 2 - 1, runs / 2),
    };
    (2..=runs).map(chance).sum::<f64>().min(1.0)
}

/// From nine tenths of the lower group to one tenth of the upper one.
fn between(low: &[f64], high: &[f64]) -> f64 {
    let part = |group: &[f64], share: f64| at_rank(group, 1.0 + share * (group.len() - 1) as f64);
    part(high, 0.1) - part(low, 0.9)
}

fn middle(ordered: &[f64]) -> f64 {
    at_rank(ordered, 0.5 * (ordered.len() as f64 + 1.0))
}

/// The standard deviation of a normal distribution with these quartiles.
fn deviation(ordered: &[f64]) -> f64 {
    let last = (ordered.len() - 1) as f64;
    ((at_rank(ordered, 1.0 + 0.75 * last) - at_rank(ordered, 1.0 + 0.25 * last)) / 1.349).max(FLOOR)
}

/// How far apart groups of so many equally spread values lie by chance. None for too few values. Series are kept: a run asks
/// for few numbers of values, again and again.
fn reached_by_chance(values: usize, reach: Reach, channels: usize) -> Option<f64> {
    type Kept = BTreeMap<(usize, Reach), Vec<f64>>;
    static KEPT: Mutex<Kept> = Mutex::new(BTreeMap::new());
    if values < FEWEST {
        return None;
    }
    let values = rounded(values.min(MOST));
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let distances = kept.entry((values, reach)).or_insert_with(|| by_chance(values, reach));
    Some(quantile(distances, 1.0 - reach.level() / channels.max(1) as f64))
}

/// Rounded down to one of eight numbers between two powers of two: fewer values reach further, so states are said more rarely.
fn rounded(values: usize) -> usize {
    let step = 1 << values.max(8).ilog2().saturating_sub(3);
    values / step * step
}

/// Distances in series of uniform values, which are drawn in ascending order as sums of exponential gaps; in ascending order.
fn by_chance(values: usize, reach: Reach) -> Vec<f64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(values as u64);
    let mut series = || {
        let mut sum = 0.0;
        let mut next = || {
            sum -= (1.0 - random.random::<f64>()).ln();
            sum
        };
        let ordered: Vec<f64> = (0..values).map(|_| next()).collect();
        farthest(&ordered, reach).map_or(0.0, |farthest| farthest.distance)
    };
    sorted(&(0..SERIES).map(|_| series()).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_changes_are_as_rare_as_by_counting() {
        // All orders of three among eight, counted.
        let orders: Vec<Vec<bool>> = (0_u32..256)
            .filter(|bits| bits.count_ones() == 3)
            .map(|bits| (0..8).map(|at| bits >> at & 1 == 1).collect())
            .collect();
        let changes = |order: &[bool]| order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        for order in &orders {
            let rarer = orders.iter().filter(|other| changes(other) <= changes(order)).count();
            let share = rarer as f64 / orders.len() as f64;
            assert!((as_few_changes(order) - share).abs() < 1e-12, "{order:?}");
        }
        assert_eq!(as_few_changes(&[true; 4]), 1.0);
    }

    #[test]
    fn equally_spread_values_reach_a_distance_by_chance() {
        for reach in [Reach::Whole, Reach::Nearest] {
            let [few, many] = [12, 200].map(|values| reached_by_chance(values, reach, 1).unwrap());
            assert!((2.5..12.0).contains(&many) && few > many, "{reach:?}: {few} {many}");
            assert_eq!(reached_by_chance(7, reach, 1), None);
        }
    }
}
