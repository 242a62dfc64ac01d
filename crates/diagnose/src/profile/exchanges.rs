//! The exchanges of a step one by one, in their order: buckets of gradients, say. And whether their time varies between steps.

use std::collections::BTreeMap;

use serde::Serialize;
use terms::Seconds;
use trace::timeline::Names;

use super::collectives::Collectives;
use super::instances::{Instance, Instances};
use super::lanes::CommonSteps;
use super::listed;

/// An exchange of a step, by its place among those of its communicator. Times are seconds: medians over steps of means over
/// ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exchange {
    /// The communicator.
    pub group: String,
    /// Place of the exchange in the order of their beginnings, from 1.
    pub place: u32,
    /// The operation.
    pub operation: String,
    /// S of the operation, where known.
    pub bytes: Option<u64>,
    /// How long after the beginning of the step ranks enter it.
    pub begins_s: f64,
    /// From entering to the end.
    pub time_s: f64,
    /// Moving bytes: the shortest duration over ranks. None where ranks do not wait for each other.
    pub transfer_s: Option<f64>,
    /// Waiting for other ranks: duration minus transfer. None as above.
    pub wait_s: Option<f64>,
}

/// Exchanges of a communicator that are listed.
const MOST: usize = 512;

/// What steps show of one place.
#[derive(Default)]
struct PlaceSamples<'i> {
    first: Option<&'i Instance>,
    waits: bool,
    /// Begin, time, transfer and wait of each step that has it, in nanoseconds.
    steps: [Vec<f64>; 4],
}

/// The exchanges that at least half of the steps have, and how many of them are not listed.
pub(super) fn exchanges(instances: &Instances, prepared: &CommonSteps, names: &Names) -> (Vec<Exchange>, usize) {
    let mut steps: BTreeMap<(&str, usize), Vec<(f64, &Instance)>> = BTreeMap::new();
    for instance in &instances.all {
        let group = names.get(instance.group);
        steps.entry((group, instance.step)).or_default().push((begin(instance, prepared), instance));
    }
    let mut places: BTreeMap<(&str, usize), PlaceSamples> = BTreeMap::new();
    for ((group, _), mut of_step) in steps {
        of_step.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (number, (begin, instance)) in of_step.into_iter().enumerate().take(MOST) {
            let place = places
                .entry((group, number))
                .or_insert_with(|| PlaceSamples { waits: true, ..PlaceSamples::default() });
            place.first.get_or_insert(instance);
            place.waits &= instance.tells_waits();
            let members = instance.members.len() as f64;
            let time = instance.members.iter().map(|member| member.duration()).sum::<i64>() as f64 / members;
            let values = [begin, time, instance.transfer() as f64, instance.mean_wait()];
            place.steps.iter_mut().zip(values).for_each(|(all, value)| all.push(value));
        }
    }
    let count = prepared.numbers.len();
    let shown = |((group, number), place): ((&str, usize), PlaceSamples)| {
        let first = place.first.filter(|_| 2 * place.steps[0].len() >= count)?;
        let [begins_s, time_s, transfer_s, wait_s] = place.steps.map(|values| stats::median(&values) * 1e-9);
        Some(Exchange {
            group: group.to_owned(),
            place: number as u32 + 1,
            operation: names.get(first.operation).to_owned(),
            bytes: first.bytes,
            begins_s,
            time_s,
            transfer_s: place.waits.then_some(transfer_s),
            wait_s: place.waits.then_some(wait_s),
        })
    };
    let mut all: Vec<Exchange> = places.into_iter().filter_map(shown).collect();
    let left_out = listed::keep_most(&mut all, listed::MOST, |exchange| exchange.time_s);
    (all, left_out)
}

/// Nanoseconds from the beginning of the step to entering, the mean over its ranks. Each by its own clock.
fn begin(instance: &Instance, prepared: &CommonSteps) -> f64 {
    let after = |member: &super::instances::InstanceMember| {
        member.begin - prepared.ranks[member.rank].windows[instance.step][0]
    };
    instance.members.iter().map(after).sum::<i64>() as f64 / instance.members.len() as f64
}

/// Fewer steps show no 5th and 95th percentile.
const FEWEST: usize = 20;
/// The 95th percentile over the 5th from which times vary.
const VARIES: f64 = 2.0;
/// An operation that takes less of a step matters to nobody.
const SMALLEST: f64 = 0.02;

/// Says of the operations that take time whether it varies between steps: then figures of single steps say little.
pub(super) fn varying(collectives: &Collectives, step_s: f64) -> Vec<String> {
    let mut found = Vec::new();
    for one in &collectives.operations {
        let values = stats::sorted(&one.time_s.values);
        let [low, middle, high] = [0.05, 0.5, 0.95].map(|at| stats::quantile(&values, at));
        if values.len() >= FEWEST && middle >= SMALLEST * step_s && high > VARIES * low.max(1e-9) {
            found.push(format!(
                "{} of {} varies between steps: it takes {} to {} in nine of ten of them, with a median of {}",
                one.operation,
                one.group,
                Seconds(low),
                Seconds(high),
                Seconds(middle)
            ));
        }
    }
    found
}
