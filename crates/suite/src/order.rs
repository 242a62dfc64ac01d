//! In which order cases run.
//!
//! Neighbours, clocks and hypervisors change a machine within seconds, by more than most engines differ. So with several
//! launches cases that are held against each other (*rivals*: what they measure is the same, who does it or how is not) run
//! one right after the other, in worlds that all stay alive meanwhile; the idle ones wait for a command and use no processor.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use record::Case;
use serde_json::Value;

use crate::benchmark;

/// Cases in their order, whose worlds stay alive until the last of them has run.
pub(crate) type Meeting<'c> = Vec<&'c Case>;

/// Ranks that may be alive at once for the sake of an order. Beyond, worlds come one after the other.
const MOST_RANKS: u32 = 128;

/// The plan's order, a world at a time.
pub(crate) fn of_plan(cases: Vec<&Case>) -> Vec<Meeting<'_>> {
    grouped(cases, world)
}

/// An order that is this launch's own. `several`: worlds may be alive at once.
pub(crate) fn of_launch(cases: Vec<&Case>, launch: u32, several: bool) -> Vec<Meeting<'_>> {
    let mut random = StdRng::seed_from_u64(u64::from(launch));
    // Each meeting as groups of which each stays together.
    let mut meetings: Vec<Vec<Meeting>> = Vec::new();
    for worlds in meet(of_plan(cases)) {
        let ranks: u32 = worlds.iter().map(|cases| cases[0].ranks()).sum();
        if several && ranks <= MOST_RANKS {
            meetings.push(grouped(worlds.concat(), rivalry));
        } else {
            meetings.extend(worlds.into_iter().map(|world| vec![world]));
        }
    }
    meetings.shuffle(&mut random);
    for groups in &mut meetings {
        groups.iter_mut().for_each(|group| group.shuffle(&mut random));
        groups.shuffle(&mut random);
    }
    meetings.into_iter().map(|groups| groups.concat()).collect()
}

/// Brings worlds together in which there are rivals, by any chain of them.
fn meet(worlds: Vec<Meeting<'_>>) -> Vec<Vec<Meeting<'_>>> {
    let mut meetings: Vec<(HashSet<String>, Vec<Meeting>)> = Vec::new();
    for cases in worlds {
        let mut rivalries: HashSet<String> = cases.iter().map(|case| rivalry(case)).collect();
        let (joined, apart): (Vec<_>, Vec<_>) =
            meetings.into_iter().partition(|(known, _)| !known.is_disjoint(&rivalries));
        let mut members = Vec::new();
        for (known, worlds) in joined {
            rivalries.extend(known);
            members.extend(worlds);
        }
        members.push(cases);
        meetings = apart;
        meetings.push((rivalries, members));
    }
    meetings.into_iter().map(|(_, worlds)| worlds).collect()
}

/// Groups of what has the same key, in the order of their first members.
fn grouped<'c, K: Hash + Eq>(cases: Vec<&'c Case>, key: impl Fn(&Case) -> K) -> Vec<Meeting<'c>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Meeting> = Vec::new();
    for case in cases {
        let place = *places.entry(key(case)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(case);
    }
    groups
}

fn world(case: &Case) -> String {
    text(case.world.iter())
}

/// The same for all rivals: benchmark, ranks, and every parameter that says what is measured.
fn rivalry(case: &Case) -> String {
    let fields = benchmark(&case.benchmark).map(|benchmark| benchmark.about().all_fields());
    let fields: HashSet<&str> =
        fields.into_iter().flatten().filter(|field| field.how).map(|field| field.name).collect();
    let says_what = |(name, _): &(&String, &Value)| !case.world.contains_key(*name) && !fields.contains(name.as_str());
    format!("{} {} {}", case.benchmark, case.ranks(), text(case.parameters.iter().filter(says_what)))
}

/// Whatever order the entries are in.
fn text<'c>(entries: impl Iterator<Item = (&'c String, &'c Value)>) -> String {
    entries.collect::<BTreeMap<_, _>>().iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "experiment: order\ncases:\n\
        - {benchmark: collective, backend: shm, buffers: [registered, private], ranks: [2, 4], bytes: [1KiB, 2KiB, 4KiB], launches: 2}\n\
        - {benchmark: collective, backend: mpi, mpi_library: [a.so, b.so], ranks: [2, 4], bytes: [1KiB, 2KiB, 4KiB], launches: 2}\n\
        - {benchmark: collective, backend: mpi, mpi_library: b.so, ranks: 3, bytes: [1KiB, 2KiB], launches: 2}\n";

    fn plan(text: &str) -> record::Plan {
        record::plan::read(text, "plan.yaml", &crate::abouts(), &[]).unwrap()
    }

    /// Ranks, bytes, world of each case, meeting by meeting.
    fn seen(meetings: &[Meeting]) -> Vec<Vec<(u32, u64, String)>> {
        let one = |case: &&Case| (case.ranks(), case.whole("bytes").unwrap(), world(case));
        meetings.iter().map(|meeting| meeting.iter().map(one).collect()).collect()
    }

    #[test]
    fn rivals_run_one_after_another_in_worlds_that_stay() {
        let plan = plan(PLAN);
        let mut orders = HashSet::new();
        for launch in 0..8 {
            let meetings = seen(&of_launch(plan.cases.iter().collect(), launch, true));
            assert_eq!(meetings.len(), 3, "of 2, 3 and 4 ranks");
            for meeting in &meetings {
                let ranks = meeting[0].0;
                assert!(meeting.iter().all(|case| case.0 == ranks));
                // Two kinds of our buffers, two libraries.
                let rivals = if ranks == 3 { 1 } else { 4 };
                assert_eq!(meeting.len(), if ranks == 3 { 2 } else { 12 });
                for group in meeting.chunks(rivals) {
                    assert!(group.iter().all(|case| case.1 == group[0].1), "{group:?}");
                }
            }
            orders.insert(meetings);
        }
        assert_eq!(orders.len(), 8, "an order of its own each");
    }

    #[test]
    fn where_one_world_only_may_be_alive_they_come_one_after_another() {
        let plan = plan(PLAN);
        let meetings = of_launch(plan.cases.iter().collect(), 1, false);
        assert_eq!(meetings.len(), 7);
        assert!(meetings.iter().all(|meeting| meeting.iter().all(|case| case.world == meeting[0].world)));
        let many = PLAN.replace("[2, 4]", "[2, 43]");
        let plan = self::plan(&many);
        let meetings = of_launch(plan.cases.iter().collect(), 1, true);
        assert_eq!(meetings.len(), 2 + 3, "3 x 43 ranks are too many at once");
    }

    #[test]
    fn what_is_measured_tells_rivals_from_others() {
        let of = |text: &str| {
            let plan = plan(&format!("experiment: order\ncases: [{{benchmark: collective, {text}}}]"));
            rivalry(&plan.cases[0])
        };
        let ours = of("backend: shm");
        for rival in [
            "backend: shm, buffers: private",
            "backend: mpi",
            "backend: mpi, mpi_tuned: true",
            "backend: shm, bind: none",
        ] {
            assert_eq!(of(rival), ours, "{rival}");
        }
        for other in ["ranks: 3", "op: broadcast", "dtype: bf16", "bytes: 2KiB", "mode: isolated", "in_place: false"] {
            assert_ne!(of(&format!("backend: shm, {other}")), ours, "{other}");
        }
    }
}
