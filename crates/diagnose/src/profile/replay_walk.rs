//! Goes through the steps of a chain again, with other times of work and of transfers.

use super::instances::Instance;
use super::replay_graph::{CallEntry, Chain, PARTS, RankGraph, ReplayEvent, ReplayPoint, Wait};

/// What takes another time than recorded, as factors.
pub(super) struct Variant<'v> {
    /// Factors of the parts of a rank's own work in a step and a section of it; all by their places.
    pub(super) work: &'v dyn Fn(usize, usize, usize) -> [f64; PARTS],
    /// Factor of the transfer of a collective.
    pub(super) transfer: &'v dyn Fn(&Instance) -> f64,
}

/// Nanoseconds of each step of a chain: the largest over ranks. None where the recorded order contradicts itself.
pub(super) fn walk(chain: &Chain, instances: &[Instance], variant: &Variant) -> Option<Vec<f64>> {
    let mut run = ReplayRun::new(chain, instances, variant);
    loop {
        let mut has_moved = false;
        for rank in 0..chain.ranks.len() {
            while run.moves(rank) {
                has_moved = true;
            }
        }
        let is_over = run.walkers.iter().zip(&chain.ranks).all(|(walker, rank)| walker.next == rank.points.len());
        if is_over {
            break;
        }
        if !has_moved {
            return None;
        }
    }
    let longest = |step: usize| run.walkers.iter().map(|walker| walker.lengths[step]).fold(0.0, f64::max);
    Some((0..=chain.last - chain.first).map(longest).collect())
}

struct ReplayRun<'c> {
    chain: &'c Chain,
    variant: &'c Variant<'c>,
    /// Own work of a step before ranks whose queue is free enter each collective: the median over them.
    entered_at: Vec<Option<f64>>,
    /// Transfer of each collective, how many ranks have entered it, the last entry, and its end.
    transfers: Vec<f64>,
    entered: Vec<(usize, f64)>,
    ends: Vec<Option<f64>>,
    walkers: Vec<Walker>,
}

/// Where a rank is.
#[derive(Clone, Default)]
struct Walker {
    next: usize,
    time: f64,
    /// Own work in this step.
    own: f64,
    /// The end of the last wait, or the beginning of the step.
    free_since: f64,
    /// The work before the next point is done.
    has_worked: bool,
    waits_since: f64,
    step_began: f64,
    lengths: Vec<f64>,
}

impl<'c> ReplayRun<'c> {
    fn new(chain: &'c Chain, instances: &[Instance], variant: &'c Variant<'c>) -> Self {
        let transfer =
            |call: &super::replay_graph::ReplayedCall| call.transfer * (variant.transfer)(&instances[call.instance]);
        let walker = |rank: &RankGraph| Walker { time: rank.start, free_since: rank.start, ..Walker::default() };
        Self {
            chain,
            variant,
            entered_at: entered_at(chain, variant),
            transfers: chain.calls.iter().map(transfer).collect(),
            entered: vec![(0, f64::NEG_INFINITY); chain.calls.len()],
            ends: vec![None; chain.calls.len()],
            walkers: chain.ranks.iter().map(walker).collect(),
        }
    }

    /// Goes to the next point of a rank, if what it waits for is known.
    fn moves(&mut self, rank: usize) -> bool {
        let Some(point) = self.chain.ranks[rank].points.get(self.walkers[rank].next) else { return false };
        let walker = &mut self.walkers[rank];
        if !walker.has_worked {
            let work = weighted(point, rank, self.variant);
            walker.time += work;
            walker.own += work;
            walker.has_worked = true;
        }
        let now = walker.time;
        match &point.event {
            ReplayEvent::StepBegins => {
                (walker.step_began, walker.free_since, walker.own) = (now, now, 0.0);
            }
            ReplayEvent::StepEnds => walker.lengths.push(now - walker.step_began),
            ReplayEvent::WaitBegins => walker.waits_since = now,
            ReplayEvent::Joins(calls) => {
                let Some(end) = self.latest(calls) else { return false };
                self.walkers[rank].time = now.max(end);
            }
            ReplayEvent::Enters(entry) => {
                let Some(time) = self.entry(entry, &self.walkers[rank]) else { return false };
                self.enter(entry.call, time);
            }
            ReplayEvent::WaitEnds(wait) => {
                let Some(time) = self.released(wait, self.walkers[rank].waits_since) else { return false };
                (self.walkers[rank].time, self.walkers[rank].free_since) = (time, time);
            }
        }
        let walker = &mut self.walkers[rank];
        walker.next += 1;
        walker.has_worked = false;
        true
    }

    /// When the last of these ends; None where that is not known yet.
    fn latest(&self, calls: &[usize]) -> Option<f64> {
        calls.iter().try_fold(f64::NEG_INFINITY, |latest, call| Some(self.ends[*call]?.max(latest)))
    }

    fn enter(&mut self, call: usize, time: f64) {
        let (count, latest) = &mut self.entered[call];
        *count += 1;
        *latest = latest.max(time);
        if *count == self.chain.calls[call].members {
            self.ends[call] = Some(*latest + self.transfers[call]);
        }
    }

    /// When a rank enters a collective; None where that is not known yet.
    fn entry(&self, entry: &CallEntry, walker: &Walker) -> Option<f64> {
        let previous = match entry.previous {
            Some((call, gap)) => Some((self.ends[call]?, gap)),
            None => None,
        };
        Some(match (entry.in_wait, previous) {
            (Some(_), Some((end, gap))) => walker.waits_since.max(end + gap),
            (Some(after), None) => walker.waits_since + after,
            (None, Some((end, gap))) if entry.is_queued => {
                // The rank may have been ready before: where the others, whose queue was free, entered.
                let earlier = self.entered_at[entry.call].map_or(0.0, |own| (walker.own - own).max(0.0));
                (walker.time - earlier).max(walker.free_since).max(end + gap)
            }
            (None, Some((end, _))) => walker.time.max(end),
            (None, None) => walker.time,
        })
    }

    /// When a wait ends; None where that is not known yet.
    fn released(&self, wait: &Wait, since: f64) -> Option<f64> {
        let time = match (wait.ends.is_empty(), wait.under_way) {
            (false, _) => (self.latest(&wait.ends)? + wait.rest).max(since),
            (true, Some((call, left))) => (self.ends[call]? - left).max(since),
            (true, None) => since + wait.length,
        };
        Some(time.max(self.latest(&wait.before)?))
    }
}

fn weighted(point: &ReplayPoint, rank: usize, variant: &Variant) -> f64 {
    let factors = point.step.map_or([1.0; PARTS], |step| (variant.work)(rank, step, point.section));
    point.work.iter().zip(factors).map(|(time, factor)| time * factor).sum()
}

fn entered_at(chain: &Chain, variant: &Variant) -> Vec<Option<f64>> {
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); chain.calls.len()];
    for (rank, graph) in chain.ranks.iter().enumerate() {
        let mut own = 0.0;
        for point in &graph.points {
            own += weighted(point, rank, variant);
            match &point.event {
                ReplayEvent::StepBegins => own = 0.0,
                ReplayEvent::Enters(entry) if !entry.is_queued && entry.in_wait.is_none() => {
                    found[entry.call].push(own)
                }
                _ => {}
            }
        }
    }
    found.iter().map(|own| (!own.is_empty()).then(|| stats::median(own))).collect()
}
