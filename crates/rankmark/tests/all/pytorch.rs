//! Worlds of PyTorch ranks from a plain shell: the same cases beside native ranks, checked, and clear words for what is
//! missing or dies. What needs torch is listed as skipped without it.

use std::process::Command;

use crate::place::{Place, reason, statuses};
use crate::skip;

const FIXED: &str = "--iters 6 --warmup 1 --limits false --output-dir r";

/// A Python that has torch: RANKMARK_TEST_PYTHON, or `python3`.
fn torch(test: &str) -> Option<String> {
    let python = std::env::var("RANKMARK_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found =
        Command::new(&python).args(["-c", "import torch.distributed as d; assert d.is_gloo_available()"]).output();
    match found {
        Ok(output) if output.status.success() => return Some(python),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            skip::skip(test, &format!("{python}: {}", said.lines().last().unwrap_or("no torch with gloo")));
        }
        Err(error) => skip::skip(test, &format!("{python}: {error}")),
    }
    None
}

#[test]
fn both_runtimes_stand_in_one_table() {
    let Some(python) = torch("native and PyTorch ranks in one table") else { return };
    let place = Place::new();
    let run = place
        .run(&format!("comm all_reduce --runtime native,pytorch --python {python} --ranks 2 --bytes 4KiB {FIXED}"));
    let told = run.exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 0, 0]);
    let of = |case: &serde_json::Value| ["runtime", "backend"].map(|name| case[name].as_str().unwrap().to_owned());
    assert_eq!(
        [of(&cases[0]), of(&cases[1])],
        [["native", "shm"], ["pytorch", "gloo"]].map(|pair| pair.map(str::to_owned))
    );
    assert!(cases.iter().all(|case| case["wrong"] == 0 && case["samples"] == 6), "{cases:?}");
    drop(told);
    let file = place.run_file("r");
    let state = file["backends"].as_array().and_then(|all| all.iter().find(|state| state["name"] == "pytorch/gloo"));
    let version = state.and_then(|state| state["version"].as_str()).unwrap_or_default();
    assert!(version.starts_with("torch "), "{state:?}");
    assert!(place.read("r/report.md").contains("pytorch/gloo"));
}

#[test]
fn every_operation_of_gloo_gives_right_results() {
    let Some(python) = torch("every operation of pytorch/gloo") else { return };
    let place = Place::new();
    let operations =
        "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,gather,scatter,send_recv,ping_pong";
    place.run(&format!("comm {operations} --backend gloo --python {python} --ranks 2 --bytes 4KiB {FIXED}")).exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [10, 0, 0, 0]);
    assert!(cases.iter().all(|case| case["wrong"] == 0), "{cases:?}");
}

#[test]
fn types_are_right_or_skipped() {
    let Some(python) = torch("element types and operators of pytorch/gloo") else { return };
    let place = Place::new();
    let lists = "--dtype f32,f64,f16,bf16,i32,i64,u8 --reduce sum,max,avg --ranks 2 --bytes 1KiB";
    place.run(&format!("comm all_reduce --backend gloo --python {python} {lists} {FIXED}")).exits(0);
    let cases = place.cases("r");
    let [ok, failed, skipped, not_run] = statuses(&cases);
    assert_eq!((ok + skipped, failed, not_run), (21, 0, 0), "{cases:?}");
    // Averages of whole numbers are what some versions lack, and nothing else.
    let lacking = cases.iter().filter(|case| case["status"] == "skipped");
    assert!(lacking.clone().all(|case| case["parameters"]["reduce"] == "avg" && !reason(case).is_empty()), "{cases:?}");
}

#[test]
fn a_changed_element_is_found() {
    let Some(python) = torch("a wrong element of a PyTorch rank") else { return };
    let place = Place::new();
    let fault = "--inject wrong:rank=1,element=7,at=3,every=1";
    place
        .run(&format!("comm all_gather --backend gloo --python {python} --ranks 2 --bytes 4KiB {fault} {FIXED}"))
        .exits(1);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 0]);
    assert!(cases[0]["wrong"].as_u64() > Some(0), "{cases:?}");
    assert!(cases[0]["wrong_elements"][0]["rank"] == 1 && cases[0]["wrong_elements"][0]["index"] == 7, "{cases:?}");
}

#[test]
fn a_killed_rank_is_named() {
    let Some(python) = torch("a PyTorch rank that dies in a collective") else { return };
    let place = Place::new();
    let fault = "--inject kill:rank=1,at=5";
    place
        .run(&format!("comm all_reduce --backend gloo --python {python} --ranks 2 --bytes 4KiB {fault} {FIXED}"))
        .exits(1);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 1, 0, 0]);
    let why = reason(&cases[0]);
    assert!(why.contains("rank 1 (pid ") && why.contains("died of signal 9 (SIGKILL) in all_reduce #5"), "{why}");
}

#[test]
fn what_a_python_lacks_is_said() {
    let place = Place::new();
    for (python, words) in [
        ("no-such-python", "there is no `no-such-python` on the path"),
        ("/no/python", "/no/python is no program that can be run"),
    ] {
        place.run(&format!("comm all_reduce --backend gloo --python {python} --ranks 2 --bytes 1KiB {FIXED}")).exits(2);
        let cases = place.cases("r");
        assert_eq!(statuses(&cases), [0, 0, 1, 0]);
        assert!(reason(&cases[0]).contains(words), "{}", reason(&cases[0]));
        std::fs::remove_dir_all(place.path("r")).unwrap();
    }
    // A program that is no Python.
    place.run(&format!("comm all_reduce --backend gloo --python /bin/false --ranks 2 --bytes 1KiB {FIXED}")).exits(1);
    assert!(reason(&place.cases("r")[0]).contains("exited with code 1"), "{}", reason(&place.cases("r")[0]));
}

#[test]
fn a_python_without_torch_is_skipped() {
    // `-S` leaves out what is installed: any Python is then one without torch.
    let here = Command::new("python3").args(["-c", "pass"]).status().is_ok_and(|status| status.success());
    if !here {
        return skip::skip("a Python without torch", "there is no python3");
    }
    let place = Place::new();
    place.write("python", "#!/bin/sh\nexec python3 -S \"$@\"\n");
    let made = Command::new("chmod").args(["+x"]).arg(place.path("python")).status();
    assert!(made.is_ok_and(|status| status.success()));
    place.run(&format!("comm all_reduce --backend gloo --python ./python --ranks 2 --bytes 1KiB {FIXED}")).exits(2);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 0, 1, 0]);
    let why = reason(&cases[0]);
    assert!(why.contains("has no PyTorch: No module named 'torch'"), "{why}");
}

#[test]
fn validate_says_what_a_plan_lacks() {
    let place = Place::new();
    let case = "{benchmark: collective, op: all_reduce, bytes: 4KiB, runtime: pytorch, python: ./no-python}";
    place.write("plan.yaml", format!("experiment: e\ncases:\n  - {case}\n"));
    let told = place.run("validate --quick --json --plan plan.yaml").exits(1);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let why = told["plan"]["skipped"][0]["reason"].as_str().unwrap_or_default();
    assert!(why.contains("`pytorch/gloo` is not ready: ./no-python is no program that can be run"), "{told:#}");
}
