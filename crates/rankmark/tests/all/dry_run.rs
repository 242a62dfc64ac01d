//! `--dry-run`: what would run, and nothing that does.

use serde_json::{Value, json};

use crate::place::{Place, json_lines};

#[test]
fn a_dry_run_shows_the_cases_and_makes_nothing() {
    let place = Place::new();
    let line = "comm all_reduce,barrier --bytes 1KiB,64KiB --ranks 2 --spacing 2s --max-seconds 3s --trials";
    // Three cases: a barrier moves no bytes.
    let ended = place.run(&format!("{line} 4 --dry-run")).exits(0);
    let expected = "dry run   plan collective: nothing is started, nothing is written\n\
        note: 1 case is asked for more than once; each runs once, at its first place\n\n\
        collective  all_reduce  shm  in place  registered buffers  cache-warm  f32  sum\n  2 ranks      1 KiB\n  2 ranks     64 KiB\n\n\
        collective  barrier  shm\n  2 ranks\n\n\
        cases    3 would run\ntrials   12\n\
        time     about 10 s; at least 6 s: trials of a case begin that far apart; at most 9 s of sampling\n";
    assert_eq!((ended.out.as_str(), ended.err.as_str()), (expected, ""));
    assert_eq!(place.names(), [""; 0], "nothing is written");
}

#[test]
fn the_estimate_is_that_of_the_runner() {
    let place = Place::new();
    let one = |arguments: &str| -> Value {
        let mut starting = place.command("--json");
        // Not of the line that is given: that would get `--trials 1`.
        starting.command.args(arguments.split(' '));
        let ended = starting.run().exits(0);
        json_lines(&ended.out).remove(0)
    };
    let case = one("comm all_reduce --bytes 1KiB --dry-run");
    let (trials, times) = (["trials_at_least", "trials_at_most"], ["seconds_at_least", "sampling_seconds_at_most"]);
    let of = |case: &Value, names: [&str; 2]| names.map(|name| case[name].clone());
    // Six trials, 1.6 s apart: five waits.
    assert_eq!((of(&case, trials), of(&case, times)), ([json!(6), json!(42)], [json!(8.0), json!(5)].map(float)));
    assert_eq!((&case["outlook"], &case["parameters"]["bytes"]), (&json!("runs"), &json!(1024)));
    let quick = one("comm all_reduce --bytes 1KiB --quick --dry-run");
    assert_eq!((of(&quick, trials), &quick["seconds_at_least"]), ([json!(3), json!(3)], &json!(0.0)));
    let simulated = one("comm all_reduce --bytes 1KiB --backend sim --dry-run");
    assert_eq!((of(&simulated, trials), &simulated["seconds_at_least"]), ([json!(1), json!(1)], &json!(0.0)));
    let counted = one("comm all_reduce --bytes 1KiB --iters 5 --dry-run");
    assert_eq!(counted["sampling_seconds_at_most"], Value::Null);
    let budget = place.run("comm all_reduce --bytes 1KiB --trials 10 --budget 3s --dry-run").exits(0).out;
    assert!(budget.contains("\ntime     at most 3 s: --budget ends before"), "{budget}");
}

fn float(value: Value) -> Value {
    json!(value.as_f64().unwrap())
}

#[test]
fn what_would_be_skipped_is_named_with_its_reason() {
    let place = Place::new();
    let ended = place.run("comm all_reduce --backend shm,nccl --bytes 1KiB --dry-run").exits(0);
    assert!(ended.out.contains("  2 ranks      1 KiB  skipped: backend `nccl` is not ready: "), "{}", ended.out);
    assert!(ended.out.contains("\ncases    1 would run, 1 would be skipped\n"), "{}", ended.out);
    // As of the run itself.
    place.run("comm all_reduce --backend nccl --bytes 1KiB --dry-run").exits(2);
    // Nothing that a plan names is opened.
    let named = "comm all_reduce --backend mpi --mpi-library /nowhere/libmpi.so --bytes 1KiB --dry-run --json";
    let line = json_lines(&place.run(named).exits(0).out).remove(0);
    assert_eq!(line["outlook"], "not_looked_at");
    let reason = "the plan names the library `/nowhere/libmpi.so`, which a dry run does not touch";
    assert_eq!(line["reason"], reason);
    place.run("comm all_reduce --ranks 0 --dry-run").refuses(&["from 1 to 65536"]);
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn every_measuring_command_has_it_and_a_record_is_not_touched() {
    let place = Place::new();
    for (command, cases) in
        [("train --model gpt2-mini --ranks 1,2", 2), ("memory --model gpt2-mini --batch 1,2", 2), ("run", 20)]
    {
        let lines = json_lines(&place.run(&format!("{command} --dry-run --json")).exits(0).out);
        assert!(lines.len() >= cases, "{command}: {}", lines.len());
    }
    assert_eq!(place.names(), [""; 0]);
    place.run("comm all_reduce --bytes 1KiB,2KiB --trials 1 --max-seconds 0.02s --output-dir out").exits(0);
    let cases = place.read("out/cases.jsonl");
    let first = cases.lines().next().unwrap();
    place.write("out/cases.jsonl", format!("{first}\n"));
    let ended = place.run("run --resume out --dry-run").exits(0);
    assert!(
        ended.out.contains("  done before\n") && ended.out.contains("cases    1 would run, 1 done before"),
        "{}",
        ended.out
    );
    assert_eq!(place.read("out/cases.jsonl"), format!("{first}\n"));
}
