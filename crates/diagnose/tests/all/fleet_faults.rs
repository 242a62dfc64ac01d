//! Wrong verdicts of `fleet` on simulated clusters: healthy ones are not accused, and planted faults are named exactly. The whole
//! table of docs/appendix/fleets.md is made by `examples/fleet_faults`.

use record::{Caveat, NetworkInterface, RunEnd};
use terms::Status;

use crate::clusters::{Cluster, Structure, host, is_exact, judged, scenarios, taken};
use crate::skip;
use diagnose::fleet::{NodeVerdict, Topology, against, fleet};

/// What is left out unless it is asked for.
const NAME: &str = "verdicts on 200 healthy clusters of each structure";

fn flat(noise: f64, seed: u64) -> Cluster {
    Cluster::healthy(Structure::Flat(16), noise, seed)
}

#[test]
fn structures_and_noise_accuse_nobody_and_hide_no_fault() {
    let (healthy, faulty) = if skip::heavy(NAME) { (200, 20) } else { (12, 4) };
    let mut missed = Vec::new();
    for scenario in scenarios() {
        let rates = scenario.rates(healthy, faulty);
        // What is promised is 1 in 100.
        if rates.false_alarms > healthy / 100 || rates.exact * 20 < rates.faulty * 19 {
            missed.push((scenario.name, scenario.noise, rates));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn a_wrong_result_is_never_good() {
    let cluster = flat(0.01, 3);
    let mut records = cluster.records();
    let last = records.len() - 1;
    records[last].cases[2].wrong = Some(20);
    let fleet = judged(&records);
    assert_eq!(fleet.count(NodeVerdict::Good), 0, "{fleet:?}");
}

#[test]
fn a_failed_case_that_names_nobody_is_never_good() {
    let cluster = flat(0.01, 3);
    let mut records = cluster.records();
    let last = records.len() - 1;
    records[last].cases[2].status = Status::Failed;
    records[last].cases[2].reason = Some("the world was lost".to_owned());
    let fleet = judged(&records);
    assert_eq!(fleet.count(NodeVerdict::Good), 0, "{fleet:?}");
}

#[test]
fn a_failed_rank_of_this_host_is_blamed() {
    let cluster = flat(0.01, 3);
    let mut records = cluster.records();
    let last = records.len() - 1;
    records[last].file.machine.host = host(0);
    records[last].cases[2].status = Status::Failed;
    records[last].cases[2].reason = Some("rank 0 (pid 4711, this host) died of signal 9 (SIGKILL)".to_owned());
    let fleet = judged(&records);
    assert!(is_exact(&fleet, &[0], &[]), "{fleet:?}");
}

#[test]
fn what_befalls_most_hosts_condemns_none() {
    let mut records = flat(0.01, 3).records();
    let last = records.len() - 1;
    let reason = |nodes: usize| {
        let ranks =
            (0..nodes).map(|at| format!("rank {at} (pid 7, on {}) exited with code 1 while starting", host(at)));
        ranks.collect::<Vec<_>>().join("; ")
    };
    for (nodes, bad) in [(16, vec![]), (9, vec![]), (2, vec![0, 1])] {
        records[last].cases[2].status = Status::Failed;
        records[last].cases[2].reason = Some(reason(nodes));
        let fleet = judged(&records);
        assert!(is_exact(&fleet, &bad, &[]), "{nodes}: {fleet:?}");
        assert_eq!(fleet.failures.is_empty(), !bad.is_empty());
    }
}

#[test]
fn disturbed_trials_and_few_trials_condemn_nobody() {
    for seed in 0..20 {
        let disturbed = Cluster { disturbed: vec![(4, 1.35)], ..flat(0.01, seed) };
        let fleet = disturbed.judged();
        assert!(is_exact(&fleet, &[], &[]), "{:?}", fleet.nodes[4]);
        assert_eq!(fleet.nodes[4].verdict, NodeVerdict::CannotTell);
        // Two trials, one of which waited for something.
        let mut records = flat(0.01, seed).records();
        let trials = vec![1e-3, 1.35e-3];
        records[7].cases[0].time_s.as_mut().unwrap().median = stats::median(&trials);
        records[7].cases[0].trial_median_s = trials;
        records[7].cases[0].trial_round = vec![0, 1];
        let fleet = judged(&records);
        assert!(is_exact(&fleet, &[], &[]), "{:?}", fleet.nodes[7]);
        assert_eq!(fleet.nodes[7].verdict, NodeVerdict::CannotTell);
    }
}

/// A spell of other work in half of the rounds is not the node's own speed.
#[test]
fn what_is_slow_in_half_of_the_rounds_only_condemns_nobody() {
    for seed in 0..20 {
        let mut records = flat(0.01, seed).records();
        let line = &mut records[7].cases[0];
        line.trial_median_s.iter_mut().take(7).for_each(|trial| *trial *= 1.3);
        line.time_s.as_mut().unwrap().median = stats::median(&line.trial_median_s);
        let fleet = judged(&records);
        assert!(is_exact(&fleet, &[], &[]), "{:?}", fleet.nodes[7]);
    }
}

#[test]
fn a_newcomer_is_judged_with_its_own_variance() {
    let learned = flat(0.01, 1).judged();
    for noise in [0.03, 0.06, 0.10] {
        let tries = 100;
        let is_slow = |seed: u64| {
            let newcomer = Cluster { varying: vec![(0, noise)], ..flat(0.01, 500 + seed) }.node(0);
            against(&learned, &taken(&[newcomer]), &[]).nodes[0].verdict == NodeVerdict::Slow
        };
        let slow = (0..tries).filter(|seed| is_slow(*seed)).count();
        // 1% of 100; five or more are seen in 1 of 250 series.
        assert!(slow < 5, "{noise}: {slow} of {tries}");
    }
}

#[test]
fn a_node_that_varies_does_not_hide_the_speed_of_the_others() {
    let mut good = 0;
    for seed in 0..20 {
        let fleet = Cluster { varying: vec![(5, 0.3)], ..flat(0.01, seed) }.judged();
        assert!(is_exact(&fleet, &[], &[]), "{:?}", fleet.nodes[5]);
        good += usize::from(fleet.count(NodeVerdict::Good) >= 15);
    }
    assert!(good >= 19, "{good} of 20");
}

#[test]
fn a_node_alone_in_its_rack_needs_the_topology() {
    let cluster = Cluster::healthy(Structure::Racks(vec![15, 1]), 0.01, 4);
    let without = cluster.judged();
    assert_eq!((without.count(NodeVerdict::Good), without.count(NodeVerdict::CannotTell)), (15, 1));
    assert!(without.nodes[15].unknown.contains("--topology"), "{:?}", without.nodes[15]);
    let topology = Topology::parse("SwitchName=a Nodes=n[001-015]\nSwitchName=b Nodes=n016\n").unwrap();
    let with = fleet(&taken(&cluster.records()), Some(&topology), &[]);
    assert_eq!(with.count(NodeVerdict::Good), 16, "{:?}", with.nodes[15]);
    assert!(with.notes.iter().any(|note| note.contains("2 blocks") && note.contains("1.4")), "{:?}", with.notes);
}

#[test]
fn links_that_vary_too_much_are_not_called_good() {
    let cluster = flat(0.5, 4);
    let with_links = fleet(&taken(&[cluster.launched()]), None, &[]);
    assert!(with_links.is_blind_to_links() && with_links.links.is_empty(), "{with_links:?}");
}

#[test]
fn a_lost_part_is_bad_and_says_what_peers_have() {
    type Lose = fn(&mut record::Machine);
    let losses: [(Lose, &str); 3] = [
        (|machine| machine.gpus.truncate(7), "7 GPUs"),
        (|machine| machine.memory_bytes = machine.memory_bytes.map(|bytes| bytes / 16 * 15), "480 GiB"),
        (|machine| machine.cores = Some(63), "63 cores"),
    ];
    for (lose, words) in losses {
        let mut records = flat(0.01, 9).records();
        let last = records.len() - 1;
        lose(&mut records[3].file.machine);
        lose(&mut records[last].file.hosts[3]);
        let fleet = judged(&records);
        assert!(is_exact(&fleet, &[3], &[]), "{words}: {:?}", fleet.nodes[3]);
        assert!(fleet.nodes[3].failed.iter().any(|why| why.contains(words)), "{:?}", fleet.nodes[3]);
        assert_eq!(fleet.count(NodeVerdict::Good), 15, "{words}");
    }
}

#[test]
fn memory_around_half_a_gibibyte_makes_no_kind_of_its_own() {
    let fleet = flat(0.01, 2).judged();
    assert_eq!(fleet.kinds.len(), 1, "{:?}", fleet.kinds);
}

#[test]
fn two_groups_are_named_with_what_differs() {
    for (slower, factor) in [(8, 1.05), (6, 1.10)] {
        let mut exact = 0;
        for seed in 0..20 {
            let cluster = Cluster { slow: (0..slower).map(|at| (at, factor)).collect(), ..flat(0.01, seed) };
            let mut records = cluster.records();
            for (at, record) in records.iter_mut().enumerate().take(16) {
                record.file.machine.microcode = Some(if at < slower { "0x1" } else { "0x2" }.to_owned());
            }
            let fleet = judged(&records);
            if let Some(group) = fleet.groups.first() {
                assert_eq!(group.differs, ["microcode: 0x1, others 0x2"], "{group:?}");
                assert!(
                    fleet.notes.iter().any(|note| note.contains("microcode differs: ") && note.contains("0x2 on n[0")),
                    "{:?}",
                    fleet.notes
                );
            }
            exact += usize::from(is_exact(&fleet, &(0..slower).collect::<Vec<_>>(), &[]));
        }
        assert!(exact >= 19, "{slower} by {factor}: {exact} of 20");
    }
}

#[test]
fn disturbances_are_the_caveats_of_other_programs() {
    let record = Cluster { disturbed: vec![(0, 1.2)], ..flat(0.01, 1) }.node(0);
    assert_eq!(record.cases[0].caveats, [Caveat::OtherPrograms]);
}

/// The record of a node on each of ten days.
fn days(level: impl Fn(usize, usize) -> f64, seed: u64) -> Vec<record::Record> {
    let mut all = Vec::new();
    for day in 0..10 {
        for at in 0..12 {
            let cluster = Cluster {
                slow: vec![(at, level(at, day))],
                ..Cluster::healthy(Structure::Flat(12), 0.01, seed * 100 + day as u64)
            };
            let mut record = cluster.node(at);
            record.file.started = format!("2026-01-{:02}T00:00:00Z", day + 1);
            all.push(record);
        }
    }
    all
}

#[test]
fn an_archive_says_what_nodes_are_now_and_since_when() {
    for seed in 0..20 {
        // Node 2 was repaired on the fifth day; node 7 is slow since the eighth.
        let level = |at: usize, day: usize| match at {
            2 if day < 5 => 1.3,
            7 if day >= 7 => 1.2,
            _ => 1.0,
        };
        let fleet = judged(&days(level, seed));
        assert!(is_exact(&fleet, &[7], &[]), "{seed}: {:?}", fleet.nodes);
        assert_eq!(fleet.count(NodeVerdict::Good), 11, "{seed}");
    }
}

/// The tournaments of a launcher on each of ten days: the port of node 3 was repaired on the fifth, that of node 9 is slow since
/// the eighth, and so is a link.
#[test]
fn an_archive_of_tournaments_says_which_ports_and_links_are_slow_now_and_since_when() {
    for seed in 0..10 {
        let record = |day: usize| {
            let slow_ports = [(3, day < 5), (9, day >= 7)].into_iter().filter(|(_, is_slow)| *is_slow);
            let cluster = Cluster {
                slow_ports: slow_ports.map(|(at, _)| (at, 2.0)).collect(),
                slow_links: if day >= 7 { vec![([1, 12], 1.5)] } else { Vec::new() },
                ..flat(0.01, seed * 100 + day as u64)
            };
            let mut record = cluster.launched();
            record.file.started = format!("2026-01-{:02}T00:00:00Z", day + 1);
            record
        };
        // In any order.
        let records: Vec<record::Record> = (0..10).rev().map(record).collect();
        let fleet = judged(&records);
        assert!(is_exact(&fleet, &[9], &[[1, 12]]), "{seed}: {:?}\n{:?}", fleet.nodes, fleet.links);
        assert!(fleet.nodes[9].slow.iter().all(|slow| slow.since.as_deref() == Some("2026-01-08")), "{seed}");
        assert!(fleet.links.iter().all(|link| link.since.as_deref() == Some("2026-01-08")), "{:?}", fleet.links);
        let repaired = fleet.notes.iter().filter(|note| note.contains(&format!("{} is not slow", host(3)))).count();
        assert_eq!(repaired, 0, "said again: {:?}", fleet.notes);
        // On the day of the repair it is.
        let then: Vec<record::Record> = (0..6).map(record).collect();
        let fleet = judged(&then);
        assert!(is_exact(&fleet, &[], &[]), "{seed}: {:?}", fleet.nodes);
        let news = format!("{} is not slow with every other node since 2026-01-06", host(3));
        assert!(fleet.notes.iter().any(|note| note.contains(&news)), "{:?}", fleet.notes);
    }
}

/// No other node tells whether it is slow, or its switch.
#[test]
fn a_slow_port_of_a_node_alone_on_its_switch_is_not_called_good() {
    let structure = Structure::Racks(vec![15, 1]);
    let cluster = Cluster { slow_ports: vec![(15, 2.0)], ..Cluster::healthy(structure, 0.01, 4) };
    let topology = Topology::parse("SwitchName=a Nodes=n[001-015]\nSwitchName=b Nodes=n016\n").unwrap();
    let with = fleet(&taken(&cluster.records()), Some(&topology), &[]);
    assert_eq!((with.count(NodeVerdict::Good), with.nodes[15].verdict), (15, NodeVerdict::CannotTell), "{with:?}");
    assert!(with.nodes[15].unknown.contains("which no other node has"), "{:?}", with.nodes[15]);
}

#[test]
fn a_topology_of_other_hosts_says_so_and_is_left_out() {
    let cluster = Cluster::healthy(Structure::Racks(vec![15, 1]), 0.01, 4);
    let topology = Topology::parse("SwitchName=a Nodes=m[01-16]\n").unwrap();
    let with = fleet(&taken(&cluster.records()), Some(&topology), &[]);
    assert_eq!((with.count(NodeVerdict::Good), with.nodes[15].verdict), (15, NodeVerdict::CannotTell), "{with:?}");
    assert!(with.notes.iter().any(|note| note.contains("names none of these hosts")), "{:?}", with.notes);
}

/// The coordinator looks at its own host.
#[test]
fn messages_of_a_disturbed_coordinator_condemn_neither_its_port_nor_its_links() {
    let mut record = Cluster { slow_ports: vec![(0, 1.5)], ..flat(0.01, 4) }.launched();
    record.file.machine.host = host(0);
    record.cases.iter_mut().for_each(|line| line.caveats.push(Caveat::OtherPrograms));
    let found = judged(std::slice::from_ref(&record));
    assert!(is_exact(&found, &[], &[]), "{found:?}");
    assert_eq!(found.nodes[0].verdict, NodeVerdict::CannotTell, "{:?}", found.nodes[0]);
    record.cases.iter_mut().for_each(|line| line.caveats.clear());
    assert!(is_exact(&judged(&[record]), &[0], &[]));
}

fn on_day(mut record: record::Record, day: u32) -> record::Record {
    record.file.started = format!("2026-01-{day:02}T00:00:00Z");
    record
}

/// Work on fewer nodes is still that work of each.
#[test]
fn what_failed_is_past_once_a_later_run_of_other_nodes_is_right() {
    let mut monday = on_day(flat(0.01, 3).launched(), 1);
    monday.cases[2].wrong = Some(20);
    let mut nodes: Vec<record::Record> = (0..16).map(|at| on_day(flat(0.01, 3).node(at), 1)).collect();
    nodes.push(monday);
    assert_eq!(judged(&nodes).count(NodeVerdict::Good), 0);
    nodes.push(on_day(Cluster::healthy(Structure::Flat(15), 0.01, 3).launched(), 2));
    let later = judged(&nodes);
    assert_eq!((later.count(NodeVerdict::Good), later.nodes[15].verdict), (15, NodeVerdict::CannotTell), "{later:?}");
    nodes.push(on_day(flat(0.01, 3).launched(), 3));
    let last = judged(&nodes);
    assert_eq!((last.count(NodeVerdict::Good), last.failures.len()), (16, 0), "{last:?}");
}

#[test]
fn runs_of_other_numbers_of_nodes_are_judged_as_one_kind_of_work() {
    let local = |nodes: usize, day: u32| {
        let mut record = on_day(Cluster::healthy(Structure::Flat(nodes), 0.01, 3).launched(), day);
        record.cases.truncate(1);
        let line = &mut record.cases[0];
        (line.bytes, line.per_rank_median_s) = (None, Some(vec![1e-3; nodes]));
        line.metrics = record::SharedMap::default();
        line.parameters.insert("bytes", serde_json::Value::Null);
        line.parameters.insert("ranks", nodes.into());
        record
    };
    let fleet = judged(&[local(16, 1), local(12, 2)]);
    assert_eq!((fleet.criteria.len(), fleet.criteria[0].nodes), (1, 16), "{:?}", fleet.criteria);
}

/// Half of the nodes have half of the memory, and are slower: a new one of these is judged by them.
#[test]
fn a_newcomer_of_a_smaller_kind_is_judged_by_that_kind() {
    let small = |mut record: record::Record| {
        record.file.machine.memory_bytes = record.file.machine.memory_bytes.map(|bytes| bytes / 2);
        for line in &mut record.cases {
            line.trial_median_s.iter_mut().for_each(|trial| *trial *= 1.5);
            line.time_s.as_mut().unwrap().median *= 1.5;
        }
        record
    };
    let cluster = flat(0.01, 1);
    let records: Vec<record::Record> =
        (0..16).map(|at| if at < 8 { cluster.node(at) } else { small(cluster.node(at)) }).collect();
    let learned = judged(&records);
    let verdict = |record| against(&learned, &taken(&[record]), &[]).nodes[0].verdict;
    assert_eq!(verdict(small(flat(0.01, 500).node(0))), NodeVerdict::Good);
    assert_eq!(verdict(flat(0.01, 501).node(0)), NodeVerdict::Good);
}

/// A node whose host is lost in its own run, or in that of all nodes which it led, writes no more.
#[test]
fn a_node_that_led_a_run_without_an_end_is_not_called_good() {
    for end in [RunEnd::Killed, RunEnd::Unknown] {
        let mut records = flat(0.01, 3).records();
        let last = records.len() - 1;
        (records[last].file.machine.host, records[last].end) = (host(0), end);
        let found = judged(&records);
        let verdict = |at: usize| (found.count(NodeVerdict::Good), found.nodes[at].verdict);
        assert_eq!(verdict(0), (15, NodeVerdict::CannotTell), "{found:?}");
        assert!(found.nodes[0].unknown.contains("the run that it led has no end"), "{:?}", found.nodes[0]);
        // A later run of it came to its end.
        records.push(on_day(flat(0.01, 3).launched(), 2));
        assert_eq!(judged(&records).nodes[0].verdict, NodeVerdict::Good);
        let mut nodes: Vec<record::Record> = (0..16).map(|at| flat(0.01, 3).node(at)).collect();
        nodes[5].end = end;
        let found = judged(&nodes);
        let verdict = |at: usize| (found.count(NodeVerdict::Good), found.nodes[at].verdict);
        assert_eq!(verdict(5), (15, NodeVerdict::CannotTell), "{found:?}");
    }
}

#[test]
fn a_host_at_the_end_of_a_sentence_is_blamed() {
    let mut records = flat(0.01, 3).records();
    let last = records.len() - 1;
    records[last].cases[2].status = Status::Failed;
    records[last].cases[2].reason = Some("nothing has come from n004. The others wait".to_owned());
    let found = judged(&records);
    assert!(is_exact(&found, &[3], &[]), "{found:?}");
}

#[test]
fn a_node_that_throttles_is_slow() {
    let mut records = Cluster { slow: vec![(4, 1.3)], ..flat(0.01, 3) }.records();
    records[4].cases[0].caveats.push(Caveat::Throttled);
    let found = judged(&records);
    assert!(is_exact(&found, &[4], &[]), "{:?}", found.nodes[4]);
    let is_said = |note: &String| note.contains("clock throttling differs: ") && note.contains(", seen on n005");
    assert!(found.notes.iter().any(is_said), "{:?}", found.notes);
}

#[test]
fn a_port_that_is_down_or_slow_is_a_note() {
    let mut records = flat(0.01, 3).records();
    for record in &mut records {
        let file = &mut record.file;
        for machine in std::iter::once(&mut file.machine).chain(&mut file.hosts) {
            let megabits = |port: usize| if machine.host == host(3) && port == 2 { 200_000 } else { 400_000 };
            let ports = (0..8).filter(|port| machine.host != host(9) || *port > 0);
            machine.interfaces = ports
                .map(|port| NetworkInterface { name: format!("mlx5_{port}:1"), megabits: Some(megabits(port)) })
                .collect();
        }
    }
    let found = judged(&records);
    let note = found.notes.iter().find(|note| note.starts_with("InfiniBand differs: 8 x 400 Gbit/s on n[001-003,"));
    let note = note.unwrap_or_else(|| panic!("{:?}", found.notes));
    assert!(note.contains("7 x 400 Gbit/s on n010"), "{note}");
    assert!(note.contains("7 x 400 Gbit/s, 1 x 200 Gbit/s on n004"), "{note}");
}

#[test]
fn links_without_a_time_are_not_called_good() {
    let mut record = flat(0.01, 4).launched();
    let square = record.cases[1].metrics.get("pair_s").unwrap().clone();
    let mut square: Vec<Vec<f64>> = serde_json::from_value(square).unwrap();
    square[2][5] = 0.0;
    record.cases[1].metrics.insert("pair_s".to_owned(), serde_json::json!(square));
    let found = judged(&[record]);
    assert!(found.is_blind_to_links(), "{:?}", found.link_criteria);
}

#[test]
fn a_node_says_why_one_of_its_cases_tells_nothing() {
    let mut nodes: Vec<record::Record> = (0..16).map(|at| flat(0.01, 3).node(at)).collect();
    nodes[3..].iter_mut().for_each(|record| record.cases.truncate(1));
    let found = judged(&nodes);
    let told = "fewer than 5 nodes of its kind have a time of case 1";
    assert_eq!((found.nodes[0].verdict, found.nodes[0].unknown.as_str()), (NodeVerdict::CannotTell, told));
    let mut newcomer = flat(0.01, 5).node(0);
    newcomer.cases.iter_mut().for_each(|line| line.parameters.insert("bytes", 77.into()));
    newcomer.cases.truncate(1);
    let found = against(&flat(0.01, 1).judged(), &taken(&[newcomer]), &[]);
    assert!(found.nodes[0].unknown.contains("among what was learned"), "{:?}", found.nodes[0]);
}

#[test]
fn gpus_without_a_rank_are_a_note() {
    let mut nodes: Vec<record::Record> = (0..16).map(|at| flat(0.01, 3).node(at)).collect();
    assert!(!judged(&nodes).notes.iter().any(|note| note.contains("GPUs")));
    nodes.iter_mut().for_each(|record| record.cases[0].device = "cuda".to_owned());
    let found = judged(&nodes);
    let told = "2 of 8 GPUs were measured on n[001-016]: ";
    assert!(found.notes.iter().any(|note| note.starts_with(told)), "{:?}", found.notes);
}
