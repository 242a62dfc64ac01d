//! Steps that take much longer than the others: checkpoints, evaluation, garbage collection.
//!
//! They are facts about the steps that were traced, and no test of ranks. A rank is named where only its own work is longer in
//! these steps.

use serde::Serialize;

use super::steps::{RankSteps, Steps};

/// A pause makes a step longer by so much of the median step at least.
const LONGER: f64 = 0.5;
/// And by so many deviations.
const OUT_OF_LINE: f64 = 6.0;
/// A robust deviation below the median, as a quantile of a normal law.
const ONE_DEVIATION_BELOW: f64 = 0.158_655;
/// One long step is a single event.
const FEWEST: usize = 2;
/// With more of them, steps vary, and none is a pause.
const MOST_SHARE: f64 = 0.34;
/// Pauses that take less of the time matter to nobody.
const SMALLEST_SHARE: f64 = 0.02;
/// A rank works in a pause if its own work is longer by so much of it.
const OWN_SHARE: f64 = 0.5;

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
    /// The trace does not show when ranks wait, or it has one rank.
    Unknown,
}

/// Steps that take much longer than the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pauses {
    /// Their numbers.
    pub steps: Vec<u32>,
    /// Steps from one to the next, where that is always the same.
    pub every: Option<u32>,
    /// Who works in them.
    pub who: Who,
    /// The median of what a step with one takes, in seconds.
    pub long_s: f64,
    /// The median step.
    pub usual_s: f64,
    /// What they take beyond a usual step, as a share of the time of all steps.
    pub share: f64,
    /// The same in seconds per step.
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
    let long: Vec<usize> = (0..times.len()).filter(|step| times[*step] - middle > least).collect();
    if long.len() < FEWEST || long.len() as f64 > MOST_SHARE * times.len() as f64 {
        return None;
    }
    let longer: Vec<f64> = long.iter().map(|step| times[*step] - middle).collect();
    // All ranks take the same time in the end; in one step they may not.
    let totals: f64 = steps.ranks.iter().map(|rank| rank.total.values.iter().sum::<f64>()).sum();
    let lost: f64 = longer.iter().sum();
    let share = lost / (totals / steps.ranks.len() as f64);
    let numbers: Vec<u32> = long.iter().map(|step| steps.numbers[*step]).collect();
    (share >= SMALLEST_SHARE).then(|| Pauses {
        every: every(&numbers),
        who: if by_work { who(steps, &works, &long, &longer) } else { Who::Unknown },
        steps: numbers,
        long_s: usual_s + stats::median(&longer),
        usual_s,
        share,
        lost_s_per_step: lost / times.len() as f64,
    })
}

/// The distance of these numbers, if it is always the same; two have no pattern.
fn every(numbers: &[u32]) -> Option<u32> {
    let mut distances = numbers.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let first = distances.next()?;
    (numbers.len() > 2 && distances.all(|distance| distance == first)).then_some(first)
}

/// The ranks that work longer in these steps. `longer`: by how much the longest of them does.
fn who(steps: &Steps, works: &[Vec<f64>], long: &[usize], longer: &[f64]) -> Who {
    let usual: Vec<f64> = works.iter().map(|work| stats::median(work)).collect();
    let in_step = |(step, longer): (&usize, &f64)| -> Vec<usize> {
        (0..works.len()).filter(|rank| works[*rank][*step] - usual[*rank] >= OWN_SHARE * longer).collect()
    };
    let all: Vec<Vec<usize>> = long.iter().zip(longer).map(in_step).collect();
    if all.iter().all(|ranks| ranks.len() == works.len()) {
        return Who::All;
    }
    match &all[0][..] {
        [rank] if all.iter().all(|ranks| ranks == &all[0]) => Who::Rank(steps.ranks[*rank].rank),
        _ => Who::InTurn,
    }
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
