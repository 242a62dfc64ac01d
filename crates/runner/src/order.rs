//! In which order cases run.
//!
//! Other tenants, clocks and hypervisors change a machine within seconds, by more than most implementations differ. So
//! implementations of one workload (cases that differ only in who does it or how) run one right after the other in every
//! round, in worlds that all stay alive meanwhile; idle ones wait for a command and use no processor. Groups of them come
//! in random order, so that no case always follows the same one. The one exception is a run's first round, in which cases that
//! take seconds to prepare come last.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use benchmarks::benchmark;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use record::{Case, Caveat};
use serde_json::Value;

use crate::worlds::MOST_RANKS;

/// Cases in their order. Their worlds stay alive until the last of them has run.
pub(crate) type Meeting<'c> = Vec<&'c Case>;

/// An order that is this round's own: implementations of one workload one right after the other, in worlds that stay alive
/// meanwhile, all else random. `several`: worlds may be alive at once.
pub(crate) fn of_round(cases: Vec<&Case>, seed: u64, round: u32, several: bool) -> Vec<Meeting<'_>> {
    let mut random = StdRng::seed_from_u64(seed.wrapping_add(u64::from(round)));
    // Each meeting is a list of groups; a group stays together.
    let mut meetings: Vec<Vec<Meeting>> = Vec::new();
    for worlds in meet(grouped(cases, |case| world(case))) {
        let ranks: u32 = worlds.iter().map(|cases| cases[0].ranks()).sum();
        if several && ranks <= MOST_RANKS {
            meetings.push(grouped(worlds.concat(), |case| workload(case)));
        } else {
            meetings.extend(worlds.into_iter().map(|world| vec![world]));
        }
    }
    meetings.shuffle(&mut random);
    for groups in &mut meetings {
        groups.iter_mut().for_each(|group| group.shuffle(&mut random));
        groups.shuffle(&mut random);
    }
    let mut meetings: Vec<Meeting> = meetings.into_iter().map(|groups| groups.concat()).collect();
    if round == 0 {
        // Somebody waits for the first result: what takes seconds to prepare comes behind all else, this once.
        meetings.sort_by_key(|cases| cases.iter().any(|case| is_slow_to_prepare(case)));
    }
    // A fault that is injected may end its world, which some launchers cannot start again: others come first.
    let injected = |case: &&Case| case.caveats.contains(&Caveat::Injected);
    meetings.iter_mut().for_each(|cases| cases.sort_by_key(injected));
    meetings.sort_by_key(|cases| cases.iter().any(injected));
    if !several {
        // New ranks for one case are a world that others cannot have any more.
        // A case that cannot be read is skipped, wherever it stands.
        let needs_new_ranks = |case: &&Case| benchmarks::parse(case).is_ok_and(|parsed| parsed.needs_new_ranks());
        meetings.iter_mut().for_each(|cases| cases.sort_by_cached_key(needs_new_ranks));
    }
    meetings
}

/// Whether ranks keep the case prepared from round to round, because preparing it takes long.
fn is_slow_to_prepare(case: &Case) -> bool {
    benchmark(&case.benchmark).is_some_and(|benchmark| benchmark.keeps_prepared())
}

/// Cases of one world, a group each.
pub(crate) fn worlds<'c>(cases: &[&'c Case]) -> Vec<Vec<&'c Case>> {
    grouped(cases.to_vec(), |case| world(case))
}

/// Cases that measure the same workload, a group each.
pub(crate) fn workloads<'c>(cases: &[&'c Case]) -> Vec<Vec<&'c Case>> {
    grouped(cases.to_vec(), |case| workload(case))
}

/// Brings worlds together that have a workload in common, by any chain of them.
fn meet(worlds: Vec<Meeting<'_>>) -> Vec<Vec<Meeting<'_>>> {
    let mut meetings: Vec<(HashSet<String>, Vec<Meeting>)> = Vec::new();
    for cases in worlds {
        let mut workloads: HashSet<String> = cases.iter().map(|case| workload(case)).collect();
        let (joined, apart): (Vec<_>, Vec<_>) =
            meetings.into_iter().partition(|(known, _)| !known.is_disjoint(&workloads));
        let mut members = Vec::new();
        for (known, worlds) in joined {
            workloads.extend(known);
            members.extend(worlds);
        }
        members.push(cases);
        meetings = apart;
        meetings.push((workloads, members));
    }
    meetings.into_iter().map(|(_, worlds)| worlds).collect()
}

/// Groups of what has the same key, in the order of their first members.
pub(crate) fn grouped<T, K: Hash + Eq>(all: Vec<T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        let place = *places.entry(key(&one)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(one);
    }
    groups
}

pub(crate) fn world(case: &Case) -> String {
    text(case.world.iter())
}

/// A key that all implementations of one workload have in common.
fn workload(case: &Case) -> String {
    let Some(benchmark) = benchmark(&case.benchmark) else { return case.id.clone() };
    let shared = record::workload(&case.parameters, benchmark.about());
    let shared: Vec<String> = shared.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{}\n{}", case.benchmark, shared.join("\n"))
}

/// Whatever order the entries are in.
fn text<'c>(entries: impl Iterator<Item = (&'c str, &'c Value)>) -> String {
    entries.collect::<BTreeMap<_, _>>().iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "experiment: order\ncases:\n\
        - {benchmark: collective, backend: shm, buffers: [registered, private], ranks: [2, 4], bytes: [1KiB, 2KiB, 4KiB]}\n\
        - {benchmark: collective, backend: mpi, mpi_library: [a.so, b.so], ranks: [2, 4], bytes: [1KiB, 2KiB, 4KiB]}\n\
        - {benchmark: collective, backend: mpi, mpi_library: b.so, ranks: 3, bytes: [1KiB, 2KiB]}\n";

    fn plan(text: &str) -> record::Plan {
        record::plan::read(text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap()
    }

    /// Ranks, bytes, world of each case, meeting by meeting.
    fn seen(meetings: &[Meeting]) -> Vec<Vec<(u32, u64, String)>> {
        let one = |case: &&Case| (case.ranks(), case.whole("bytes").unwrap(), world(case));
        meetings.iter().map(|meeting| meeting.iter().map(one).collect()).collect()
    }

    #[test]
    fn implementations_of_a_workload_run_one_after_another_in_worlds_that_stay() {
        let plan = plan(PLAN);
        let mut orders = HashSet::new();
        for round in 0..8 {
            let meetings = seen(&of_round(plan.cases.iter().collect(), 7, round, true));
            assert_eq!(meetings.len(), 3, "of 2, 3 and 4 ranks");
            for meeting in &meetings {
                let ranks = meeting[0].0;
                assert!(meeting.iter().all(|case| case.0 == ranks));
                // Two kinds of our buffers, two libraries.
                let implementations = if ranks == 3 { 1 } else { 4 };
                assert_eq!(meeting.len(), if ranks == 3 { 2 } else { 12 });
                for group in meeting.chunks(implementations) {
                    assert!(group.iter().all(|case| case.1 == group[0].1), "{group:?}");
                }
            }
            orders.insert(meetings);
        }
        assert_eq!(orders.len(), 8, "an order of its own each");
    }

    #[test]
    fn the_first_result_of_a_run_does_not_wait_for_training() {
        let text = "experiment: order\ncases:\n\
            - {benchmark: training, model: mlp, layers: 1, width: 8, features: 4, classes: 2, batch: 2, ranks: [1, 2, 4]}\n\
            - {benchmark: collective, backend: shm, ranks: [2, 3], bytes: 1KiB}\n";
        let plan = plan(text);
        let first = |seed, round| {
            let order = of_round(plan.cases.iter().collect(), seed, round, true).concat();
            assert_eq!(order.len(), 5);
            order[0].benchmark.clone()
        };
        assert!((0..20).all(|seed| first(seed, 0) == "collective"));
        assert!((0..20).any(|seed| first(seed, 1) == "training"), "later rounds are random throughout");
        let firsts: HashSet<u32> =
            (0..20).map(|seed| of_round(plan.cases.iter().collect(), seed, 0, true)[0][0].ranks()).collect();
        assert_eq!(firsts.len(), 2, "what comes first is random still");
    }

    #[test]
    fn injected_faults_come_last() {
        let text = "experiment: order\ncases:\n\
            - {benchmark: collective, backend: shm, ranks: 2, bytes: 1KiB, inject: \"kill:rank=1,at=5\"}\n\
            - {benchmark: collective, backend: shm, ranks: 2, bytes: [2KiB, 4KiB, 8KiB]}\n\
            - {benchmark: collective, backend: shm, ranks: 3, bytes: [2KiB, 4KiB]}\n";
        let plan = plan(text);
        for round in 0..8 {
            for several in [true, false] {
                let order = of_round(plan.cases.iter().collect(), 7, round, several).concat();
                assert!(order.last().is_some_and(|case| case.value("inject").is_some()), "round {round}");
            }
        }
    }

    #[test]
    fn a_case_that_needs_new_ranks_leaves_the_only_world_to_others() {
        let text = "experiment: order\ncases:\n\
            - {benchmark: startup, stage: first_call, start: [cold, warm], backend: mpi, ranks: 2, trials: 1}\n";
        let plan = plan(text);
        for seed in 0..8 {
            let order = of_round(plan.cases.iter().collect(), seed, 1, false).concat();
            let starts: Vec<_> = order.iter().map(|case| case.text("start").unwrap().to_owned()).collect();
            assert_eq!(starts.iter().position(|start| start == "cold"), Some(starts.len() - 1), "{starts:?}");
        }
    }

    #[test]
    fn where_one_world_only_may_be_alive_they_come_one_after_another() {
        let plan = plan(PLAN);
        let meetings = of_round(plan.cases.iter().collect(), 7, 1, false);
        assert_eq!(meetings.len(), 7);
        assert!(meetings.iter().all(|meeting| meeting.iter().all(|case| case.world == meeting[0].world)));
        let many = PLAN.replace("[2, 4]", "[2, 43]");
        let plan = self::plan(&many);
        let meetings = of_round(plan.cases.iter().collect(), 7, 1, true);
        assert_eq!(meetings.len(), 2 + 3, "3 x 43 ranks are too many at once");
    }

    #[test]
    fn what_is_measured_tells_workloads_apart() {
        let workload_of = |text: &str| {
            let plan = plan(&format!("experiment: order\ncases: [{{benchmark: collective, {text}}}]"));
            workload(&plan.cases[0])
        };
        let ours = workload_of("backend: shm");
        for implementation in [
            "backend: shm, buffers: private",
            "backend: mpi",
            "backend: mpi, mpi_tuned: true",
            "backend: shm, bind: none",
        ] {
            assert_eq!(workload_of(implementation), ours, "{implementation}");
        }
        for other in ["ranks: 3", "op: broadcast", "dtype: bf16", "bytes: 2KiB", "mode: isolated", "in_place: false"] {
            assert_ne!(workload_of(&format!("backend: shm, {other}")), ours, "{other}");
        }
    }
}
