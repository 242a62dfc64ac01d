//! Steps that take much longer than the others: checkpoints, evaluation, garbage collection.
//!
//! They are facts about the steps that were traced, and no test of ranks. A rank is named where only its own work is longer in
//! these steps.

use serde::Serialize;

use super::steps::{RankSteps, Steps};

/// A pause makes a step longer by so much of the median step at least.
const LONGER: f64 = 0.5;
/// A pause makes a step longer by so many deviations at least.
const OUT_OF_LINE: f64 = 6.0;
/// A robust deviation below the median, as a quantile of a normal law.
const ONE_DEVIATION_BELOW: f64 = 0.158_655;
/// One long step is a single event.
const FEWEST: usize = 2;
/// Two may be of one rank by chance: on a busy machine they often are.
const FEWEST_OF_A_RANK: usize = 3;
/// A step that is longer by less than this share of what the second longest step is longer does not count as a pause.
const BLIP: f64 = 0.2;
/// With more of them, steps vary, and none is a pause.
const MOST_SHARE: f64 = 0.34;
/// Pauses that take less of the time matter to nobody.
const SMALLEST_SHARE: f64 = 0.02;
/// A rank works in a pause if its own work is longer by so much of it.
const OWN_SHARE: f64 = 0.5;
/// One rank works in pauses if it works longest in so much of their time.
const MOST_OF_TIME: f64 = 0.7;
/// One rank works in pauses if no other rank works in them as long as so much of its time. If all do, all ranks work in them.
const EQUAL: f64 = 0.75;
/// Where another rank works half as long in pauses, all do, unless what the first does beyond that takes so much of the time: the rank
/// that saves a checkpoint for all has a little more to do.
const ALONE: f64 = 0.04;
/// Distances of pauses that are the period, or a multiple of it where one is missing.
const REGULAR: f64 = 0.75;

/// Who works in pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// One rank; the others wait for it.
    Rank(u32),
    /// All ranks at once.
    All,
    /// Other ranks in other steps.
    InTurn,
    /// Nobody: ranks could run, and waited for a processor in more than half of this time.
    Busy,
    /// The trace does not show when ranks wait, it has one rank, or there are two pauses, which name nobody.
    Unknown,
}

/// Steps that take much longer than the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pauses {
    /// Numbers of these steps.
    pub steps: Vec<u32>,
    /// Steps from one to the next, where most are regular: one may be missing.
    pub every: Option<u32>,
    /// Who works in them.
    pub who: Who,
    /// Where one rank does: how long the next one works in them beyond its usual step, as a share of that rank's time.
    pub next_share: Option<f64>,
    /// The median of what a step with one takes, in seconds.
    pub long_s: f64,
    /// The median step.
    pub usual_s: f64,
    /// What they take beyond a usual step, as a share of the time of all steps.
    pub share: f64,
    /// What long steps take beyond a usual step, in seconds per step.
    pub lost_s_per_step: f64,
}

/// The pauses, if there are any. `shows_waits`: whether own work of ranks is known. Then a step that only waits for a rank that
/// pauses in the step before is none.
pub(super) fn pauses(steps: &Steps, shows_waits: bool) -> Option<Pauses> {
    let by_work = shows_waits && steps.ranks.len() > 1;
    let works: Vec<Vec<f64>> = steps.ranks.iter().map(RankSteps::work).collect();
    let times: Vec<f64> = match by_work {
        true => (0..steps.numbers.len()).map(|step| works.iter().map(|work| work[step]).fold(0.0, f64::max)).collect(),
        false => steps.step.values.clone(),
    };
    let usual_s = steps.step.median?;
    let sorted = stats::sorted(&times);
    let middle = stats::quantile(&sorted, 0.5);
    let deviation = middle - stats::quantile(&sorted, ONE_DEVIATION_BELOW);
    let least = (LONGER * usual_s).max(OUT_OF_LINE * deviation);
    let mut long: Vec<usize> = (0..times.len()).filter(|step| times[*step] - middle > least).collect();
    let mut longest: Vec<f64> = long.iter().map(|step| times[*step] - middle).collect();
    longest.sort_by(|a, b| b.total_cmp(a));
    let second = longest.get(1).copied().unwrap_or(0.0);
    long.retain(|step| times[*step] - middle >= BLIP * second);
    if long.len() < FEWEST || long.len() as f64 > MOST_SHARE * times.len() as f64 {
        return None;
    }
    let longer: Vec<f64> = long.iter().map(|step| times[*step] - middle).collect();
    let lost_s_per_step = (longer.iter().sum::<f64>() / times.len() as f64).min(steps.mean_s());
    let share = steps.share(lost_s_per_step);
    let numbers: Vec<u32> = long.iter().map(|step| steps.numbers[*step]).collect();
    if share < SMALLEST_SHARE {
        return None;
    }
    let (who, next_share) = if by_work { who(steps, &works, &long, &longer) } else { (Who::Unknown, None) };
    let is_shared = next_share.is_some_and(|next| next >= OWN_SHARE && share * (1.0 - next) < ALONE);
    let (who, next_share) = if is_shared { (Who::All, None) } else { (who, next_share) };
    Some(Pauses {
        every: every(&numbers),
        who,
        next_share,
        steps: numbers,
        long_s: usual_s + stats::median(&longer),
        usual_s,
        share,
        lost_s_per_step,
    })
}

/// The period of these numbers: the median of their distances, of which most have to be that, or a multiple of it. Two numbers
/// have no period, and neither have steps in a row: every distance is a multiple of 1.
fn every(numbers: &[u32]) -> Option<u32> {
    let distances: Vec<u32> = numbers.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    if distances.len() < 2 {
        return None;
    }
    let mut sorted = distances.clone();
    sorted.sort_unstable();
    let period = sorted[(sorted.len() - 1) / 2].max(1);
    // A rank that is late may be so in the next step, as the others see it.
    let slack = u32::from(period >= 6);
    let is_regular = |distance: &&u32| {
        let rest = **distance % period;
        **distance >= period.saturating_sub(slack) && rest.min(period - rest) <= slack
    };
    let regular = distances.iter().filter(is_regular).count();
    (period > 1 && regular as f64 >= REGULAR * distances.len() as f64).then_some(period)
}

/// The ranks that work longer in these steps, by the time that each does. `longer`: by how much the longest of them does.
fn who(steps: &Steps, works: &[Vec<f64>], long: &[usize], longer: &[f64]) -> (Who, Option<f64>) {
    let excess = excesses(works, long);
    let on_processor: Vec<Vec<f64>> = steps.ranks.iter().map(RankSteps::on_processor).collect();
    let running = excesses(&on_processor, long);
    let all: f64 = longer.iter().sum();
    let most = |of: &[Vec<f64>], at: usize| of.iter().map(|rank| rank[at]).fold(0.0, f64::max);
    if (0..long.len()).map(|at| most(&running, at)).sum::<f64>() < 0.5 * all {
        return (Who::Busy, None);
    }
    let sums: Vec<f64> = running.iter().map(|rank| rank.iter().sum()).collect();
    let Some(first) = (0..sums.len()).max_by(|a, b| sums[*a].total_cmp(&sums[*b])) else {
        return (Who::Unknown, None);
    };
    let rest = || (0..sums.len()).filter(|rank| *rank != first).map(|rank| sums[rank]);
    let in_all = |at: &usize| excess.iter().all(|rank| rank[*at] >= OWN_SHARE * longer[*at]);
    let of_all: f64 = (0..long.len()).filter(in_all).map(|at| longer[at]).sum();
    if rest().all(|sum| sum >= EQUAL * sums[first]) && of_all >= OWN_SHARE * all {
        return (Who::All, None);
    }
    let is_first =
        |at: &usize| running[first][*at] > 0.0 && running.iter().all(|rank| rank[*at] <= running[first][*at]);
    let of_first: f64 = (0..long.len()).filter(is_first).map(|at| longer[at]).sum();
    let is_one = of_first >= MOST_OF_TIME * all && rest().all(|sum| sum < EQUAL * sums[first]);
    match () {
        () if is_one && long.len() < FEWEST_OF_A_RANK => (Who::Unknown, None),
        () if is_one => (Who::Rank(steps.ranks[first].rank), Some(rest().fold(0.0, f64::max) / sums[first])),
        () => (Who::InTurn, None),
    }
}

/// By how much each rank works longer in these steps than it usually does.
fn excesses(works: &[Vec<f64>], long: &[usize]) -> Vec<Vec<f64>> {
    let of_rank = |work: &Vec<f64>| {
        let usual = stats::median(work);
        long.iter().map(|step| (work[*step] - usual).max(0.0)).collect()
    };
    works.iter().map(of_rank).collect()
}

/// The lowest rate, as a share of what was seen, that shows so many events or more with a probability of `1 - confidence`
/// (Poisson; Garwood, Biometrika 28, 1936).
pub(super) fn lowest_rate(events: usize, confidence: f64) -> f64 {
    let at_least = |rate: f64| {
        let (mut term, mut below) = ((-rate).exp(), 0.0);
        for number in 0..events {
            below += term;
            term *= rate / (number + 1) as f64;
        }
        1.0 - below
    };
    let (mut low, mut high) = (0.0, events as f64);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if at_least(middle) < 1.0 - confidence { low = middle } else { high = middle }
    }
    low / events.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Series;

    fn steps(times: &[[f64; 2]]) -> Steps {
        let rank = |at: usize| {
            let own: Vec<f64> = times.iter().map(|pair| pair[at]).collect();
            let longest: Vec<f64> = times.iter().map(|pair| pair[0].max(pair[1])).collect();
            let blocked = longest.iter().zip(&own).map(|(longest, own)| longest - own).collect();
            RankSteps {
                rank: at as u32,
                total: Series::new(longest),
                blocked: Series::new(blocked),
                ..RankSteps::default()
            }
        };
        let step = Series::new(times.iter().map(|pair| pair[0].max(pair[1])).collect());
        let numbers = (10..).take(times.len()).collect();
        Steps { numbers, step, ranks: vec![rank(0), rank(1)], ..Steps::default() }
    }

    /// Every tenth step takes longer, by this much on each rank.
    fn tenth(longer: [f64; 2]) -> Steps {
        let time = |step: usize, rank: usize| {
            let noise = ((step * 37 + rank * 11) % 101) as f64 / 101.0 * 1e-3;
            0.03 + noise + if step % 10 == 9 { longer[rank] } else { 0.0 }
        };
        steps(&(0..50).map(|step| [time(step, 0), time(step, 1)]).collect::<Vec<_>>())
    }

    #[test]
    fn pauses_of_one_rank_name_it() {
        let found = pauses(&tenth([0.3, 0.0]), true).unwrap();
        assert_eq!((found.who, found.every, found.steps), (Who::Rank(0), Some(10), vec![19, 29, 39, 49, 59]));
        assert!((found.share - 0.495).abs() < 0.01 && (found.lost_s_per_step - 0.03).abs() < 1e-3, "{}", found.share);
        assert_eq!(pauses(&tenth([0.3, 0.0]), false).unwrap().who, Who::Unknown);
    }

    #[test]
    fn pauses_of_all_ranks_name_none() {
        assert_eq!(pauses(&tenth([0.3, 0.31]), true).unwrap().who, Who::All);
        assert_eq!(pauses(&tenth([0.0, 0.0]), true), None);
        let turns: Vec<[f64; 2]> = (0..50)
            .map(|step| [if step % 20 == 9 { 0.3 } else { 0.03 }, if step % 20 == 19 { 0.3 } else { 0.03 }])
            .collect();
        assert_eq!(pauses(&steps(&turns), true).unwrap().who, Who::InTurn);
        assert_eq!(pauses(&steps(&turns[..12]), true), None, "one long step is an event");
        assert_eq!(pauses(&steps(&turns[..30]), true).unwrap().who, Who::InTurn, "two are one of each");
        let two: Vec<[f64; 2]> =
            (0..30).map(|step| [if step % 10 == 9 && step < 20 { 0.3 } else { 0.03 }, 0.03]).collect();
        assert_eq!(pauses(&steps(&two), true).unwrap().who, Who::Unknown, "two of one rank may be chance");
    }

    /// Blips of the other rank, and one pause that is not seen, change neither who pauses nor how often.
    #[test]
    fn blips_do_not_hide_pauses() {
        let time = |step: usize, rank: usize| match (step % 10, rank) {
            (9, 0) if step != 29 => 0.33,
            (4, 1) => 0.06,
            _ => 0.03,
        };
        let found =
            pauses(&steps(&(0..60).map(|step| [time(step, 0), time(step, 1)]).collect::<Vec<_>>()), true).unwrap();
        assert_eq!((found.who, found.every, found.steps.len()), (Who::Rank(0), Some(10), 5));
    }

    /// All ranks collect garbage, and one has more of it.
    #[test]
    fn the_rank_that_works_longest_is_named_though_others_work_too() {
        let found = pauses(&tenth([0.3, 0.18]), true).unwrap();
        assert_eq!(found.who, Who::Rank(0));
        assert!((found.next_share.unwrap() - 0.6).abs() < 0.05, "{:?}", found.next_share);
    }

    /// All ranks save a checkpoint, and the first also writes what holds for all.
    #[test]
    fn a_little_more_to_do_than_others_in_short_pauses_names_nobody() {
        let found = pauses(&tenth([0.025, 0.016]), true).unwrap();
        assert!((found.share - 0.075).abs() < 0.01, "{}", found.share);
        assert_eq!((found.who, found.next_share), (Who::All, None));
        assert_eq!(pauses(&tenth([0.025, 0.005]), true).unwrap().who, Who::Rank(0));
    }

    /// Once, `6 of 35 steps, about one in 1` was said of a neighbour that ran for six steps.
    #[test]
    fn steps_in_a_row_have_no_period() {
        assert_eq!(every(&[20, 21, 22, 23, 24, 25]), None);
        assert_eq!(every(&[20, 22, 24, 26]), Some(2));
    }

    #[test]
    fn waits_for_a_processor_are_nobodys_work() {
        let mut busy = tenth([0.3, 0.0]);
        let waited = (0..50).map(|step| if step % 10 == 9 { 0.25 } else { 0.0 }).collect();
        busy.ranks[0].descheduled = Some(Series::new(waited));
        assert_eq!(pauses(&busy, true).unwrap().who, Who::Busy);
    }

    /// What pauses take is no more than all time, whatever single steps took.
    #[test]
    fn a_share_is_at_most_all_of_the_time() {
        let mut odd = tenth([3.0, 0.0]);
        odd.ranks.iter_mut().for_each(|rank| rank.total = Series::new(vec![0.01; 50]));
        odd.step = Series::new(vec![0.01; 50]);
        odd.ranks[0].blocked = Series::new((0..50).map(|step| if step % 10 == 9 { -9.0 } else { 0.0 }).collect());
        assert!(pauses(&odd, true).is_none_or(|found| found.share <= 1.0));
    }

    #[test]
    fn rates_have_lower_bounds() {
        // Of one event, the rate is 0.0513 at least (95%); of five, 1.970 (95%) and 1.279 (99%).
        for (events, confidence, rate) in [(1, 0.95, 0.0513), (5, 0.95, 1.970), (5, 0.99, 1.279)] {
            let found = lowest_rate(events, confidence) * events as f64;
            assert!((found - rate).abs() < 2e-3, "{events} {confidence}: {found}");
        }
    }
}
