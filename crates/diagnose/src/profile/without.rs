//! How long a step would take without a slow rank, a phase or a slow exchange: replays with the work and the transfers that the
//! others have.
//!
//! A slow rank's times are replaced by those of the other ranks with the same order: its k-th longest backward pass takes as long
//! as the k-th longest of the median rank. The median of the others in the same step would leave the rank without noise of its
//! own, and steps that wait for the slowest rank would be too short.

use super::instances::Instance;
use super::replay::Replayer;
use super::replay_graph::PARTS;
use super::replay_walk::Variant;
use super::series::{in_their_place, mean, mean_bounds, pessimistic_bounds};
use super::slow_exchange::SlowExchange;
use super::step_without::{Typical, Without};
use super::straggler::{Phase, Straggler};

/// Without slow ranks: each works as long as the ranks that are not slow. `all`: every slow rank of the job.
pub(super) fn slow_ranks(replayer: &Replayer, slow: &[&Straggler], all: &[Straggler]) -> Option<Without> {
    let ranks: Vec<u32> = replayer.prepared.ranks.iter().map(|lanes| lanes.timeline.rank).collect();
    let place_of = |rank: u32| ranks.iter().position(|of| *of == rank);
    let is_slow = |place: usize| all.iter().any(|one| one.rank == ranks[place]);
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

/// If moving bytes took no time. On average over all steps, as the shares next to it are: a job that communicates in every fifth
/// step has a median without transfers. Of few steps the mean has no interval.
pub(super) fn transfers(replayer: &Replayer) -> Option<Without> {
    let variant = Variant { work: &|_, _, _| [1.0; PARTS], transfer: &|_| 0.0 };
    without(replayer, &variant, Typical::Mean).or_else(|| without(replayer, &variant, Typical::Median))
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
    let recorded_s = typical(recorded);
    // Without it a step takes no longer: what a replay gives beyond that is its error.
    let step_s = typical(&steps).min(recorded_s);
    let saves_s = recorded_s - step_s;
    let share = saves_s / recorded_s.max(f64::MIN_POSITIVE);
    Some(Without { of, step_s, ci95: ci95?, recorded_s, saves_s, share, mean_saves_s: mean(&savings).max(0.0) })
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
