//! Change points: where the median time of a case moved to another level, in the records of many runs.
//!
//! All cases of a history are searched together. The statistic of a series of `n` runs is the likelihood ratio of one change
//! of level, or of a level that lasted for some runs and went back (circular binary segmentation; Olshen et al.,
//! Biostatistics 5, 2004). Values are logarithms, limited to twenty deviations around their median: one absurd run must not
//! decide for all cases. Its null distribution comes from permutations of the runs, the same for all cases, so that no distribution
//! is assumed and cases may move together. The largest statistic over all cases and places decides (Westfall and Young,
//! Resampling-Based Multiple Testing, 1993, step-down maxT). So the chance that equal runs raise any change point in any case
//! is at most the level. Where a change is found, its parts are searched in the same way, at the same level for each depth.
//!
//! Runs that follow each other may be alike without any change. The observed statistic is therefore deflated by the lag-1
//! rank correlation that remains around the levels, pooled over the cases, in excess of what it is in permuted runs, plus one
//! and a half standard errors.
//!
//! Rejected: rank sums, since three runs at the end of twenty can never be significant over ten cases; PELT and other
//! penalties, since they assume a distribution and control no rate.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::quantile::{median, standard_deviation};
use crate::trials::lag_one;

/// The fewest runs of a series, or of a part of it, that can show a change.
pub const FEWEST_FOR_A_CHANGE: usize = 8;
/// The most runs of a case that are searched, from the last: the search takes the square of them.
pub const MOST_FOR_A_CHANGE: usize = 200;
/// The chance that equal runs raise any change point in any case.
pub const CHANGE_LEVEL: f64 = 0.05;

/// Runs on each side of a change, at least: one run alone may be an accident.
const SIDE: usize = 2;
/// Runs of a level that went back, at least. Shorter ones are as frequent by chance as three runs at the end are rare.
const INNER: usize = 5;
/// Permutations of the runs.
const PERMUTATIONS: usize = 999;
/// The first of them also tell the correlation of runs that have none.
const FIRST: usize = 100;
/// The largest correlation that is believed.
const MOST_CORRELATION: f64 = 0.9;
/// Deviations from the median at which values are limited.
const LIMIT: f64 = 20.0;
/// The smallest deviation: medians of quantised or computed times may all be equal.
const FLOOR: f64 = 1e-4;

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// The place in the series of the first value after it.
    pub at: usize,
    /// The median of the values up to the next change, over that of the values since the change before, or since the first that
    /// was searched.
    pub ratio: f64,
    /// The chance of such a change anywhere, in any case, if all runs were equal.
    pub p_value: f64,
}

/// A part of a series in which no change was found yet.
#[derive(Clone, Debug)]
struct Segment {
    case: usize,
    begin: usize,
    /// Limited logarithms, of mean 0.
    scores: Vec<f64>,
    /// Sum of their squares.
    total: f64,
    /// The run of each.
    runs: Vec<usize>,
}

/// Where a statistic is largest: the level of `scores[from..to]` differs from that of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LevelSplit {
    /// Part of the sum of squares that it explains.
    between: f64,
    from: usize,
    to: usize,
}

/// The change points of each case. A case has the medians of its runs, each with the number of its run, ascending; numbers
/// are shared by all cases, and a case need not be in every run. Values that are not positive are refused by returning no
/// change. Of more than [`MOST_FOR_A_CHANGE`] runs of a case, the last ones are searched.
pub fn change_points(cases: &[Vec<(usize, f64)>], seed: u64) -> Vec<Vec<ChangePoint>> {
    let mut found: Vec<Vec<(usize, f64)>> = vec![Vec::new(); cases.len()];
    let whole =
        |(case, values): (usize, &Vec<(usize, f64)>)| segment(case, values, first_searched(values), values.len());
    let mut open: Vec<Segment> = cases.iter().enumerate().filter_map(whole).collect();
    let runs = cases.iter().flatten().map(|(run, _)| run + 1).max().unwrap_or(0);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    while !open.is_empty() {
        let mut next = Vec::new();
        for (segment_at, split, p_value) in significant(&open, runs, &mut random) {
            let parent = &open[segment_at];
            let edges = [0, split.from, split.to, parent.scores.len()];
            for edge in [split.from, split.to] {
                if edge > 0 && edge < parent.scores.len() {
                    found[parent.case].push((parent.begin + edge, p_value));
                }
            }
            let part = |pair: &[usize]| {
                segment(parent.case, &cases[parent.case], parent.begin + pair[0], parent.begin + pair[1])
            };
            next.extend(edges.windows(2).filter_map(part));
        }
        open = next;
    }
    cases.iter().zip(found).map(|(values, places)| with_ratios(values, places)).collect()
}

/// The place of the first value that is searched.
fn first_searched(values: &[(usize, f64)]) -> usize {
    values.len().saturating_sub(MOST_FOR_A_CHANGE)
}

/// The change points at these places, with their sizes. Changes before the values that are searched are not known, so these do
/// not count.
fn with_ratios(values: &[(usize, f64)], mut places: Vec<(usize, f64)>) -> Vec<ChangePoint> {
    places.sort_by_key(|(at, _)| *at);
    let edge = |index: usize| places.get(index).map_or(values.len(), |(at, _)| *at);
    let level = |from: usize, to: usize| median(&values[from..to].iter().map(|(_, value)| *value).collect::<Vec<_>>());
    let point = |(index, (at, p_value)): (usize, &(usize, f64))| {
        let before = if index == 0 { first_searched(values) } else { edge(index - 1) };
        ChangePoint { at: *at, ratio: level(*at, edge(index + 1)) / level(before, *at), p_value: *p_value }
    };
    places.iter().enumerate().map(point).collect()
}

/// A part of a series; None where it is too short, constant, or holds an impossible time.
fn segment(case: usize, values: &[(usize, f64)], begin: usize, end: usize) -> Option<Segment> {
    let part = &values[begin..end];
    if part.len() < FEWEST_FOR_A_CHANGE || part.iter().any(|(_, value)| !(value.is_finite() && *value > 0.0)) {
        return None;
    }
    let logs: Vec<f64> = part.iter().map(|(_, value)| value.ln()).collect();
    let middle = median(&logs);
    let away: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    // The median of absolute deviations over that of a normal distribution. It does not depend on the order of the runs.
    let deviation = (median(&away) * 1.4826).max(FLOOR);
    let limited: Vec<f64> = logs.iter().map(|log| ((log - middle) / deviation).clamp(-LIMIT, LIMIT)).collect();
    let mean = limited.iter().sum::<f64>() / limited.len() as f64;
    let scores: Vec<f64> = limited.iter().map(|score| score - mean).collect();
    let total = scores.iter().map(|score| score * score).sum();
    let runs = part.iter().map(|(run, _)| *run).collect();
    (total > 1e-9).then_some(Segment { case, begin, scores, total, runs })
}

/// The segments with a change at [`CHANGE_LEVEL`] over all of them, each with its place and its p-value.
fn significant(segments: &[Segment], runs: usize, random: &mut Xoshiro256PlusPlus) -> Vec<(usize, LevelSplit, f64)> {
    let scores: Vec<Vec<f64>> = segments.iter().map(|segment| segment.scores.clone()).collect();
    let splits: Vec<LevelSplit> = scores.iter().map(|scores| best_split(scores)).collect();
    let mut permutations = Permutations { segments, places: (0..runs).collect(), random };
    let (mut first, mut correlations): (Vec<Vec<f64>>, Vec<f64>) = Default::default();
    for _ in 0..FIRST {
        let permuted = permutations.next();
        let splits: Vec<LevelSplit> = permuted.iter().map(|scores| best_split(scores)).collect();
        correlations.push(correlation(&permuted, &splits));
        first.push(statistics(segments, &splits, 1.0));
    }
    let inflation = inflation(correlation(&scores, &splits), &correlations);
    let observed = statistics(segments, &splits, inflation);
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order.sort_by(|a, b| observed[*b].total_cmp(&observed[*a]));
    // For each segment in this order: in how many permutations one of those from it on reached its statistic.
    let mut reached = vec![0usize; order.len()];
    let mut count = |statistics: &[f64]| {
        let mut largest = f64::NEG_INFINITY;
        for (rank, index) in order.iter().enumerate().rev() {
            largest = largest.max(statistics[*index]);
            reached[rank] += usize::from(largest >= observed[*index] - 1e-9);
        }
        // Beyond this even the first can no longer be significant.
        reached[0] < (CHANGE_LEVEL * (PERMUTATIONS + 1) as f64) as usize
    };
    let mut rest = (FIRST..PERMUTATIONS).map(|_| {
        let splits: Vec<LevelSplit> = permutations.next().iter().map(|scores| best_split(scores)).collect();
        statistics(segments, &splits, 1.0)
    });
    if !first.iter().all(|statistics| count(statistics)) || !rest.all(|statistics| count(&statistics)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut p_value = 0.0f64;
    for (index, reached) in order.iter().zip(reached) {
        p_value = p_value.max((reached + 1) as f64 / (PERMUTATIONS + 1) as f64);
        if p_value > CHANGE_LEVEL {
            break;
        }
        found.push((*index, splits[*index], p_value));
    }
    found
}

/// The statistic of each segment, with the variance of its levels divided by `inflation`.
fn statistics(segments: &[Segment], splits: &[LevelSplit], inflation: f64) -> Vec<f64> {
    let statistic = |(segment, split): (&Segment, &LevelSplit)| {
        let (between, within) = (split.between / inflation, (segment.total - split.between).max(0.0));
        let explained = between / (between + within);
        // The likelihood ratio, bounded where nothing is left to explain.
        -0.5 * segment.scores.len() as f64 * (1.0 - explained).max(1e-12).ln()
    };
    segments.iter().zip(splits).map(statistic).collect()
}

/// Orders of the runs by chance.
struct Permutations<'s> {
    segments: &'s [Segment],
    /// The place of each run.
    places: Vec<usize>,
    random: &'s mut Xoshiro256PlusPlus,
}

impl Permutations<'_> {
    /// The scores of each segment in the next order, which is the same for all of them.
    fn next(&mut self) -> Vec<Vec<f64>> {
        // Fisher and Yates.
        for last in (1..self.places.len()).rev() {
            self.places.swap(last, self.random.random_range(0..=last));
        }
        let permuted = |segment: &Segment| {
            let placed = segment.runs.iter().zip(&segment.scores).map(|(run, score)| (self.places[*run], *score));
            let mut order: Vec<(usize, f64)> = placed.collect();
            order.sort_unstable_by_key(|(place, _)| *place);
            order.into_iter().map(|(_, score)| score).collect()
        };
        self.segments.iter().map(permuted).collect()
    }
}

/// The lag-1 rank correlation around the levels, pooled over the segments, each by its length.
fn correlation(scores: &[Vec<f64>], splits: &[LevelSplit]) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for (scores, split) in scores.iter().zip(splits) {
        let Some(correlation) = lag_one(&around(scores, split)) else { continue };
        sum += correlation * scores.len() as f64;
        weight += scores.len() as f64;
    }
    if weight > 0.0 { sum / weight } else { 0.0 }
}

/// By how much the correlation of neighbouring runs raises the variance of a level's mean: what is observed, in excess of what
/// runs in an order by chance show, plus one and a half standard errors. With fewer, runs of correlation 0.3 raise too many.
fn inflation(observed: f64, by_chance: &[f64]) -> f64 {
    let mean = by_chance.iter().sum::<f64>() / by_chance.len() as f64;
    let correlation =
        (observed - mean + 1.5 * standard_deviation(by_chance).unwrap_or(0.0)).clamp(0.0, MOST_CORRELATION);
    (1.0 + correlation) / (1.0 - correlation)
}

/// The scores without the two levels.
fn around(scores: &[f64], split: &LevelSplit) -> Vec<f64> {
    let inside = &scores[split.from..split.to];
    let (count, sum) = (inside.len() as f64, inside.iter().sum::<f64>());
    let rest = scores.len() as f64 - count;
    let level = |place: usize| if (split.from..split.to).contains(&place) { sum / count } else { -sum / rest };
    scores.iter().enumerate().map(|(place, score)| score - level(place)).collect()
}

/// Where one level differs most from the rest. Scores have the mean 0.
fn best_split(scores: &[f64]) -> LevelSplit {
    let n = scores.len();
    let mut sums = Vec::with_capacity(n + 1);
    sums.push(0.0);
    for score in scores {
        sums.push(sums[sums.len() - 1] + score);
    }
    let mut best = LevelSplit { between: -1.0, from: 0, to: SIDE };
    let mut try_one = |from: usize, to: usize| {
        let inside = (to - from) as f64;
        let between = (sums[to] - sums[from]).powi(2) * n as f64 / (inside * (n as f64 - inside));
        if between > best.between {
            best = LevelSplit { between, from, to };
        }
    };
    for to in SIDE..=n - SIDE {
        try_one(0, to);
    }
    for from in SIDE..n {
        for to in from + INNER..=n.saturating_sub(SIDE) {
            try_one(from, to);
        }
    }
    best
}
