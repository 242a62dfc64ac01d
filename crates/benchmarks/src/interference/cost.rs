//! Time that trials of a pair take beyond their sampling time, for the estimate of a run.

use contract::TrialCost;
use measure::machine;

use super::fields::{Activity, InterferenceFields};
use super::pair::SAMPLE_NS;

/// Round rates of a core, of memory and of storage, per second. They decide only the estimate that a run prints.
const FLOPS: f64 = 50e9;
const MEMORY: f64 = 10e9;
const STORAGE: f64 = 0.7e9;
/// Seconds of a small collective.
const CALL: f64 = 20e-6;
/// Seconds of a trial in which the file is written and removed from the page cache.
const FILE: f64 = 0.1;
/// Seconds of a trial in which the second thread is started and its results are checked.
const BESIDE: f64 = 0.05;

/// The cost of a trial that keeps `wanted` cores busy, on a host with `cores`.
pub(super) fn cost_on(fields: &InterferenceFields, wanted: usize, cores: usize) -> TrialCost {
    let beside = fields.beside.activity();
    let own = unit_s(fields.activity, fields);
    // Threads that share a core take turns.
    let shared = if wanted > cores { wanted as f64 / cores.max(1) as f64 } else { 1.0 };
    // The second activity completes one unit before each sample and one after it.
    let around = beside.map_or(0.0, |beside| 2.0 * unit_s(beside, fields)) * shared;
    let reads = [Some(fields.activity), beside].contains(&Some(Activity::StorageRead));
    let trial = if reads { FILE } else { 0.0 } + if beside.is_some() { BESIDE } else { 0.0 };
    let sample = own.max(SAMPLE_NS as f64 / 1e9);
    // On shared cores the scheduler decides who runs: some trials take about four samples longer.
    let more = if shared > 1.0 { 4.0 * (sample + around) + trial } else { 0.0 };
    TrialCost { sample_s: sample, around_s: around, trial_s: trial, more_s: more }
}

/// The cost of the trial on this machine.
pub(super) fn here(fields: &InterferenceFields, wanted: usize) -> TrialCost {
    cost_on(fields, wanted, machine::allowed_cpus().len())
}

/// Seconds that one unit of an activity takes.
fn unit_s(activity: Activity, fields: &InterferenceFields) -> f64 {
    let ranks = f64::from(fields.ranks);
    match activity {
        Activity::Product => {
            2.0 * (fields.product_size as f64).powi(3) / FLOPS / f64::from(fields.threads.unwrap_or(1))
        }
        Activity::Collective => CALL + ranks * fields.collective_bytes as f64 / MEMORY,
        Activity::Second => CALL + ranks * fields.second_bytes as f64 / MEMORY,
        Activity::HostCopy => fields.copy_bytes as f64 / MEMORY,
        Activity::StorageRead => fields.read_bytes as f64 / STORAGE,
        Activity::All => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::InterferenceBenchmark;
    use super::*;
    use contract::Benchmark as _;

    #[test]
    fn a_trial_takes_longer_beside_others_and_longest_on_shared_cores() {
        let fields = |beside: &str| {
            let given = [("activity", "collective"), ("beside", beside)];
            let plan = record::plan::from_flags(InterferenceBenchmark.about(), &given, &[]).unwrap();
            InterferenceFields::of(plan.cases.iter().find(|case| case.text("beside") == Some(beside)).unwrap()).unwrap()
        };
        let alone = cost_on(&fields("none"), 2, 4);
        assert_eq!(alone, TrialCost { sample_s: 0.02, ..TrialCost::default() });
        let copies = cost_on(&fields("host_copy"), 4, 4);
        assert!(copies.around_s > 0.005 && copies.around_s < 0.05 && copies.more_s == 0.0, "{copies:?}");
        let reads = cost_on(&fields("storage_read"), 4, 4);
        assert!(reads.around_s > copies.around_s && reads.trial_s > copies.trial_s, "{reads:?}");
        let shared = cost_on(&fields("host_copy"), 4, 2);
        assert!(
            (shared.around_s / copies.around_s - 2.0).abs() < 1e-9 && shared.more_s > shared.around_s,
            "{shared:?}"
        );
    }
}
