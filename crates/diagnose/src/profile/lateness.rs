//! Which rank is late more than chance allows, from the ranks' own work in each step: the test behind the verdict.
//!
//! The unit is the step. Lateness of a rank in a step is its own work minus the median of the other ranks' work. Three
//! questions are asked of each rank. The first two share half of the family's level, the third has the other half, each
//! divided by the ranks (Bonferroni):
//!
//! 1. *Persistent*: is its median lateness above the minimum share of a step? If ranks are exchangeable within a step, a
//!    rank is above the median of the others in half of the steps, however skewed or heavy-tailed the work is. So the sign
//!    interval of the median, widened for correlation between steps, answers this without a law of the noise. A series that
//!    is worth too few independent steps for that is asked by the sign test on as many as it is worth, and a shorter one by a
//!    pessimistic autoregression, which names only what stands far out.
//! 2. *Intermittent*: does it, as the slowest rank, cost more than the others do? Its cost in a step is its work minus that
//!    of the next slowest rank, or 0. The contrast is its cost minus the mean cost of the others, with mean 0 if ranks are
//!    exchangeable. Batch means with Student's t bound its mean. The cost is skewed to the right, which makes the lower
//!    bound careful.
//!
//! 3. *Late in a part of its work* (input, forward pass, ...): the first question, asked of each part. Computation that shares
//!    cores with another rank varies by more than a rank waits too long for its data, and that wait hardly varies. The rank
//!    has to be later than all others but a quarter: where another rank is early in a part, the rest are late by their median.
//!    The whole work has to be later too, as far as can be seen: by the minimum share, and by a quarter of what the part is.
//!    Else the rank makes up for it elsewhere, and nobody waits.
//!
//! Circular shifts of each rank's series, as a null, leave every rank's mean as it is: they see whether ranks are late
//! together, and not whether one is late always. Hence exchangeability of ranks, and a bound that must exceed the minimum
//! share. A rank that is slower by less than the minimum share is not named, however certain the difference.

use super::series::{mean, mean_bounds, median_bounds, pessimistic_bounds, range_bounds, sign_bounds};

/// A robust deviation below the median, as a quantile of a normal law: 16% lie further below than one deviation.
const ONE_DEVIATION_BELOW: f64 = 0.158_655;
/// A rank is out of line in a step when it is later than so many deviations. A normal law exceeds that in one step in a
/// billion.
const OUT_OF_LINE: f64 = 6.0;
/// Fewer such steps are single events.
const FEWEST_EVENTS: usize = 3;
/// A rank that is late in a part must be late as a whole by this much of it. Two ranks that share a core help each other: while
/// one waits for data, the other computes faster, and then it is the other way round. That gave back 35 of 62 ms.
const LEAST_KEPT: f64 = 0.25;

/// What each rank took in each step: `works[rank][step]`, and parts of its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) works: Vec<Vec<f64>>,
    pub(super) parts: Vec<TimesOfPart>,
}

/// What each rank took for one part of its work: `times[rank][step]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimesOfPart {
    pub(super) times: Vec<Vec<f64>>,
    /// The minimum loss in this part, in seconds a step: that of waiting is smaller than that of computing on a busy machine.
    pub(super) minimum_s: f64,
    /// The least loss of the whole work for which this part names a rank, in seconds a step: what the noise of the whole hides is to
    /// be worth a finding.
    pub(super) least_lost_s: f64,
}

impl Times {
    /// Times of some steps.
    pub(super) fn only(&self, steps: &[usize]) -> Self {
        let of = |ranks: &Vec<Vec<f64>>| {
            ranks.iter().map(|rank| steps.iter().map(|step| rank[*step]).collect()).collect::<Vec<Vec<f64>>>()
        };
        let of_part = |part: &TimesOfPart| TimesOfPart { times: of(&part.times), ..*part };
        Self { works: of(&self.works), parts: self.parts.iter().map(of_part).collect() }
    }
}

/// The part of its work that a rank is late in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LateIn {
    /// Index of the part among all parts of the work.
    pub(super) part: usize,
    /// How much longer it takes there, in seconds a step.
    pub(super) excess_s: f64,
    pub(super) ci95: [f64; 2],
}

/// A rank that is late.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LateRank {
    /// Index of the rank among all ranks.
    pub(super) rank: usize,
    pub(super) persistent: bool,
    /// What shows it, where its whole work varies too much to.
    pub(super) late_in: Option<LateIn>,
    pub(super) lost_s: f64,
    /// The 95% interval of the loss. It may hold 0 where a part shows that the rank is late.
    pub(super) ci95: [f64; 2],
    /// The highest level of confidence at which the loss is above the minimum share, corrected for the ranks.
    pub(super) confidence: f64,
}

/// Lateness that moves from rank to rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moving {
    /// Places of the ranks with such steps.
    pub(super) ranks: Vec<usize>,
    pub(super) events: usize,
    pub(super) lost_s: f64,
}

/// What the ranks' work shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JudgedWork {
    /// Late ranks, the most costly first.
    pub(super) late: Vec<LateRank>,
    pub(super) moving: Option<Moving>,
    /// Whether the steps of every rank are enough for the persistent question at this level.
    pub(super) enough: bool,
    /// The rank that may be latest though it is not named; None where a rank is named, or the steps bound no rank.
    pub(super) unseen: Option<Unseen>,
}

impl JudgedWork {
    /// Places of the late ranks.
    fn ranks(&self) -> Vec<usize> {
        self.late.iter().map(|late| late.rank).collect()
    }
}

/// What can hide in the noise: the lateness that a rank may have without being named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unseen {
    /// Index of the rank among all ranks.
    pub(super) rank: usize,
    /// What it loses at most in the median step, in seconds: with 95% confidence for all ranks together. Where single steps
    /// cost it more than that on average, what it loses at most on average.
    pub(super) at_most_s: f64,
}

/// What is asked: the minimum loss of the whole work in seconds a step, and the level of the whole family of ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) minimum_s: f64,
    pub(super) level: f64,
}

/// Own value minus the median of the other ranks' values, for each rank and step. Needs two ranks.
pub(super) fn against_others(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let steps = values.first().map_or(0, Vec::len);
    let mut found = vec![vec![0.0; steps]; values.len()];
    let mut order: Vec<usize> = (0..values.len()).collect();
    for step in 0..steps {
        order.sort_unstable_by(|a, b| values[*a][step].total_cmp(&values[*b][step]));
        for (place, rank) in order.iter().enumerate() {
            let other = |at: usize| values[order[if at < place { at } else { at + 1 }]][step];
            let count = order.len() - 1;
            let median = 0.5 * (other((count - 1) / 2) + other(count / 2));
            found[*rank][step] = values[*rank][step] - median;
        }
    }
    found
}

/// Own value minus a large one of the other ranks': of fewer than five the largest, else that which a quarter of them exceed.
fn against_most(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let steps = values.first().map_or(0, Vec::len);
    let of_rank = |rank: usize| {
        let of_step = |step: usize| {
            let mut others: Vec<f64> =
                values.iter().enumerate().filter(|(other, _)| *other != rank).map(|(_, values)| values[step]).collect();
            let exceeded_by = others.len() / 4;
            let (_, large, _) = others.select_nth_unstable_by(exceeded_by, |a, b| b.total_cmp(a));
            values[rank][step] - *large
        };
        (0..steps).map(of_step).collect()
    };
    (0..values.len()).map(of_rank).collect()
}

/// What each rank costs in each step: its work minus that of the next slowest, if it is the slowest.
pub(super) fn costs(works: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let steps = works.first().map_or(0, Vec::len);
    let mut found = vec![vec![0.0; steps]; works.len()];
    for step in 0..steps {
        let (mut slowest, mut next) = (0, f64::NEG_INFINITY);
        for rank in 1..works.len() {
            if works[rank][step] > works[slowest][step] {
                (slowest, next) = (rank, works[slowest][step]);
            } else {
                next = next.max(works[rank][step]);
            }
        }
        found[slowest][step] = works[slowest][step] - next;
    }
    found
}

/// Judges the own work of each rank in each step. Needs two ranks.
pub(super) fn judge(times: &Times, question: Question) -> JudgedWork {
    let works = &times.works;
    let lateness = against_others(works);
    // Two questions a rank; a two-sided interval has twice the error of the one-sided question.
    let own = if times.parts.is_empty() { question.level } else { 0.5 * question.level };
    let level = 2.0 * own / (2.0 * works.len() as f64);
    let mut judged = JudgedWork { enough: true, ..JudgedWork::default() };
    for (rank, late) in lateness.iter().enumerate() {
        let bounds = bounds_of(late, level);
        judged.enough &= bounds.is_some();
        if !bounds.is_some_and(|[low, _]| low > question.minimum_s) {
            continue;
        }
        let interval = stats::median_interval(late).map(|interval| [interval.low, interval.high]);
        let interval = interval.or_else(|| sign_bounds(late, 0.05)).or_else(|| pessimistic_bounds(late, 0.05));
        if let Some(ci95) = interval.filter(|[low, _]| *low > question.minimum_s) {
            let (lost_s, confidence) = (stats::median(late), 1.0 - question.level);
            judged.late.push(LateRank { rank, persistent: true, late_in: None, lost_s, ci95, confidence });
        }
    }
    judged.late.extend(intermittent(works, &judged.ranks(), level, question));
    judged.late.extend(late_in_parts(times, &lateness, &judged.ranks(), question));
    judged.late.sort_by(|a, b| b.lost_s.total_cmp(&a.lost_s));
    if judged.late.is_empty() {
        // A rank that is late in most steps by more than that is not late in turn, even where the noise hides it.
        let median_s = lateness.iter().map(|late| stats::median(late)).fold(0.0, f64::max);
        judged.moving = moving(works, &lateness, question).filter(|moving| moving.lost_s >= median_s);
        judged.unseen = unseen(works, &lateness);
    }
    judged
}

/// Ranks whose work is late in one part, where the whole varies too much to show it. `lateness`: of the whole.
fn late_in_parts(times: &Times, lateness: &[Vec<f64>], known: &[usize], question: Question) -> Vec<LateRank> {
    let level = 2.0 * 0.5 * question.level / (times.parts.len() * lateness.len()).max(1) as f64;
    let parts: Vec<Vec<Vec<f64>>> = times.parts.iter().map(|part| against_most(&part.times)).collect();
    let of_rank = |rank: usize| {
        let lost_s = stats::median(&lateness[rank]);
        let late_in = |(part, late): (usize, &Vec<Vec<f64>>)| {
            let TimesOfPart { minimum_s, least_lost_s, .. } = times.parts[part];
            let late = &late[rank];
            let excess_s = stats::median(late);
            let is_kept = lost_s > minimum_s.max(least_lost_s) && lost_s >= LEAST_KEPT * excess_s;
            let is_late = is_kept && any_bounds(late, level).is_some_and(|[low, _]| low > minimum_s);
            is_late.then(|| Some(LateIn { part, excess_s, ci95: any_bounds(late, 0.05)? })).flatten()
        };
        let most = parts.iter().enumerate().filter_map(late_in).max_by(|a, b| a.excess_s.total_cmp(&b.excess_s));
        let (late_in, ci95) = (Some(most?), any_bounds(&lateness[rank], 0.05)?);
        Some(LateRank { rank, persistent: true, late_in, lost_s, ci95, confidence: 1.0 - question.level })
    };
    (0..lateness.len()).filter(|rank| !known.contains(rank)).filter_map(of_rank).collect()
}

/// The interval of a median, by what the number and the correlation of the steps permit.
fn bounds_of(values: &[f64], level: f64) -> Option<[f64; 2]> {
    median_bounds(values, level).or_else(|| sign_bounds(values, level)).or_else(|| pessimistic_bounds(values, level))
}

/// The interval of a median, also for steps without a law of their noise.
fn any_bounds(values: &[f64], level: f64) -> Option<[f64; 2]> {
    bounds_of(values, level).or_else(|| range_bounds(values, level))
}

/// The rank that may be latest. One-sided bounds that hold for all ranks together (Bonferroni). None where single steps cost a
/// rank more than its bound, and nothing bounds that.
fn unseen(works: &[Vec<f64>], lateness: &[Vec<f64>]) -> Option<Unseen> {
    let level = 2.0 * 0.05 / lateness.len() as f64;
    let contrasts = contrasts(works);
    let of_rank = |(rank, late): (usize, &Vec<f64>)| {
        let [_, at_most_s] = bounds_of(late, level)?;
        if mean(&contrasts[rank]) <= at_most_s {
            return Some(Unseen { rank, at_most_s });
        }
        let [_, at_most_s] = mean_bounds(&contrasts[rank], level)?;
        Some(Unseen { rank, at_most_s })
    };
    let all: Option<Vec<Unseen>> = lateness.iter().enumerate().map(of_rank).collect();
    all?.into_iter().max_by(|a, b| a.at_most_s.total_cmp(&b.at_most_s))
}

/// What each rank costs in each step as the slowest, minus the mean cost of the others.
fn contrasts(works: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let costs = costs(works);
    let others = (works.len() - 1) as f64;
    let steps = costs.first().map_or(0, Vec::len);
    let sums: Vec<f64> = (0..steps).map(|step| costs.iter().map(|cost| cost[step]).sum()).collect();
    let contrast = |(own, sum): (&f64, &f64)| own - (sum - own) / others;
    costs.iter().map(|own| own.iter().zip(&sums).map(contrast).collect()).collect()
}

/// Ranks that cost more than the others without being late in most steps.
fn intermittent(works: &[Vec<f64>], known: &[usize], level: f64, question: Question) -> Vec<LateRank> {
    let contrasts = contrasts(works);
    let of_rank = |rank: usize| {
        let own = &contrasts[rank];
        mean_bounds(own, level).filter(|[low, _]| *low > question.minimum_s)?;
        let ci95 = mean_bounds(own, 0.05)?;
        let confidence = 1.0 - question.level;
        Some(LateRank { rank, persistent: false, late_in: None, lost_s: mean(own), ci95, confidence })
    };
    (0..works.len()).filter(|rank| !known.contains(rank)).filter_map(of_rank).collect()
}

/// Steps in which a rank is out of line, on several ranks, that together cost more than the minimum.
fn moving(works: &[Vec<f64>], lateness: &[Vec<f64>], question: Question) -> Option<Moving> {
    let costs = costs(works);
    let steps = works.first().map_or(0, Vec::len);
    let (mut ranks, mut events, mut lost) = (Vec::new(), 0, 0.0);
    for (rank, late) in lateness.iter().enumerate() {
        let sorted = stats::sorted(late);
        let middle = stats::quantile(&sorted, 0.5);
        let deviation = middle - stats::quantile(&sorted, ONE_DEVIATION_BELOW);
        let limit = middle + (OUT_OF_LINE * deviation).max(question.minimum_s);
        let out: Vec<f64> = (0..steps).filter(|step| late[*step] > limit).map(|step| costs[rank][step]).collect();
        if !out.is_empty() {
            ranks.push(rank);
            events += out.len();
            lost += out.iter().sum::<f64>();
        }
    }
    let lost_s = lost / steps.max(1) as f64;
    (ranks.len() > 1 && events >= FEWEST_EVENTS && lost_s > question.minimum_s).then_some(Moving {
        ranks,
        events,
        lost_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_median_leaves_the_rank_itself_out() {
        let values = [vec![1.0, 5.0], vec![2.0, 5.0], vec![9.0, 1.0], vec![4.0, 5.0]];
        let found = against_others(&values);
        assert_eq!(found, [vec![-3.0, 0.0], vec![-2.0, 0.0], vec![7.0, -4.0], vec![2.0, 0.0]]);
        assert_eq!(against_others(&values[..2]), [vec![-1.0, 0.0], vec![1.0, 0.0]]);
    }

    #[test]
    fn most_others_leave_out_a_quarter_of_them() {
        let three = [vec![1.0], vec![2.0], vec![9.0]];
        assert_eq!(against_most(&three), [vec![-8.0], vec![-7.0], vec![7.0]]);
        let six: Vec<Vec<f64>> = [1.0, 2.0, 3.0, 4.0, 8.0, 9.0].iter().map(|value| vec![*value]).collect();
        assert_eq!(against_most(&six)[4..], [vec![4.0], vec![5.0]], "two slow ranks do not hide each other");
    }

    #[test]
    fn only_the_slowest_rank_costs() {
        let works = [vec![1.0, 5.0], vec![2.0, 3.0], vec![9.0, 1.0]];
        assert_eq!(costs(&works), [vec![0.0, 2.0], vec![0.0, 0.0], vec![7.0, 0.0]]);
        // A tie costs nothing.
        assert_eq!(costs(&[vec![3.0], vec![3.0]]), [[0.0], [0.0]]);
    }
}
