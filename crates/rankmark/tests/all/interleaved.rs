//! `compare --interleave`: two sides, two living worlds, one verdict a case.

use serde_json::Value;

use crate::place::{Place, json_lines, reason};

/// Computed times with noise of 2% and a seed.
fn noisy(place: &Place, bytes: &str) {
    let case = format!("{{benchmark: collective, backend: sim, ranks: 2, bytes: {bytes}, noise: 2%, noise_seed: 7}}");
    place.write("noisy.yaml", format!("experiment: noisy\ncases:\n  - {case}\n"));
}

fn exact(place: &Place) {
    let case = "{benchmark: collective, backend: sim, ranks: 2, bytes: [1KiB, 64KiB]}";
    place.write("exact.yaml", format!("experiment: exact\ncases:\n  - {case}\n"));
}

fn interleaved(place: &Place) -> Value {
    place.run_file("out")["interleaved"].clone()
}

/// Rounds and trial medians of a line.
fn trials(line: &Value) -> (Vec<u64>, Vec<f64>) {
    let rounds = line["trial_round"].as_array().unwrap().iter().map(|round| round.as_u64().unwrap()).collect();
    let medians = line["trial_median_s"].as_array().unwrap().iter().map(|median| median.as_f64().unwrap()).collect();
    (rounds, medians)
}

#[test]
fn exact_times_are_decided_at_once() {
    let place = Place::new();
    exact(&place);
    let ended = place.run("compare --interleave exact.yaml --json --output-dir out").exits(0);
    let cases = json_lines(&ended.out);
    assert_eq!(cases.len(), 2);
    for case in &cases {
        assert_eq!((&case["verdict"], &case["ratio"]), (&"same".into(), &1.0.into()), "{case}");
        assert_eq!(case["log_ratios"].as_array().unwrap().len(), 1);
    }
    assert_eq!(interleaved(&place)["cases"], Value::from(cases), "the record has the same objects");
    assert!(
        ended.err.contains("SIMULATED") && ended.err.contains("the same within 3% in all 2 cases"),
        "{}",
        ended.err
    );
    // 5 us more latency on both steps of a ring of two.
    let slower = "compare --interleave exact.yaml --set-b link_latency=10us --set-b link_bandwidth=10GB/s --json";
    let ended = place.run(&format!("{slower} --output-dir slow")).exits(1);
    for case in json_lines(&ended.out) {
        assert_eq!(case["verdict"], "worse", "{case}");
        assert!(
            case["ratio"].as_f64().unwrap() > 1.2 && case["differs"]["link_latency"][1].as_f64() > Some(9e-6),
            "{case}"
        );
    }
    assert!(ended.err.contains("B takes"), "{}", ended.err);
}

#[test]
fn equal_sides_are_the_same_and_a_planted_change_is_found() {
    let place = Place::new();
    noisy(&place, "1KiB");
    let ended = place.run("compare --interleave noisy.yaml --json --output-dir out").exits(0);
    let case = &json_lines(&ended.out)[0];
    assert_eq!(case["verdict"], "same", "{case}");
    let pairs = case["log_ratios"].as_array().unwrap();
    assert!(pairs.len() >= 6, "{case}");
    let distinct: std::collections::HashSet<String> = pairs.iter().map(Value::to_string).collect();
    assert_eq!(distinct.len(), pairs.len(), "the noise of each pair and side is its own");
    let changed = "compare --interleave noisy.yaml --set-a link_latency=5us --set-b link_latency=5.5us --json";
    let ended = place.run(&format!("{changed} --output-dir changed")).exits(1);
    let case = &json_lines(&ended.out)[0];
    let ends = [0, 1].map(|end| case["ratio_ci95"][end].as_f64().unwrap());
    assert!(case["verdict"] == "worse" && ends[0] > 1.0 && ends[0] < 1.1 && ends[1] > 1.08, "{case}");
    let better =
        "compare --interleave noisy.yaml --set-b link_latency=4.5us --set-a link_latency=5us --output-dir better";
    let ended = place.run(better).exits(0);
    assert!(ended.out.contains("B compared with A: better."), "{}", ended.out);
}

#[test]
fn the_record_has_a_round_for_each_pair_and_the_slices_of_each_trial() {
    let place = Place::new();
    noisy(&place, "[1KiB, 2KiB]");
    // Nothing is the same within so little, and in some tries equal sides seem to differ.
    let ended = place.run("compare --interleave noisy.yaml --set trials=8 --threshold 0.01% --output-dir out");
    assert!([Some(1), Some(3), Some(0)].contains(&ended.status.code()), "{}", ended.err);
    let lines = place.cases("out");
    assert_eq!(lines.len(), 4, "both sides of two cases");
    let orders: Vec<String> = serde_json::from_value(interleaved(&place)["orders"].clone()).unwrap();
    assert!([6, 8].contains(&orders.len()), "one of the two looks");
    for block in orders.chunks(2) {
        let mut block = block.to_vec();
        block.sort();
        assert_eq!(block, ["ABBA", "BAAB"], "one of each in every two pairs");
    }
    for pair in lines.chunks(2) {
        assert_eq!((&pair[0]["parameters"]["side"], &pair[1]["parameters"]["side"]), (&"A".into(), &"B".into()));
        let [(rounds, a), (of_b, b)] = [trials(&pair[0]), trials(&pair[1])];
        let pairs = rounds.len() as u64;
        assert_eq!((&rounds, &of_b), (&(0..pairs).collect(), &(0..pairs).collect()));
        let told = interleaved(&place)["cases"].clone();
        let told = told.as_array().unwrap().iter().find(|case| case["ids"][0] == pair[0]["id"]).unwrap().clone();
        assert_eq!(told["log_ratios"].as_array().unwrap().len() as u64, pairs);
        for (round, log) in told["log_ratios"].as_array().unwrap().iter().enumerate() {
            let own = (b[round] / a[round]).ln();
            assert!((log.as_f64().unwrap() - own).abs() < 0.02, "round {round}: {log} and {own}");
        }
        assert!(pair.iter().all(|line| line["wrong"] == 0 && line["worlds"] == "fresh"), "{pair:?}");
    }
    let samples = json_lines(&place.read("out/samples.jsonl"));
    let trials = lines.iter().map(|line| line["trials"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(samples.len() as u64, trials);
    for trial in &samples {
        let slices: Vec<u64> = serde_json::from_value(trial["slices"].clone()).unwrap();
        let count = trial["ns"][0].as_array().unwrap().len() as u64;
        assert!(slices.len() == 2 && slices[0] == slices[1] && slices.iter().sum::<u64>() == count, "{trial}");
        assert_eq!(trial["calls"], samples.iter().find(|other| other["id"] == trial["id"]).unwrap()["calls"]);
    }
    let report = place.read("out/report.md");
    assert!(report.contains("side A") && report.contains("side B"), "{report}");
    // No rounds of later can be pairs of these.
    place.run("run --resume out").refuses(&["measured interleaved", "hint:"]);
}

#[test]
fn processes_are_compared_and_both_worlds_are_alive_at_once() {
    let place = Place::new();
    let case = "{benchmark: collective, ranks: 1, bytes: 4KiB, backend: shm}";
    place.write("plan.yaml", format!("experiment: own\ncases:\n  - {case}\n"));
    let arguments =
        "compare --interleave plan.yaml --set-b inject=delay:rank=0,time=200us --max-seconds 2s --output-dir out";
    let live = place.start(arguments);
    live.await_ranks(2);
    let ended = live.wait().exits(1);
    assert!(ended.out.contains("B compared with A: worse.") && ended.out.contains("injected"), "{}", ended.out);
    let lines = place.cases("out");
    assert!(lines.iter().all(|line| line["wrong"] == 0 && line["trials"].as_u64().unwrap() >= 6), "{lines:?}");
}

#[test]
fn a_rank_that_dies_fails_its_case_alone() {
    let place = Place::new();
    let case = "{benchmark: collective, ranks: 2, bytes: [4KiB, 8KiB], backend: shm, max_seconds: 1s}";
    place.write("a.yaml", format!("experiment: a\ncases:\n  - {case}\n"));
    let kill = case.replace("[4KiB, 8KiB]", "8KiB, inject: 'kill:rank=1,at=40'");
    let other = case.replace("[4KiB, 8KiB]", "4KiB");
    place.write("b.yaml", format!("experiment: b\ncases:\n  - {kill}\n  - {other}\n"));
    let ended = place.run("compare --interleave a.yaml b.yaml --max-seconds 1s --output-dir out");
    let ended = ended.exits(1);
    let lines = place.cases("out");
    let failed: Vec<&Value> = lines.iter().filter(|line| line["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{lines:?}");
    assert!(
        reason(failed[0]).contains("side B, pair 1: rank 1") && reason(failed[0]).contains("signal 9"),
        "{failed:?}"
    );
    assert!(ended.out.contains("signal 9") && ended.out.contains("failed"), "{}", ended.out);
    let told = interleaved(&place)["cases"].clone();
    let other = told.as_array().unwrap().iter().find(|case| case["status"] == "ok").unwrap();
    assert!(other["log_ratios"].as_array().unwrap().len() >= 6, "{other}");
}

#[test]
fn ctrl_c_ends_it_with_what_is_there() {
    let place = Place::new();
    let case = "{benchmark: collective, ranks: 2, bytes: 4KiB, backend: shm}";
    place.write("plan.yaml", format!("experiment: long\ncases:\n  - {case}\n"));
    let live = place.start("compare --interleave plan.yaml --threshold 0.001% --max-seconds 600s --output-dir out");
    live.await_lines(&place.path("out/cases.jsonl"), 4);
    live.signal(libc::SIGINT);
    let ended = live.wait().exits(130);
    assert!(ended.out.contains("interrupted by SIGINT"), "{}", ended.out);
    let told = interleaved(&place)["cases"][0].clone();
    assert!(!told["log_ratios"].as_array().unwrap().is_empty() && told["status"] == "ok", "{told}");
    place.run("report out").exits(0);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let place = Place::new();
    exact(&place);
    place.write(
        "other.yaml",
        "experiment: o\ncases:\n  - {benchmark: collective, backend: sim, ranks: 2, bytes: [2KiB, 4KiB]}\n",
    );
    place.write("env.yaml", "experiment: e\ncases:\n  - {benchmark: collective, backend: shm, ranks: 2, env: [A=1]}\n");
    let refuses = |arguments: &str, words: &[&str]| place.run(&format!("compare {arguments}")).refuses(words);
    refuses("--interleave exact.yaml other.yaml", &["nothing in common", "hint:"]);
    refuses("--interleave exact.yaml exact.yaml exact.yaml", &["two plans, not 3"]);
    refuses("--interleave missing.yaml", &["missing.yaml"]);
    refuses("--interleave env.yaml --env-b B=2", &["sets the environment of ranks itself", "--env-a and --env-b"]);
    refuses("--interleave exact.yaml --set-b nonsense", &["sets nothing"]);
    refuses("--interleave exact.yaml --threshold 0%", &["--threshold"]);
    refuses("--interleave exact.yaml --binary-b /bin/true", &["no effect on backend `sim`"]);
    refuses("--interleave env.yaml --binary-b /bin/true", &["is not a rankmark"]);
    refuses("--interleave env.yaml --binary-b missing", &["is not a program"]);
    assert_eq!(place.names(), ["env.yaml", "exact.yaml", "other.yaml"], "nothing was written");
    let launched = place.command("compare --interleave exact.yaml");
    let mut launched = launched;
    launched.command.env("OMPI_COMM_WORLD_SIZE", "2").env("OMPI_COMM_WORLD_RANK", "0");
    launched.command.env("OMPI_COMM_WORLD_LOCAL_RANK", "0").env("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
    launched.run().refuses(&["cannot use the ranks of an external launcher", "one world at a time"]);
}

#[test]
fn another_build_may_be_side_b() {
    let place = Place::new();
    let case = "{benchmark: collective, ranks: 2, bytes: 4KiB, backend: shm}";
    place.write("plan.yaml", format!("experiment: builds\ncases:\n  - {case}\n"));
    let own = env!("CARGO_BIN_EXE_rankmark");
    let arguments =
        format!("compare --interleave plan.yaml --threshold 99% --max-seconds 1s --output-dir out --binary-b {own}");
    let ended = place.run(&arguments);
    assert!([Some(0), Some(3), Some(1)].contains(&ended.status.code()), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains(&format!("ranks of {own}")), "{}", ended.out);
    let side = &interleaved(&place)["sides"][1];
    assert!(
        side["program"] == own && side["version"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")),
        "{side}"
    );
    assert!(place.cases("out").iter().all(|line| line["wrong"] == 0));
    // Another protocol.
    let other = place.path("other");
    std::fs::write(&other, "#!/bin/sh\necho '{\"name\": \"rankmark\", \"version\": \"9.0.0\", \"protocol\": 99}'\n")
        .unwrap();
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&other, mode).unwrap();
    let refused = place.run("compare --interleave plan.yaml --binary-b other --output-dir not");
    refused.refuses(&["rankmark 9.0.0", "control protocol is another one", "that one has 99", "hint:"]);
}

#[test]
fn memory_counts_for_both_sides() {
    let place = Place::new();
    place.write(
        "huge.yaml",
        "experiment: h\ncases:\n  - {benchmark: collective, backend: shm, ranks: 2, bytes: 100TB}\n",
    );
    let ended = place.run("compare --interleave huge.yaml --output-dir out").exits(2);
    assert!(ended.out.contains("not enough memory"), "{}", ended.out);
    assert!(place.cases("out").iter().all(|line| line["status"] == "skipped"));
}

#[test]
fn a_verdict_goes_to_ci_systems_and_what_fails_is_chosen() {
    let place = Place::new();
    exact(&place);
    let slower = "compare --interleave exact.yaml --set-b link_latency=10us --quiet";
    place.run(&format!("{slower} --junit verdicts.xml --output-dir out")).exits(1);
    let xml = place.read("verdicts.xml");
    assert!(xml.contains("<failure") && xml.contains("worse: B / A is ") && xml.contains("rankmark compare"), "{xml}");
    place.run(&format!("{slower} --fail-on better --output-dir allowed")).exits(0);
    place.run(&format!("{slower} --fail-on none --output-dir none")).exits(0);
    place.run(&format!("{slower} --fail-on unmatched")).refuses(&["`--fail-on unmatched` is for records", "hint:"]);
}
