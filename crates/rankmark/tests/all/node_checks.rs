//! examples/slurm: the node check and the nightly job, as they stand there, by hand and in a real Slurm.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::fleets;
use crate::place::{Ended, Place};
use crate::skip;
use crate::slurm::{in_cluster, lacks};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slurm");
const RANKMARK: &str = concat!("RANKMARK=", env!("CARGO_BIN_EXE_rankmark"));

/// Two native cases of six trials, in a few seconds.
const SHORT: &str = "experiment: node-check\n\
    defaults: {trials: 6, spacing: 0s, iters: 5, warmup: 1, limits: false}\n\
    cases:\n  - {benchmark: collective, op: [all_reduce, all_gather], ranks: 2, bytes: 1KiB}\n";

/// The check with these variables and no others, as slurmd starts it.
fn check(place: &Place, variables: &str) -> Ended {
    let temporary = place.temporary().display().to_string();
    let line = format!("-i PATH=/usr/bin:/bin TMPDIR={temporary} {variables} {EXAMPLES}/node-check.sh");
    let ended = place.command_of("env", &line).run();
    let left: Vec<_> = fs::read_dir(place.temporary()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}: {}", ended.err);
    ended
}

#[test]
fn the_node_check_ends_within_its_bound_on_this_machine() {
    let place = Place::new();
    let begin = Instant::now();
    let ended = check(&place, RANKMARK).exits(0);
    assert!(ended.err.contains("node check: good: results are right, and gates hold"), "{}", ended.err);
    // Its own default, and what the program takes to end at TERM.
    assert!(begin.elapsed() < Duration::from_secs(50), "{:?}", begin.elapsed());
}

/// A Prolog delays each job. Other builds and tests of this machine delay the check, too, so what counts is what it is to take.
#[test]
fn the_node_check_takes_less_than_ten_seconds() {
    let place = Place::new();
    let shown = place.run(&format!("run {EXAMPLES}/node-check.yaml --dry-run")).exits(0).out;
    let line = shown.lines().find(|line| line.contains("about ")).unwrap_or_else(|| panic!("{shown}"));
    let number = line.split("about ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse().ok());
    assert!(number.is_some_and(|seconds: f64| seconds < 10.0) && line.contains(" s"), "{line}");
}

#[test]
fn its_exit_code_says_what_was_found() {
    let place = Place::new();
    let of = |plan: &str, more: &str| {
        place.write("plan.yaml", plan);
        check(&place, &format!("{RANKMARK} RANKMARK_PLAN={} {more}", place.path("plan.yaml").display()))
    };
    let says = |ended: Ended, words: &str| assert!(ended.err.contains(words), "{words}: {}", ended.err);
    says(of(SHORT, "").exits(0), "good: results are right");
    let gate = SHORT.replace("1KiB}", "1KiB, expect: [\"busbw_gbs>=1000000\"]}");
    says(of(&gate, "").exits(1), "bad: a case failed, is wrong or missed its gate");
    let long = SHORT.replace("spacing: 0s", "spacing: 2s");
    let begin = Instant::now();
    says(of(&long, "RANKMARK_LIMIT=2").exits(1), "bad: not ready within 2 s");
    // KILL would come five seconds after TERM.
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    // A check that is not possible drains no node, unless it is asked to.
    says(of("cases: [", "").exits(0), "no verdict: rankmark run ended with 2");
    says(of("cases: [", "RANKMARK_STRICT=1").exits(2), "no verdict: rankmark run ended with 2");
    says(check(&place, "RANKMARK=/nowhere/rankmark").exits(0), "no verdict: /nowhere/rankmark is not installed");
}

#[test]
fn a_node_is_judged_by_what_a_fleet_learned() {
    let place = Place::new();
    // Simulated, so that no program of this machine disturbs it: a disturbed node is not called slow.
    place.write("plan.yaml", SHORT.replace("limits: false", "limits: false, backend: sim"));
    place.run("run plan.yaml --quiet --output-dir base").exits(0);
    // Healthy nodes take 10 s for a call, so this one is fast; then a nanosecond.
    for (level, code, words) in [(1e4, 0, "good: as fast as the nodes of"), (1e-6, 1, "bad: slow: ")] {
        for number in 1..=8 {
            fleets::node(&place, &format!("node{number:02}"), number, [level; 2]);
        }
        place.run("fleet nodes --output-dir fleet --quiet").exits(0);
        let variables = format!(
            "{RANKMARK} RANKMARK_PLAN={} RANKMARK_CRITERIA={}",
            place.path("plan.yaml").display(),
            place.path("fleet/fleet.json").display()
        );
        let ended = check(&place, &variables).exits(code);
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
}

#[test]
fn slurm_drains_a_node_whose_check_fails_and_runs_the_nightly_job_on_a_good_one() {
    if let Some(why) = lacks() {
        return skip::skip("the node check as a Prolog of Slurm", &why);
    }
    let place = Place::new();
    place.write("plan.yaml", SHORT);
    // Slurm passes none of Rankmark's variables to a Prolog.
    let plan = place.path("plan.yaml").display().to_string();
    let prolog = format!("#!/bin/sh\nexport {RANKMARK} RANKMARK_PLAN={plan}\nexec {EXAMPLES}/node-check.sh\n");
    place.write("prolog.sh", prolog);
    fs::set_permissions(place.path("prolog.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let gate = SHORT.replace("1KiB}", "1KiB, expect: [\"busbw_gbs>=1000000\"]}");
    place.write("gate.yaml", gate);
    let history = place.path("history").display().to_string();
    let script = format!(
        "export RANKMARK_HISTORY={history} RANKMARK=$rankmark RANKMARK_PLAN={plan}\n\
         sbatch --wait --output=nightly.log {EXAMPLES}/nightly.sbatch; echo nightly $?\n\
         echo state $(sinfo -h -o %T)\n\
         cp gate.yaml plan.yaml\n\
         sbatch --output=never.log --wrap 'touch never'\n\
         looks=0; until sinfo -h -o %T | grep -q drain || [ $looks -gt 600 ]; do looks=$((looks + 1)); sleep 0.05; done\n\
         echo state $(sinfo -h -o %T)\n"
    );
    let said = in_cluster(&place, &script).exits(0);
    let log = fs::read_to_string(place.path("nightly.log")).unwrap_or_default();
    assert!(said.out.contains("nightly 0\nstate idle\n"), "{}{}{log}", said.out, said.err);
    assert!(said.out.contains("\nstate drain"), "{}{}", said.out, said.err);
    assert!(!place.path("never").exists());
    // The run is in the history.
    assert!(place.path("history/history.html").is_file() && place.path("history/rankmark.prom").is_file(), "{log}");
    let runs = fs::read_dir(&history).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(runs, 1, "{log}");
}
