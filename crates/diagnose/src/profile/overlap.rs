//! How much communication computation hides, and the parts that a step's time consists of.

use serde::Serialize;

use super::instances::Instances;
use super::intervals::Intervals;
use super::lanes::{CommonSteps, Lanes, Window};
use super::series::{Series, mean};
use super::steps::Steps;

/// Overlap of communication with computation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Overlap {
    /// Communication per step, mean over ranks: |union(comm)|.
    pub comm_s: Series,
    /// Exposed communication per step, mean over ranks: |union(comm) minus union(compute)|.
    pub exposed_s: Series,
    /// |union(comm) and union(compute)| / |union(comm)| over all ranks and steps; None without communication.
    pub overlapped_share: Option<f64>,
    /// Rank by rank.
    pub ranks: Vec<RankOverlap>,
}

/// Overlap on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankOverlap {
    /// Which rank.
    pub rank: u32,
    /// Seconds of communication, as in [`Overlap`].
    pub comm_s: Series,
    /// Seconds of communication that nothing overlaps, as in [`Overlap`].
    pub exposed_s: Series,
    /// Share of communication that is overlapped, as in [`Overlap`].
    pub overlapped_share: Option<f64>,
}

/// Where a step's time goes: disjoint parts, mean over ranks and steps, in seconds per step. They add up to the mean step.
///
/// With kernels, the device's time counts first, then communication that no kernel overlaps, then input, and the rest is
/// `host`. Without, it is the step's thread: waits, input, phases, and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// The step time: mean over steps of the largest over ranks.
    pub step_s: f64,
    /// Kernels, or phases without waits.
    pub compute_s: f64,
    /// Waiting for data.
    pub input_s: f64,
    /// The rest of a step.
    pub host_s: f64,
    /// Exposed communication in which bytes move.
    pub transfer_s: f64,
    /// Exposed communication before the last rank enters a collective: the first `duration - transfer` of it.
    pub arrival_wait_s: f64,
    /// Exposed communication in send and recv.
    pub bubble_s: f64,
    /// What late ranks make the others wait, by what the latest rank lost: in compute, input and host. It is part of
    /// `arrival_wait_s`.
    pub waits_for_s: [f64; 3],
}

/// Exposed communication of each rank, step by step.
pub(super) struct Exposed {
    transfer: Vec<f64>,
    arrival: Vec<f64>,
    bubble: Vec<f64>,
}

/// Measures the overlap.
pub(super) fn overlap(prepared: &CommonSteps) -> Overlap {
    let share = |comm: f64, exposed: f64| (comm > 0.0).then(|| (1.0 - exposed / comm).clamp(0.0, 1.0));
    let of_rank = |lanes: &Lanes| {
        let comm_s = Series::new(lanes.per_step(&lanes.comm));
        let exposed_s = Series::new(lanes.per_step(&lanes.comm.minus(&lanes.compute)));
        let overlapped_share = share(comm_s.mean(), exposed_s.mean());
        RankOverlap { rank: lanes.timeline.rank, comm_s, exposed_s, overlapped_share }
    };
    let ranks: Vec<RankOverlap> = prepared.ranks.iter().map(of_rank).collect();
    let comm_s = Series::mean_of(ranks.iter().map(|rank| &rank.comm_s));
    let exposed_s = Series::mean_of(ranks.iter().map(|rank| &rank.exposed_s));
    let overlapped_share = share(comm_s.mean(), exposed_s.mean());
    Overlap { comm_s, exposed_s, overlapped_share, ranks }
}

/// Splits the exposed communication of each rank.
pub(super) fn exposed(prepared: &CommonSteps, instances: &Instances) -> Vec<Exposed> {
    let mut waits: Vec<Vec<Window>> = vec![Vec::new(); prepared.ranks.len()];
    for instance in instances.all.iter().filter(|instance| instance.tells_waits()) {
        let transfer = instance.transfer();
        for member in &instance.members {
            waits[member.rank].push([member.begin, member.end - transfer]);
        }
    }
    let of_rank = |(lanes, waits): (&Lanes, Vec<Window>)| {
        let in_pairs = lanes.blocked.and(&lanes.point_to_point);
        let rest = lanes.blocked.minus(&in_pairs);
        let arrival = lanes.per_step(&rest.and(&Intervals::union_of(waits)));
        let bubble = lanes.per_step(&in_pairs);
        let all = lanes.per_step(&lanes.blocked);
        let transfer = all.iter().zip(&arrival).zip(&bubble).map(|((all, arrival), bubble)| all - arrival - bubble);
        Exposed { transfer: transfer.collect(), arrival, bubble }
    };
    prepared.ranks.iter().zip(waits).map(of_rank).collect()
}

/// Seconds per step of a quantity, mean over ranks, step by step.
fn over_ranks<T>(ranks: &[T], of: impl Fn(&T) -> &[f64], step: usize) -> f64 {
    mean(&ranks.iter().map(|rank| of(rank)[step]).collect::<Vec<f64>>())
}

/// Exposed transfer of each step, mean over ranks.
pub(super) fn transfer(exposed: &[Exposed], steps: usize) -> Series {
    Series::new((0..steps).map(|step| over_ranks(exposed, |rank| &rank.transfer, step)).collect())
}

/// Exposed waits for other ranks of each step, mean over ranks.
pub(super) fn waits(exposed: &[Exposed], steps: usize) -> Series {
    Series::new((0..steps).map(|step| over_ranks(exposed, |rank| &rank.arrival, step)).collect())
}

/// Exposed time in send and recv of each step, mean over ranks.
pub(super) fn bubble(exposed: &[Exposed], steps: usize) -> Series {
    Series::new((0..steps).map(|step| over_ranks(exposed, |rank| &rank.bubble, step)).collect())
}

/// The parts of the mean step.
pub(super) fn parts(prepared: &CommonSteps, steps: &Steps, exposed: &[Exposed]) -> Parts {
    let count = steps.numbers.len();
    if count == 0 || exposed.is_empty() {
        return Parts::default();
    }
    let own: Vec<[Vec<f64>; 3]> = prepared.ranks.iter().zip(&steps.ranks).map(own_parts).collect();
    let average = |of: &dyn Fn(usize) -> f64| (0..count).map(of).sum::<f64>() / count as f64;
    let part = |which: usize| average(&|step| over_ranks(&own, |rank| &rank[which], step));
    let arrival = |step| over_ranks(exposed, |rank| &rank.arrival, step);
    let mut waits_for_s = [0.0; 3];
    for step in 0..count {
        for (sum, share) in waits_for_s.iter_mut().zip(causes(&own, arrival(step), step)) {
            *sum += share / count as f64;
        }
    }
    Parts {
        step_s: steps.step.mean(),
        compute_s: part(0),
        input_s: part(1),
        host_s: part(2),
        transfer_s: average(&|step| over_ranks(exposed, |rank| &rank.transfer, step)),
        arrival_wait_s: average(&arrival),
        bubble_s: average(&|step| over_ranks(exposed, |rank| &rank.bubble, step)),
        waits_for_s,
    }
}

/// Compute, input and host of a rank, step by step: disjoint, and apart from what is lost to communication.
fn own_parts((lanes, steps): (&Lanes, &super::steps::RankSteps)) -> [Vec<f64>; 3] {
    let compute = lanes.per_step(&lanes.compute);
    let input = lanes.per_step(&lanes.input.minus(&lanes.kernels).minus(&lanes.blocked));
    let work = steps.work();
    let rest = |step: usize| (work[step] - compute[step] - input[step]).max(0.0);
    let host = (0..compute.len()).map(rest).collect();
    [compute, input, host]
}

/// What part of a step's waits its latest rank caused, in compute, input and host: what it lost against the median of the
/// others there, times the share of ranks that waited for it, and at most all that was waited.
fn causes(own: &[[Vec<f64>; 3]], waited: f64, step: usize) -> [f64; 3] {
    let work = |rank: &[Vec<f64>; 3]| rank.iter().map(|part| part[step]).sum::<f64>();
    let late = (0..own.len()).max_by(|a, b| work(&own[*a]).total_cmp(&work(&own[*b])));
    let Some(late) = late.filter(|_| own.len() > 1) else { return [0.0; 3] };
    let excess = |part: usize| {
        let others: Vec<f64> = (0..own.len()).filter(|rank| *rank != late).map(|rank| own[rank][part][step]).collect();
        (own[late][part][step] - stats::median(&others)).max(0.0)
    };
    let lost = [excess(0), excess(1), excess(2)];
    let waiting = (own.len() - 1) as f64 / own.len() as f64;
    let sum = lost.iter().sum::<f64>() * waiting;
    let scale = if sum > waited { waited / sum } else { 1.0 };
    lost.map(|part| part * waiting * scale)
}
