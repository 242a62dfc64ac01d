//! What communication costs, by operation, communicator and message size.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use trace::timeline::{NameId, Names};

use super::instances::{Clocks, Instance, InstanceMember, Instances};
use super::listed::{self, is_zero};
use super::series::Series;

/// Collectives and transfers of the common steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Collectives {
    /// Collectives with all calls that belong to them.
    pub matched: usize,
    /// Calls that no call of every other rank belongs to. They count nowhere.
    pub unmatched: usize,
    /// Whether times of different ranks may be compared.
    pub clocks: Clocks,
    /// Operation by operation, the one with the most time first.
    pub operations: Vec<OperationTotals>,
    /// How many of those with the least time are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub operations_left_out: usize,
    /// Communicator by communicator.
    pub communicators: Vec<Communicator>,
    /// Sizes of messages of all communicators that are not listed: those with the least time.
    #[serde(skip_serializing_if = "is_zero")]
    pub sizes_left_out: usize,
}

impl Collectives {
    /// What is not listed, in words.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        let sizes = self.communicators.iter().map(|group| group.sizes.len()).sum();
        let operations = self.operations.len();
        listed::note("operations on a communicator", operations, self.operations_left_out)
            .into_iter()
            .chain(listed::note("sizes of messages on a communicator", sizes, self.sizes_left_out))
    }
}

/// One operation on one communicator. Times are seconds per step, each the mean over ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationTotals {
    /// The operation.
    pub operation: String,
    /// The communicator.
    pub group: String,
    /// Calls of a rank per step.
    pub calls_per_step: f64,
    /// Bytes of a rank's calls per step, where all are known.
    pub bytes_per_step: Option<f64>,
    /// From entering to the end.
    pub time_s: Series,
    /// Moving bytes: per collective the shortest duration over ranks. None where ranks do not wait for each other.
    pub transfer_s: Option<Series>,
    /// Waiting for other ranks: duration minus transfer. None as above.
    pub wait_s: Option<Series>,
    /// Waiting for other ranks, by arrival: last arrival minus own. None without aligned clocks with an
    /// error small against the waits.
    pub arrival_wait_s: Option<Series>,
}

/// The messages of one communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Communicator {
    /// Name of the communicator.
    pub group: String,
    /// Ranks of it, where known, else ranks that were seen.
    pub ranks: u32,
    /// By size, ascending; calls of unknown size come first.
    pub sizes: Vec<MessageSize>,
}

/// Calls of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageSize {
    /// S of the operation.
    pub bytes: Option<u64>,
    /// Collectives per step.
    pub calls_per_step: f64,
    /// Median of the shortest duration over ranks.
    pub transfer_s: f64,
    /// Sum of these per step.
    pub per_step_s: f64,
    /// The smallest of them: what a call costs at least.
    pub least_s: f64,
}

/// Sums of one operation on one communicator, step by step, in nanoseconds.
struct OperationSums {
    calls: f64,
    bytes: Option<f64>,
    synchronises: bool,
    waits: bool,
    time: Vec<f64>,
    transfer: Vec<f64>,
    wait: Vec<f64>,
    arrival: Vec<f64>,
}

impl OperationSums {
    fn new(steps: usize) -> Self {
        let none = vec![0.0; steps];
        Self {
            calls: 0.0,
            bytes: Some(0.0),
            synchronises: true,
            waits: true,
            time: none.clone(),
            transfer: none.clone(),
            wait: none.clone(),
            arrival: none,
        }
    }

    fn add(&mut self, instance: &Instance) {
        let (members, step) = (instance.members.len() as f64, instance.step);
        self.calls += 1.0;
        self.bytes = self.bytes.zip(instance.bytes).map(|(sum, bytes)| sum + bytes as f64);
        self.synchronises &= instance.synchronises;
        self.waits &= instance.tells_waits();
        let mean = |of: &dyn Fn(&super::instances::InstanceMember) -> i64| {
            instance.members.iter().map(of).sum::<i64>() as f64 / members
        };
        self.time[step] += mean(&|member| member.duration());
        self.transfer[step] += instance.transfer() as f64;
        self.wait[step] += instance.mean_wait();
        let entered = instance.members.iter().map(|member| member.begin).max().unwrap_or(0);
        self.arrival[step] += mean(&|member| entered - member.begin);
    }
}

fn seconds(nanoseconds: Vec<f64>) -> Series {
    Series::new(nanoseconds.into_iter().map(|time| time * 1e-9).collect())
}

/// Totals of all instances over so many steps.
pub(super) fn collectives(instances: &Instances, names: &Names, steps: usize) -> Collectives {
    let (kept, operations_left_out) = most_costly(instances, names, listed::most_operations(steps));
    let mut sums: HashMap<(NameId, NameId), OperationSums> = HashMap::new();
    for instance in &instances.all {
        let operation = (instance.operation, instance.group);
        if kept.as_ref().is_none_or(|kept| kept.contains(&operation)) {
            sums.entry(operation).or_insert_with(|| OperationSums::new(steps)).add(instance);
        }
    }
    let arrivals = instances.clocks.aligned && instances.clocks.orders_arrivals;
    let per_step = steps.max(1) as f64;
    let totals = |((operation, group), sums): ((NameId, NameId), OperationSums)| {
        let waits = sums.synchronises && sums.waits;
        OperationTotals {
            operation: names.get(operation).to_owned(),
            group: names.get(group).to_owned(),
            calls_per_step: sums.calls / per_step,
            bytes_per_step: sums.bytes.map(|bytes| bytes / per_step),
            time_s: seconds(sums.time),
            transfer_s: waits.then(|| seconds(sums.transfer)),
            wait_s: waits.then(|| seconds(sums.wait)),
            arrival_wait_s: (waits && arrivals).then(|| seconds(sums.arrival)),
        }
    };
    let mut operations: Vec<OperationTotals> = sums.into_iter().map(totals).collect();
    let name = |totals: &OperationTotals| (totals.operation.clone(), totals.group.clone());
    operations.sort_by(|a, b| b.time_s.mean().total_cmp(&a.time_s.mean()).then_with(|| name(a).cmp(&name(b))));
    let (communicators, sizes_left_out) = communicators(instances, names, per_step);
    Collectives {
        matched: instances.all.len(),
        unmatched: instances.unmatched,
        clocks: instances.clocks.clone(),
        operations,
        operations_left_out,
        communicators,
        sizes_left_out,
    }
}

/// The operations, each on its communicator, with the most time, and how many others there are. None where these are all.
fn most_costly(instances: &Instances, names: &Names, most: usize) -> (Option<HashSet<(NameId, NameId)>>, usize) {
    let mut times: HashMap<(NameId, NameId), f64> = HashMap::new();
    for instance in &instances.all {
        let time =
            instance.members.iter().map(InstanceMember::duration).sum::<i64>() as f64 / instance.members.len() as f64;
        *times.entry((instance.operation, instance.group)).or_default() += time;
    }
    if times.len() <= most {
        return (None, 0);
    }
    let mut all: Vec<((NameId, NameId), f64)> = times.into_iter().collect();
    let name = |(operation, group): (NameId, NameId)| (names.get(operation), names.get(group));
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0))));
    let left_out = all.len() - most;
    (Some(all.into_iter().take(most).map(|(operation, _)| operation).collect()), left_out)
}

/// Communicators with their sizes, and how many sizes are left out.
fn communicators(instances: &Instances, names: &Names, steps: f64) -> (Vec<Communicator>, usize) {
    let mut calls: Vec<&Instance> = instances.all.iter().collect();
    // Stable: times are added up in the order of the trace.
    calls.sort_by(|a, b| (names.get(a.group), a.bytes).cmp(&(names.get(b.group), b.bytes)));
    let mut ranks: HashMap<NameId, u32> = HashMap::new();
    for instance in &calls {
        let ranks = ranks.entry(instance.group).or_default();
        *ranks = (*ranks).max(instance.size.unwrap_or(0)).max(instance.members.len() as u32);
    }
    let size = |calls: &[&Instance]| {
        let times: Vec<f64> = calls.iter().map(|instance| instance.transfer() as f64 * 1e-9).collect();
        let size = MessageSize {
            bytes: calls[0].bytes,
            calls_per_step: times.len() as f64 / steps,
            transfer_s: stats::median(&times),
            per_step_s: times.iter().sum::<f64>() / steps,
            least_s: times.iter().copied().fold(f64::INFINITY, f64::min),
        };
        (calls[0].group, size)
    };
    let alike = |a: &&Instance, b: &&Instance| a.group == b.group && a.bytes == b.bytes;
    let mut sizes: Vec<(NameId, MessageSize)> = calls.chunk_by(alike).map(size).collect();
    let left_out = listed::keep_most(&mut sizes, listed::MOST, |(_, size)| size.per_step_s);
    let of_one = |sizes: &[(NameId, MessageSize)]| Communicator {
        group: names.get(sizes[0].0).to_owned(),
        ranks: ranks[&sizes[0].0],
        sizes: sizes.iter().map(|(_, size)| size.clone()).collect(),
    };
    (sizes.chunk_by(|(a, _), (b, _)| a == b).map(of_one).collect(), left_out)
}
