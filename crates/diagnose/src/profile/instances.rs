//! Which collective calls of different ranks belong together, and whether the clocks of the ranks agree on them.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use trace::timeline::{Kind, NameId, ONE_OF_SEVERAL, Timeline};

use super::lanes::CommonSteps;

/// Clocks are aligned when their error is at most this share of the mean wait.
const SMALL_ERROR: f64 = 0.1;
/// Clocks jump when a rank leaves before the last one enters in more than this share of collectives.
const MOST_VIOLATIONS: f64 = 0.01;
/// Time stamps are rounded to this, in nanoseconds.
const ROUNDING_NS: i64 = 1_000;

/// Communicators that are named in notes; of more, the number is said.
const NAMED: usize = 16;

/// One rank's part of an instance.
#[derive(Clone, Copy, Debug)]
pub(super) struct InstanceMember {
    /// The place of the rank in the timeline.
    pub(super) rank: usize,
    /// Where its rank ran it.
    pub(super) queue: u32,
    pub(super) begin: i64,
    pub(super) end: i64,
}

impl InstanceMember {
    pub(super) fn duration(&self) -> i64 {
        self.end - self.begin
    }
}

/// One collective, with all ranks of the timeline that took part.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) group: NameId,
    pub(super) operation: NameId,
    /// The place of its step among the common ones.
    pub(super) step: usize,
    pub(super) bytes: Option<u64>,
    pub(super) synchronises: bool,
    /// Ranks of the communicator.
    pub(super) size: Option<u32>,
    pub(super) members: Vec<InstanceMember>,
}

impl Instance {
    /// The time that moving the bytes takes: the shortest duration over ranks.
    pub(super) fn transfer(&self) -> i64 {
        self.members.iter().map(InstanceMember::duration).min().unwrap_or(0)
    }

    /// The member that entered last: by time with aligned clocks, else the one with the shortest duration, because all leave
    /// together. None where that is a tie.
    pub(super) fn last(&self, aligned: bool) -> Option<&InstanceMember> {
        let key = |member: &&InstanceMember| if aligned { -member.begin } else { member.duration() };
        let last = self.members.iter().min_by_key(key)?;
        let ties = self.members.iter().filter(|member| key(member) == key(&last)).count();
        (ties == 1).then_some(last)
    }

    /// Whether it shows waits.
    pub(super) fn tells_waits(&self) -> bool {
        self.synchronises && self.members.len() > 1
    }

    /// The mean wait of its members, in nanoseconds: duration minus transfer.
    pub(super) fn mean_wait(&self) -> f64 {
        let transfer = self.transfer();
        self.members.iter().map(|member| member.duration() - transfer).sum::<i64>() as f64 / self.members.len() as f64
    }
}

/// Whether times of different ranks may be compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clocks {
    /// Whether they may.
    pub aligned: bool,
    /// How far two clocks may be apart, in seconds; None: not known.
    pub error_s: Option<f64>,
    /// Whether that is small against the waits, so that the order of arrivals counts.
    pub orders_arrivals: bool,
    /// Why they may not.
    pub reason: Option<String>,
}

/// All instances of the common steps.
#[derive(Debug, Default)]
pub(super) struct Instances {
    pub(super) all: Vec<Instance>,
    /// Calls in common steps that no other rank's call belongs to, though their communicator has other ranks here.
    pub(super) unmatched: usize,
    pub(super) clocks: Clocks,
    pub(super) notes: Vec<String>,
}

/// Group, operation, and either the sequence, or the step and the place in it.
type InstanceKey = (NameId, NameId, Option<usize>, u64);

/// Matches the calls of all ranks by group, operation and sequence; without a sequence, by their order within a step.
pub(super) fn instances(timeline: &Timeline, prepared: &CommonSteps) -> Instances {
    let mut found = Instances::default();
    let mut places: HashMap<InstanceKey, usize> = HashMap::new();
    // Ranks that call something at the same time need not be in one communicator, and then do not wait for each other.
    let of_any = timeline.names.find(ONE_OF_SEVERAL);
    let mut unnamed = 0_usize;
    for (rank, lanes) in prepared.ranks.iter().enumerate() {
        let mut orders: HashMap<(NameId, NameId), (usize, u64)> = HashMap::new();
        let spans = lanes.timeline.spans.iter().filter(|span| span.kind == Kind::Collective);
        for span in spans.filter(|span| span.end_ns >= span.begin_ns) {
            let Some(step) = lanes.step_at(span.begin_ns) else { continue };
            let Some(call) = lanes.timeline.call(span) else { continue };
            let is_unnamed = Some(call.group) == of_any && call.synchronises;
            unnamed += usize::from(is_unnamed);
            let key: InstanceKey = match call.sequence {
                Some(sequence) => (call.group, call.operation, None, sequence),
                None => {
                    let (last_step, order) = orders.entry((call.group, call.operation)).or_insert((step, 0));
                    if *last_step != step {
                        (*last_step, *order) = (step, 0);
                    }
                    *order += 1;
                    (call.group, call.operation, Some(step), *order)
                }
            };
            let place = *places.entry(key).or_insert(found.all.len());
            if place == found.all.len() {
                found.all.push(Instance {
                    group: call.group,
                    operation: call.operation,
                    step,
                    bytes: call.bytes,
                    synchronises: call.synchronises && !is_unnamed,
                    size: call.ranks,
                    members: Vec::with_capacity(prepared.ranks.len()),
                });
            }
            found.all[place].members.push(InstanceMember {
                rank,
                queue: span.queue,
                begin: span.begin_ns,
                end: span.end_ns,
            });
        }
    }
    leave_out_wrong(timeline, &mut found);
    if unnamed > 0 {
        found.notes.push(format!(
            "{unnamed} collective calls do not say which of several communicators they are of: who waits for whom in them is not \
             known"
        ));
    }
    found.clocks = clocks(timeline, &found.all);
    if found.clocks.error_s.is_some() {
        found.notes.extend(found.clocks.reason.clone());
    }
    found
}

/// Removes instances that cannot be one collective: with a rank twice, more ranks than the communicator has, or fewer than
/// the most that this communicator shows.
fn leave_out_wrong(timeline: &Timeline, found: &mut Instances) {
    let mut most: HashMap<NameId, usize> = HashMap::new();
    for instance in &found.all {
        let seen = most.entry(instance.group).or_insert(0);
        *seen = (*seen).max(instance.members.len());
    }
    let before = found.all.len();
    let mut wrong: BTreeSet<NameId> = BTreeSet::new();
    let mut unmatched = 0;
    found.all.retain(|instance| {
        let twice = instance.members.windows(2).any(|pair| pair[0].rank == pair[1].rank);
        let too_many = instance.size.is_some_and(|size| instance.members.len() > size as usize);
        let alone = instance.synchronises && instance.members.len() < most[&instance.group];
        if twice || too_many {
            wrong.insert(instance.group);
        }
        unmatched += if alone { instance.members.len() } else { 0 };
        !(twice || too_many || alone)
    });
    found.unmatched = unmatched;
    for group in wrong.iter().take(NAMED) {
        found.notes.push(format!(
            "communicator {}: more calls than ranks belong to one collective, so these are left out",
            timeline.names.get(*group)
        ));
    }
    if let Some(more) = wrong.len().checked_sub(NAMED).filter(|more| *more > 0) {
        found.notes.push(format!("and so {more} more communicators"));
    }
    if unmatched > 0 {
        found.notes.push(format!(
            "{unmatched} collective calls have no partner on every rank ({} of {before} collectives are used)",
            found.all.len()
        ));
    }
}

/// Judges the clocks by what cannot be: leaving a collective that synchronises before the last rank enters it.
fn clocks(timeline: &Timeline, all: &[Instance]) -> Clocks {
    let Some(error) = timeline.clock_error_ns else {
        let reason = "the clocks of the ranks are not aligned".to_owned();
        return Clocks { reason: Some(reason), ..Clocks::default() };
    };
    let (mut count, mut violations, mut waits) = (0usize, 0usize, 0.0);
    for instance in all.iter().filter(|instance| instance.tells_waits()) {
        let entered = instance.members.iter().map(|member| member.begin).max().unwrap_or(0);
        let left = instance.members.iter().map(|member| member.end).min().unwrap_or(0);
        count += 1;
        violations += usize::from(entered - left > ROUNDING_NS + error as i64);
        waits += instance.mean_wait();
    }
    let error_s = Some(error as f64 * 1e-9);
    if violations as f64 > MOST_VIOLATIONS * count as f64 {
        let reason = format!(
            "the clocks of the ranks jump: in {violations} of {count} collectives a rank leaves before the last one enters"
        );
        return Clocks { error_s, reason: Some(reason), ..Clocks::default() };
    }
    let mean_wait = if count > 0 { waits / count as f64 } else { 0.0 };
    Clocks { aligned: true, error_s, orders_arrivals: error as f64 <= SMALL_ERROR * mean_wait, reason: None }
}
