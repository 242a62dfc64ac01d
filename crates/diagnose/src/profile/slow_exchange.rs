//! Communicators that move their bytes slower than the others that send the same: the test of slow ranks, on transfers.

use std::collections::BTreeMap;

use trace::timeline::{NameId, Names};

use super::MINIMUM_STEPS;
use super::Settings;
use super::instances::{Instance, Instances};
use super::lanes::CommonSteps;
use super::lateness::{Question, Times, judge};
use super::series::in_their_place;

/// A communicator that is slower.
pub(super) struct SlowExchange {
    pub(super) group: String,
    pub(super) operation: String,
    pub(super) group_id: NameId,
    pub(super) operation_id: NameId,
    pub(super) bytes: Option<u64>,
    /// The ranks of it that the timeline has.
    pub(super) ranks: Vec<u32>,
    /// Seconds of a step in which its bytes move: the median, and that of the other communicators.
    pub(super) own_s: f64,
    pub(super) others_s: f64,
    /// Seconds in which its bytes move, for each step.
    pub(super) values: Vec<f64>,
    /// What makes its transfers in each step those of the others.
    pub(super) factors: Vec<f64>,
    pub(super) confidence: f64,
}

/// What communicators must have in common to be compared: operation, bytes and ranks of a call.
type Alike = (NameId, Option<u64>, usize);

/// Transfers of one communicator.
struct Transfers<'i> {
    first: &'i Instance,
    /// Seconds of transfers in each step.
    seconds: Vec<f64>,
}

impl<'i> Transfers<'i> {
    fn new(calls: &[&'i Instance], steps: usize) -> Self {
        let mut seconds = vec![0.0; steps];
        for instance in calls {
            seconds[instance.step] += instance.transfer() as f64 * 1e-9;
        }
        Self { first: calls[0], seconds }
    }
}

/// Communicators that are slower than others like them in most steps, beyond chance.
pub(super) fn slow_exchanges(
    prepared: &CommonSteps,
    instances: &Instances,
    (names, steps): (&Names, usize),
    settings: &Settings,
) -> Vec<SlowExchange> {
    if steps < MINIMUM_STEPS {
        return Vec::new();
    }
    let mut found: BTreeMap<Alike, BTreeMap<NameId, Vec<&Instance>>> = BTreeMap::new();
    for instance in instances.all.iter().filter(|instance| instance.tells_waits()) {
        let alike = (instance.operation, instance.bytes, instance.members.len());
        found.entry(alike).or_default().entry(instance.group).or_default().push(instance);
    }
    let step_s = |step: usize| {
        prepared.ranks.iter().map(|lanes| lanes.windows[step][1] - lanes.windows[step][0]).max().unwrap_or(0) as f64
            * 1e-9
    };
    let step_s = stats::median(&(0..steps).map(step_s).collect::<Vec<f64>>());
    let found: Vec<Vec<Vec<&Instance>>> = found.into_values().map(|groups| groups.into_values().collect()).collect();
    let compared: Vec<&Vec<Vec<&Instance>>> = found.iter().filter(|groups| are_compared(groups)).collect();
    let level = settings.level / compared.len().max(1) as f64;
    let question = Question { minimum_s: settings.minimum_share * step_s, level };
    // The seconds of each step take room, so they are made of one kind of call at a time. What fewer than half of the steps use
    // is not late in most, and a trace may have a communicator for each of its calls.
    let judged =
        compared.into_iter().filter(|groups| 2 * steps_of(&groups[0]).chunk_by(|a, b| a == b).count() >= steps);
    let slow = |groups: &Vec<Vec<&Instance>>| {
        let transfers: Vec<Transfers> = groups.iter().map(|calls| Transfers::new(calls, steps)).collect();
        slow_of(&transfers, question, (prepared, names))
    };
    judged.flat_map(slow).collect()
}

/// The step of each call, ascending.
fn steps_of(calls: &[&Instance]) -> Vec<usize> {
    let mut steps: Vec<usize> = calls.iter().map(|instance| instance.step).collect();
    steps.sort_unstable();
    steps
}

/// Whether communicators can be compared: those with other calls in a step do something else.
fn are_compared(groups: &[Vec<&Instance>]) -> bool {
    let first = steps_of(&groups[0]);
    groups.len() > 1 && groups.iter().all(|calls| steps_of(calls) == first)
}

fn slow_of(groups: &[Transfers], question: Question, (prepared, names): (&CommonSteps, &Names)) -> Vec<SlowExchange> {
    let times = Times { works: groups.iter().map(|one| one.seconds.clone()).collect(), parts: Vec::new() };
    let late = judge(&times, question).late.into_iter().filter(|late| late.persistent);
    let late: Vec<_> = late.collect();
    let is_late = |place: usize| late.iter().any(|one| one.rank == place);
    let of_one = |place: usize, confidence: f64| {
        let own = &groups[place];
        let others: Vec<&[f64]> = (0..groups.len())
            .filter(|other| *other != place && !is_late(*other))
            .map(|other| groups[other].seconds.as_slice())
            .collect();
        let medians: Vec<f64> = others.iter().map(|values| stats::median(values)).collect();
        (!others.is_empty()).then(|| SlowExchange {
            group: names.get(own.first.group).to_owned(),
            operation: names.get(own.first.operation).to_owned(),
            group_id: own.first.group,
            operation_id: own.first.operation,
            bytes: own.first.bytes,
            ranks: own.first.members.iter().map(|member| prepared.ranks[member.rank].timeline.rank).collect(),
            own_s: stats::median(&own.seconds),
            others_s: stats::median(&medians),
            values: own.seconds.clone(),
            factors: in_their_place(&own.seconds, &others),
            confidence,
        })
    };
    late.iter().filter_map(|one| of_one(one.rank, one.confidence)).collect()
}
