//! What communication costs, by operation, communicator and message size.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use trace::timeline::{NameId, Names};

use super::instances::{Clocks, Instance, Instances};
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
    /// Communicator by communicator.
    pub communicators: Vec<Communicator>,
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
    /// The same by arrival: last arrival minus own. None without aligned clocks with an error small against the waits.
    pub arrival_wait_s: Option<Series>,
}

/// The messages of one communicator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Communicator {
    /// Its name.
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
struct Sums {
    calls: f64,
    bytes: Option<f64>,
    synchronises: bool,
    waits: bool,
    time: Vec<f64>,
    transfer: Vec<f64>,
    wait: Vec<f64>,
    arrival: Vec<f64>,
}

impl Sums {
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
        let mean = |of: &dyn Fn(&super::instances::Member) -> i64| {
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
    let mut sums: HashMap<(NameId, NameId), Sums> = HashMap::new();
    for instance in &instances.all {
        sums.entry((instance.operation, instance.group)).or_insert_with(|| Sums::new(steps)).add(instance);
    }
    let arrivals = instances.clocks.aligned && instances.clocks.orders_arrivals;
    let per_step = steps.max(1) as f64;
    let totals = |((operation, group), sums): ((NameId, NameId), Sums)| {
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
    Collectives {
        matched: instances.all.len(),
        unmatched: instances.unmatched,
        clocks: instances.clocks.clone(),
        operations,
        communicators: communicators(instances, names, per_step),
    }
}

/// Transfer times of collectives by their size.
type Sizes = BTreeMap<Option<u64>, Vec<f64>>;

fn communicators(instances: &Instances, names: &Names, steps: f64) -> Vec<Communicator> {
    let mut found: BTreeMap<&str, (u32, Sizes)> = BTreeMap::new();
    for instance in &instances.all {
        let (ranks, sizes) = found.entry(names.get(instance.group)).or_default();
        *ranks = (*ranks).max(instance.size.unwrap_or(0)).max(instance.members.len() as u32);
        sizes.entry(instance.bytes).or_default().push(instance.transfer() as f64 * 1e-9);
    }
    let size = |(bytes, times): (Option<u64>, Vec<f64>)| MessageSize {
        bytes,
        calls_per_step: times.len() as f64 / steps,
        transfer_s: stats::median(&times),
        per_step_s: times.iter().sum::<f64>() / steps,
        least_s: times.iter().copied().fold(f64::INFINITY, f64::min),
    };
    let of_one = |(group, (ranks, sizes)): (&str, (u32, Sizes))| Communicator {
        group: group.to_owned(),
        ranks,
        sizes: sizes.into_iter().map(size).collect(),
    };
    found.into_iter().map(of_one).collect()
}
