//! The critical path of each step: the chain of work and transfers that its end had to wait for.
//!
//! It is followed backwards from the end of the rank that ends last. Where that rank waited in a collective, the path goes to
//! the rank that entered last, at the time at which it entered. This compares times of ranks, so clocks must be aligned.

use std::collections::BTreeMap;

use serde::Serialize;
use trace::timeline::Kind;

use super::Settings;
use super::instances::{Instance, Instances};
use super::intervals::Intervals;
use super::lanes::{CommonSteps, Lanes, Window};

/// The critical paths of all steps together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalPath {
    /// Length of the paths in seconds per step.
    pub length_s: f64,
    /// By rank and kind, the most time first. They add up to the length.
    pub parts: Vec<PathPart>,
}

/// Time of the path on one rank, of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathPart {
    /// Which rank.
    pub rank: u32,
    /// A phase, `kernel`, `host`; `collective`: bytes move; `wait`: blocked, and no matched collective says for what.
    pub kind: Kind,
    /// Seconds per step.
    pub s_per_step: f64,
    /// Share of the length.
    pub share: f64,
}

/// One rank's place in a collective, for the search by end.
struct PlaceInCall {
    begin: i64,
    end: i64,
    instance: usize,
}

/// What the search needs.
struct Paths<'p> {
    ranks: &'p [Lanes<'p>],
    instances: &'p [Instance],
    /// Parts of each rank, ordered by end.
    parts: Vec<Vec<PlaceInCall>>,
    kinds: Vec<Vec<(Kind, Intervals)>>,
    found: BTreeMap<(usize, Kind), i64>,
}

/// The critical path, or why there is none.
pub(super) fn critical_path(
    prepared: &CommonSteps,
    instances: &Instances,
    step_s: f64,
    settings: &Settings,
) -> Result<CriticalPath, String> {
    if prepared.numbers.is_empty() {
        return Err("no step is on all ranks".to_owned());
    }
    if prepared.ranks.len() > 1 {
        let clocks = &instances.clocks;
        if let Some(reason) = &clocks.reason {
            return Err(reason.clone());
        }
        let error = clocks.error_s.unwrap_or(0.0);
        if error > settings.minimum_share * step_s {
            return Err(format!(
                "clocks may be {:.1} us apart, which is too much for steps of this length",
                error * 1e6
            ));
        }
    }
    let mut paths = Paths {
        ranks: &prepared.ranks,
        instances: &instances.all,
        parts: parts_of(prepared, &instances.all),
        kinds: prepared.ranks.iter().map(kinds_of).collect(),
        found: BTreeMap::new(),
    };
    let length: i64 = (0..prepared.numbers.len()).map(|step| paths.follow(step)).sum();
    Ok(paths.summed(length, prepared.numbers.len()))
}

fn parts_of(prepared: &CommonSteps, instances: &[Instance]) -> Vec<Vec<PlaceInCall>> {
    let mut parts: Vec<Vec<PlaceInCall>> = prepared.ranks.iter().map(|_| Vec::new()).collect();
    for (place, instance) in instances.iter().enumerate().filter(|(_, instance)| instance.tells_waits()) {
        for member in &instance.members {
            parts[member.rank].push(PlaceInCall { begin: member.begin, end: member.end, instance: place });
        }
    }
    parts.iter_mut().for_each(|of_rank| of_rank.sort_unstable_by_key(|part| part.end));
    parts
}

/// Disjoint kinds of own work.
fn kinds_of(lanes: &Lanes) -> Vec<(Kind, Intervals)> {
    if lanes.has_device() {
        let input = lanes.input.minus(&lanes.kernels).minus(&lanes.blocked);
        return vec![(Kind::Kernel, lanes.kernels.clone()), (Kind::Input, input)];
    }
    let phases = [
        (Kind::Input, &lanes.input),
        (Kind::Forward, &lanes.forward),
        (Kind::Backward, &lanes.backward),
        (Kind::Optimizer, &lanes.optimizer),
    ];
    phases.into_iter().map(|(kind, of)| (kind, of.clone())).collect()
}

impl Paths<'_> {
    /// Follows the path of one step backwards, and gives its length.
    fn follow(&mut self, step: usize) -> i64 {
        let ends = |rank: &usize| self.ranks[*rank].windows[step][1];
        let Some(mut rank) = (0..self.ranks.len()).max_by_key(ends) else { return 0 };
        let last = ends(&rank);
        let mut time = last;
        loop {
            let begin = self.ranks[rank].windows[step][0];
            if time <= begin {
                break;
            }
            let blocked = self.ranks[rank].blocked.last_before(time).filter(|[_, end]| *end > begin);
            let Some([from, until]) = blocked else {
                self.work(rank, [begin, time]);
                time = begin;
                break;
            };
            self.work(rank, [until, time]);
            (rank, time) = self.through(rank, [from.max(begin), until]);
        }
        last - time
    }

    /// Goes backwards through a stretch in which a rank is blocked: to the beginning of it, or to the last rank to enter.
    fn through(&mut self, rank: usize, [from, until]: Window) -> (usize, i64) {
        let parts = &self.parts[rank];
        let after = parts.partition_point(|part| part.end <= until);
        // The collective that ends last in it; else the next one, if this stretch is the first part of it.
        let within = after.checked_sub(1).map(|place| &parts[place]).filter(|part| part.end > from);
        let Some(part) = within.or_else(|| parts.get(after).filter(|part| part.begin < until)) else {
            self.add(rank, Kind::Wait, until - from);
            return (rank, from);
        };
        let own_begin = part.begin.max(from);
        let last = self.instances[part.instance].members.iter().max_by_key(|member| member.begin);
        if let Some(last) = last.filter(|last| last.rank != rank && last.begin > own_begin && last.begin < until) {
            self.add(rank, Kind::Collective, until - last.begin);
            return (last.rank, last.begin);
        }
        // It was the last itself: from its own entering on bytes moved.
        let back_to = if own_begin < until { own_begin } else { from };
        self.add(rank, Kind::Collective, until - back_to);
        (rank, back_to)
    }

    fn work(&mut self, rank: usize, [begin, end]: Window) {
        let found: Vec<(Kind, i64)> =
            self.kinds[rank].iter().map(|(kind, of)| (*kind, of.within(begin, end))).collect();
        let named: i64 = found.iter().map(|(_, time)| time).sum();
        for (kind, time) in found {
            self.add(rank, kind, time);
        }
        self.add(rank, Kind::Host, end - begin - named);
    }

    fn add(&mut self, rank: usize, kind: Kind, time: i64) {
        if time > 0 {
            *self.found.entry((rank, kind)).or_insert(0) += time;
        }
    }

    fn summed(self, length: i64, steps: usize) -> CriticalPath {
        let part = |((rank, kind), time): (&(usize, Kind), &i64)| PathPart {
            rank: self.ranks[*rank].timeline.rank,
            kind: *kind,
            s_per_step: *time as f64 * 1e-9 / steps as f64,
            share: if length > 0 { *time as f64 / length as f64 } else { 0.0 },
        };
        let mut parts: Vec<PathPart> = self.found.iter().map(part).collect();
        parts.sort_by(|a, b| b.s_per_step.total_cmp(&a.s_per_step));
        CriticalPath { length_s: length as f64 * 1e-9 / steps as f64, parts }
    }
}
