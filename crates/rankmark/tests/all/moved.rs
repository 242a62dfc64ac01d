//! The folder of a record is removed or moved while a command writes to it: the command ends within a round, says where the
//! results are, and makes no other folder.

use std::fs;

use crate::place::{Ended, Place};
use crate::processes::wait_until;

const PLAN: &str = "experiment: moved
defaults: {ranks: 2, max_seconds: 0.02s, trials: 100}
cases:
  - {benchmark: collective, op: all_reduce, bytes: [1KiB, 4KiB]}
";

/// Commands that measure until somebody ends them, as far as a test is concerned.
const LONG: [&str; 4] = [
    "run plan.yaml --set trials=100",
    "comm all_reduce --bytes 1KiB --max-seconds 0.02s --trials 100 --inject delay:rank=1,time=1ms",
    "hardware triad --bytes 4MiB --threads 1 --max-seconds 0.02s --trials 100",
    "compare --interleave plan.yaml",
];

/// Starts a command whose record goes to `results/out`, does something to that folder in the middle, and waits for the end.
fn disturbed(place: &Place, command: &str, disturb: impl FnOnce()) -> Ended {
    place.write("plan.yaml", PLAN);
    let live = place.start(&format!("{command} --output-dir results/out"));
    live.await_lines(&place.path("results/out/cases.jsonl"), 2);
    disturb();
    live.wait().exits(2)
}

#[test]
fn a_folder_that_is_moved_is_named() {
    for command in LONG {
        let place = Place::new();
        let [from, to] = ["results/out", "results/kept"].map(|name| place.path(name));
        let ended = disturbed(&place, command, || fs::rename(&from, &to).unwrap());
        let kept = to.canonicalize().unwrap().display().to_string();
        for words in ["was moved away from results/out during the run", &kept, " finished case", "rankmark report"] {
            assert!(ended.err.contains(words), "{command}: `{words}` is missing in {}", ended.err);
        }
        assert!(!from.exists(), "{command}: a folder was made where the record was");
        assert!(!to.join("report.md").exists() && !to.join("run.json.lock").exists(), "{command}");
        // What was measured is whole.
        let record = place.run("list records results --json").exits(0).out;
        assert!(record.contains("results/kept") && record.contains("\"damaged_lines\":0"), "{command}: {record}");
        place.run("report results/kept").exits(0);
    }
}

#[test]
fn a_folder_that_is_removed_is_said_to_be_lost() {
    for command in LONG {
        let place = Place::new();
        let ended = disturbed(&place, command, || fs::remove_dir_all(place.path("results")).unwrap());
        for words in ["results/out, was removed during the run", "finished cases are lost", "start the run again"] {
            assert!(ended.err.contains(words), "{command}: `{words}` is missing in {}", ended.err);
        }
        assert!(!place.path("results").exists(), "{command}: a folder was made where the record was");
    }
}

#[test]
fn another_folder_in_its_place_is_left_alone() {
    let place = Place::new();
    let out = place.path("results/out");
    let ended = disturbed(&place, LONG[0], || {
        fs::rename(&out, place.path("elsewhere")).unwrap();
        fs::create_dir(&out).unwrap();
        fs::write(out.join("run.json.lock"), "mine").unwrap();
    });
    assert!(ended.err.contains("elsewhere now"), "{}", ended.err);
    let names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!((names, fs::read(out.join("run.json.lock")).unwrap()), (vec!["run.json.lock".into()], b"mine".to_vec()));
}

#[test]
fn a_profile_notices_it_before_it_writes() {
    let place = Place::new();
    let profile =
        "profile --model gpt2-mini --ranks 2 --compute sleep --sleep-time 1ms --duration 2s --output-dir results/out";
    let live = place.start(profile);
    live.await_ranks(2);
    fs::rename(place.path("results"), place.path("kept")).unwrap();
    let ended = live.wait().exits(2);
    assert!(ended.err.contains("was moved away from results/out") && ended.err.contains("kept/out"), "{}", ended.err);
    assert!(!place.path("results").exists());
}

#[test]
fn a_job_goes_on_and_its_traces_are_found() {
    for (words, end) in [
        ("was moved away from results/out/trace while the job ran: it is", Some("kept")),
        ("results/out/trace, was removed while the job ran: what ranks had written is lost", None),
    ] {
        let place = Place::new();
        place.write("job.sh", "touch began; while [ ! -e end ]; do sleep 0.05; done; touch ended");
        let live = place.start("profile --output-dir results/out -- sh job.sh");
        assert!(wait_until(std::time::Duration::from_secs(60), || place.path("began").exists()));
        match end {
            Some(to) => fs::rename(place.path("results"), place.path(to)).unwrap(),
            None => fs::remove_dir_all(place.path("results")).unwrap(),
        }
        // Said while the job runs, and again at its end.
        live.await_error(words, std::time::Duration::from_secs(60));
        place.write("end", "");
        let ended = live.wait().exits(2);
        assert!(place.path("ended").exists() && ended.err.contains("error: the folder of the traces"), "{}", ended.err);
        assert!(!place.path("results").exists());
    }
}
