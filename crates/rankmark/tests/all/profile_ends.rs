//! `rankmark profile` of jobs that end badly, and of jobs that train in unusual ways: what is kept, and what is said of it.

use serde_json::Value;

use crate::place::{Ended, Place, statuses};
use crate::{pytorch, skip};

const JOB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/jobs/ends.py");

/// Profiles the job, with `--json`, into the record `r`. None where there is no torch.
fn profile(place: &Place, launcher: &str, arguments: &str) -> Option<(Ended, Value)> {
    let python = pytorch::torch("the end of a job of PyTorch is profiled")?;
    if !skip::heavy("the end of a job of PyTorch is profiled") {
        return None;
    }
    let ended = place.run(&format!("profile --json --output-dir r -- {python} {launcher} {JOB} {arguments}"));
    let line = ended.out.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).unwrap_or_default();
    Some((ended, line))
}

const TORCHRUN: &str = "-m torch.distributed.run --nproc-per-node 2";

/// What terminal, record and page say.
fn said(place: &Place) -> [String; 3] {
    let text = place.run("profile r").exits(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept: Value = serde_json::from_str(&place.read("r/profile.json")).unwrap();
    [text, kept["cases"][0]["verdict"].as_str().unwrap().to_owned(), place.read("r/report.html")]
}

#[test]
fn a_killed_rank_is_named_and_the_steps_of_all_ranks_are_kept() {
    let place = Place::new();
    let Some((ended, line)) = profile(&place, TORCHRUN, "--end kill --at 50 --rank 1") else { return };
    ended.exits(1);
    for said in said(&place) {
        assert!(said.contains("Rank 1 was killed by SIGKILL after step 49."), "{said:.2000}");
        assert!(
            said.contains("40 of 50 steps of the window are kept, because rank 1 was killed by SIGKILL."),
            "{said:.2000}"
        );
    }
    let [first, ..] = &line["ends"]["failed"].as_array().unwrap()[..] else { panic!("{line}") };
    assert_eq!((&first["rank"], &first["signal"], &first["last_step"]), (&1.into(), &"SIGKILL".into(), &49.into()));
    let steps: Vec<&Value> = line["ends"]["kept"].as_array().unwrap().iter().map(|rank| &rank["steps"]).collect();
    assert_eq!(steps, [40, 40], "{}", line["ends"]);
    // Both ranks have their steps, and phases. What the killed one waited for is not known, so nobody is blamed.
    let ranks = line["analysis"]["steps"]["ranks"].as_array().unwrap();
    assert!(ranks.len() == 2 && ranks.iter().all(|rank| rank["backward"]["median"].as_f64() > Some(0.0)), "{ranks:?}");
    assert_eq!(line["straggler"], Value::Null);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 0]);
    assert_eq!(cases[0]["reason"], "rank 1 was killed by SIGKILL after step 49");
    assert!(cases[0]["time_s"]["median"].as_f64() > Some(0.0), "{}", cases[0]);
}

#[test]
fn an_exception_of_a_rank_is_named_with_its_message_and_the_steps_of_all_ranks_are_kept() {
    let place = Place::new();
    let Some((ended, line)) = profile(&place, TORCHRUN, "--end raise --at 30 --rank 1") else { return };
    ended.exits(1);
    for said in said(&place) {
        let what = "Rank 1 failed after step 29 with ValueError: the loss is not a number, in end (";
        assert!(said.contains(what) && said.contains("20 of 50 steps of the window are kept"), "{said:.2000}");
    }
    let first = &line["ends"]["failed"][0];
    assert_eq!((&first["how"], &first["type"]), (&"exception".into(), &"ValueError".into()));
    // The launcher ends the other rank by SIGTERM, which it obeys at once.
    assert!(
        ["trace-rank1.json.gz", "spill-0.jsonl"].iter().all(|name| place.path(&format!("r/trace/{name}")).exists())
    );
}

#[test]
fn a_job_without_a_launcher_is_profiled_and_its_exit_code_named() {
    let place = Place::new();
    let Some((ended, line)) = profile(&place, "", "--end exit --at 30") else { return };
    ended.exits(3);
    assert!(said(&place)[0].contains("Rank 0 exited with code 3 after step 29."), "{line}");
    assert_eq!((&line["analysis"]["world"], &line["ends"]["kept"][0]["steps"]), (&1.into(), &20.into()));
}

#[test]
fn steps_of_a_job_without_an_optimizer_are_its_backward_passes() {
    let place = Place::new();
    let Some((ended, line)) = profile(&place, "", "--update hand") else { return };
    ended.exits(0);
    assert!(line["analysis"]["steps"]["numbers"].as_array().unwrap().len() >= 49, "{line}");
    // A busy machine delays some steps, and that may be the verdict. The other sentence stands all the same.
    let [text, ..] = said(&place);
    assert!(text.contains("each backward pass counts as a step") && text.contains("One rank waits for no"), "{text}");
}

#[test]
fn a_profiler_without_calls_of_step_is_why_there_is_no_trace() {
    let place = Place::new();
    let Some((ended, line)) = profile(&place, "", "--profiler untold") else { return };
    ended.exits(0);
    let [text, verdict, page] = said(&place);
    for said in [&text, &verdict, &page] {
        assert!(said.contains("own profiler has a schedule, and waits for calls of its `step()`"), "{said:.2000}");
    }
    // Its steps are known all the same.
    assert!(line["analysis"]["steps"]["numbers"].as_array().unwrap().len() > 70, "{line}");
    assert!(!text.contains("nothing else costs"), "{text}");
}
