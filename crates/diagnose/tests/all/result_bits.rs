//! Silent corruption: nodes whose equal work left other bits than that of their peers.

use std::collections::BTreeMap;

use record::Record;
use serde_json::json;

use crate::simulation::record_of;
use diagnose::fleet::{Fleet, NodeVerdict, RankBits, Reader, Taken, against, fleet, read};

fn bits(line: &record::CaseLine) -> Option<Vec<RankBits>> {
    let rounds: Vec<BTreeMap<String, u64>> = serde_json::from_value(line.metrics.get("rounds")?.clone()).ok()?;
    Some(rounds.into_iter().map(|rounds| RankBits { how: "fma".to_owned(), operations: 7, rounds }).collect())
}

/// A record of one rank on each of these hosts, with the rounds of each.
fn launched(rounds: &[&[(&str, u64)]]) -> Record {
    let mut record = record_of(&[vec![1e-3; 6]], 0);
    let hosts: Vec<String> = (0..rounds.len()).map(|host| format!("h{host}")).collect();
    let machine = record.file.machine.clone();
    record.file.hosts = hosts.iter().map(|host| record::Machine { host: host.clone(), ..machine.clone() }).collect();
    let placed = json!({"ranks": hosts.len(), "bind": "none", "hosts": hosts, "cpus": []});
    record.file.placement = vec![serde_json::from_value(placed).unwrap()];
    let line = &mut record.cases[0];
    line.ranks = rounds.len() as u32;
    let rounds: Vec<BTreeMap<&str, u64>> = rounds.iter().map(|of| of.iter().copied().collect()).collect();
    line.metrics.insert("rounds".to_owned(), json!(rounds));
    record
}

fn taken(record: &Record) -> Taken {
    let label = |_: &Record, _: &record::CaseLine| "results".to_owned();
    let reader = Reader { is_local: &|_| false, pairs: &|_| None, rank_trials: &|_| None, bits: &bits, label: &label };
    read("record", record, &reader).unwrap()
}

fn judged(record: &Record) -> Fleet {
    fleet(&taken(record), None, &[])
}

#[test]
fn equal_bits_are_good_and_say_which_rate_is_excluded() {
    let fleet = judged(&launched(&[&[("a", 1000)][..]; 8]));
    assert_eq!(fleet.count(NodeVerdict::Good), 8, "{fleet:?}");
    let check = &fleet.results[0];
    assert_eq!((check.nodes, check.operations, check.wrong_rounds), (8, 56_000, 0));
    let rate = check.excluded_rate.unwrap();
    assert!((rate * 56_000.0 / 2.9957 - 1.0).abs() < 1e-3, "{rate}");
}

#[test]
fn the_node_that_differs_from_the_majority_is_named() {
    let mut rounds = vec![&[("a", 1000)][..]; 8];
    rounds[5] = &[("b", 1000)];
    let fleet = judged(&launched(&rounds));
    assert_eq!(fleet.hosts(&[NodeVerdict::Failed]), ["h5"], "{fleet:?}");
    assert!(fleet.nodes[5].failed[0].contains("differ from those of 7 other nodes"), "{:?}", fleet.nodes[5]);
    assert_eq!((fleet.results[0].wrong_rounds, fleet.results[0].excluded_rate), (1000, None));
    assert_eq!(fleet.count(NodeVerdict::Good), 7);
}

#[test]
fn a_round_that_differs_from_the_rest_names_its_node() {
    // Also where there is no majority of nodes.
    let fleet = judged(&launched(&[&[("a", 999), ("x", 1)], &[("a", 1000)], &[("a", 1000)]]));
    assert_eq!(fleet.hosts(&[NodeVerdict::Failed]), ["h0"], "{fleet:?}");
    assert!(fleet.nodes[0].failed[0].contains("1 of its 1000 rounds"), "{:?}", fleet.nodes[0]);
    assert_eq!(fleet.results[0].wrong_rounds, 1);
    let alone = judged(&launched(&[&[("a", 999), ("x", 1)], &[("b", 1000)]]));
    assert_eq!(alone.hosts(&[NodeVerdict::Failed]), ["h0"], "{alone:?}");
}

#[test]
fn of_two_nodes_that_differ_neither_is_blamed() {
    let fleet = judged(&launched(&[&[("a", 10)], &[("b", 10)]]));
    assert_eq!(fleet.count(NodeVerdict::CannotTell), 2, "{fleet:?}");
    assert!(fleet.failures[0].contains("h[0-1] differ"), "{:?}", fleet.failures);
    let same = judged(&launched(&[&[("a", 10)], &[("a", 10)]]));
    assert_eq!(same.count(NodeVerdict::Good), 2);
}

#[test]
fn a_newcomer_with_a_wrong_round_is_named() {
    let record = launched(&[&[("a", 999), ("x", 1)]]);
    let fleet = against(&Fleet::default(), &taken(&record), &[]);
    assert_eq!(fleet.hosts(&[NodeVerdict::Failed]), ["h0"], "{fleet:?}");
    assert_eq!(fleet.results[0].wrong_rounds, 1);
}
