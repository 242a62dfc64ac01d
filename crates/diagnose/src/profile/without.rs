//! How long a step would take without a slow rank, a phase or a slow exchange: replays with the work and the transfers that the
//! others have.
//!
//! A slow rank's times are replaced by those of the other ranks with the same order: its k-th longest backward pass takes as long
//! as the k-th longest of the median rank. The median of the others in the same step would leave the rank without noise of its
//! own, and steps that wait for the slowest rank would be too short.

use std::fmt;

use serde::Serialize;
use terms::Seconds;

use super::Analysis;
use super::instances::Instance;
use super::replay::{PARTS, Replayer, Variant};
use super::series::{mean, mean_bounds, pessimistic_bounds};
use super::slow_exchange::SlowExchange;
use super::straggler::{Phase, Straggler};

/// Which step a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Typical {
    /// The median step.
    Median,
    /// The mean step: what hits some steps only does not move the median.
    Mean,
}

/// How long a step would take without something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Without {
    /// Which step.
    pub of: Typical,
    /// Seconds of a step without it.
    pub step_s: f64,
    /// The 95% interval over steps.
    pub ci95: [f64; 2],
    /// Seconds of the same steps as recorded.
    pub recorded_s: f64,
    /// What a step would save, in seconds.
    pub saves_s: f64,
    /// The same as a share of a recorded step.
    pub share: f64,
}

/// `a step would take 180 ms instead of 217 ms (178 ms to 182 ms)`.
impl fmt::Display for Without {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = if self.of == Typical::Mean { "a mean step" } else { "a step" };
        let [low, high] = self.ci95.map(Seconds);
        let (after, before) = (Seconds(self.step_s), Seconds(self.recorded_s));
        write!(f, "{step} would take {after} instead of {before} ({low} to {high})")
    }
}

/// Without slow ranks: each works as long as the ranks that are not slow.
pub(super) fn slow_ranks(replayer: &Replayer, slow: &[&Straggler], analysis: &Analysis) -> Option<Without> {
    let ranks = &analysis.steps.ranks;
    let place_of = |rank: u32| ranks.iter().position(|of| of.rank == rank);
    let is_slow = |place: usize| analysis.stragglers.iter().any(|one| one.rank == ranks[place].rank);
    let mut factors: Vec<Option<Vec<Vec<[f64; PARTS]>>>> = vec![None; ranks.len()];
    for one in slow {
        let rank = place_of(one.rank)?;
        let mut others: Vec<usize> = (0..ranks.len()).filter(|other| !is_slow(*other)).collect();
        if others.is_empty() {
            others = (0..ranks.len()).filter(|other| *other != rank).collect();
        }
        factors[rank] = Some(as_others(replayer, rank, &others, one));
    }
    let work = |rank: usize, step: usize, section: usize| {
        factors[rank].as_ref().map_or([1.0; PARTS], |of_rank| of_rank[section][step])
    };
    let of = if slow.iter().all(|one| one.persistent) { Typical::Median } else { Typical::Mean };
    without(replayer, &Variant { work: &work, transfer: &|_| 1.0 }, of)
}

/// Without waiting for data on any rank.
pub(super) fn input(replayer: &Replayer) -> Option<Without> {
    let mut none = [1.0; PARTS];
    none[0] = 0.0;
    without(replayer, &Variant { work: &|_, _, _| none, transfer: &|_| 1.0 }, Typical::Median)
}

/// If moving bytes took no time.
pub(super) fn transfers(replayer: &Replayer) -> Option<Without> {
    without(replayer, &Variant { work: &|_, _, _| [1.0; PARTS], transfer: &|_| 0.0 }, Typical::Median)
}

/// If a communicator moved its bytes as fast as the others.
pub(super) fn slow_exchange(replayer: &Replayer, slow: &SlowExchange) -> Option<Without> {
    let transfer = |instance: &Instance| {
        let is_slow = instance.group == slow.group_id && instance.operation == slow.operation_id;
        if is_slow && instance.bytes == slow.bytes { slow.factors[instance.step] } else { 1.0 }
    };
    without(replayer, &Variant { work: &|_, _, _| [1.0; PARTS], transfer: &transfer }, Typical::Median)
}

fn without(replayer: &Replayer, variant: &Variant, of: Typical) -> Option<Without> {
    let savings = replayer.savings(variant)?;
    let recorded = &replayer.recorded;
    let steps: Vec<f64> = recorded.iter().zip(&savings).map(|(recorded, saved)| recorded - saved).collect();
    let (typical, ci95): (fn(&[f64]) -> f64, _) = match of {
        Typical::Median => {
            let interval = stats::median_interval(&steps).map(|interval| [interval.low, interval.high]);
            (stats::median, interval.or_else(|| pessimistic_bounds(&steps, 0.05)))
        }
        Typical::Mean => (mean, mean_bounds(&steps, 0.05)),
    };
    let (step_s, recorded_s) = (typical(&steps), typical(recorded));
    let saves_s = recorded_s - step_s;
    Some(Without { of, step_s, ci95: ci95?, recorded_s, saves_s, share: saves_s / recorded_s.max(f64::MIN_POSITIVE) })
}

/// The place of a phase among the parts.
fn part_of(phase: Phase) -> usize {
    match phase {
        Phase::Input => 0,
        Phase::Forward | Phase::Device => 1,
        Phase::Backward => 2,
        Phase::Optimizer => 3,
        Phase::Host => 4,
    }
}

/// Factors that make a rank's work in each section and step that of the others.
fn as_others(replayer: &Replayer, rank: usize, others: &[usize], slow: &Straggler) -> Vec<Vec<[f64; PARTS]>> {
    let theirs: Vec<Vec<[Vec<f64>; PARTS]>> = others.iter().map(|other| replayer.work(*other)).collect();
    let of_section = |(section, own): (usize, &[Vec<f64>; PARTS])| {
        let mut factors = vec![[1.0; PARTS]; own[0].len()];
        for (part, own) in own.iter().enumerate() {
            // Where the whole work shows nothing, only the phase that does is replaced.
            if slow.only_in_phase.is_some() && part != part_of(slow.phase) {
                continue;
            }
            let theirs: Vec<&[f64]> = theirs.iter().map(|rank| rank[section][part].as_slice()).collect();
            for (step, factor) in in_their_place(own, &theirs).into_iter().enumerate() {
                factors[step][part] = factor;
            }
        }
        factors
    };
    replayer.work(rank).iter().enumerate().map(of_section).collect()
}

/// Factors that replace values by those of others with the same order: the median over the others.
pub(super) fn in_their_place(own: &[f64], others: &[&[f64]]) -> Vec<f64> {
    let sorted: Vec<Vec<f64>> = others.iter().map(|values| stats::sorted(values)).collect();
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by(|a, b| own[*a].total_cmp(&own[*b]));
    let mut factors = vec![1.0; own.len()];
    for (place, step) in order.into_iter().enumerate() {
        let like: Vec<f64> = sorted.iter().map(|values| values[place]).collect();
        if own[step] > 0.0 && !like.is_empty() {
            factors[step] = stats::median(&like) / own[step];
        }
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_takes_as_long_as_the_longest_of_the_others() {
        let factors = in_their_place(&[8.0, 4.0, 0.0], &[&[1.0, 2.0, 3.0], &[3.0, 1.0, 2.0]]);
        assert_eq!(factors, [3.0 / 8.0, 0.5, 1.0]);
        assert_eq!(in_their_place(&[1.0], &[]), [1.0]);
    }

    #[test]
    fn it_reads_as_a_sentence() {
        let without = Without {
            of: Typical::Median,
            step_s: 0.18,
            ci95: [0.178, 0.182],
            recorded_s: 0.217,
            saves_s: 0.037,
            share: 0.17,
        };
        assert_eq!(without.to_string(), "a step would take 180 ms instead of 217 ms (178 ms to 182 ms)");
    }
}
