//! Worlds of PyTorch ranks from a plain shell: the same cases beside native ranks, checked, and clear words for what is
//! missing or dies. What needs torch is listed as skipped without it.

mod forked;
mod training;

use std::process::Command;

use crate::place::{Place, reason, statuses};
use crate::skip;

const FIXED: &str = "--iters 6 --warmup 1 --limits false --output-dir r";

/// What is left out unless it is asked for.
pub(crate) const BEYOND: &str = "PyTorch beyond one case of each kind";

/// A Python that has torch: RANKMARK_TEST_PYTHON, which is taken at its word (to import torch takes seconds), or `python3`.
pub(crate) fn torch(test: &str) -> Option<String> {
    if let Ok(python) = std::env::var("RANKMARK_TEST_PYTHON") {
        return Some(python);
    }
    let python = "python3".to_owned();
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
        .run(&format!("comm all_reduce --runtime native,pytorch --python {python} --ranks 2 --bytes 4KiB --trials 2 --spacing 0s {FIXED}"));
    let told = run.exits(0);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [2, 0, 0, 0]);
    let of = |case: &serde_json::Value| ["runtime", "backend"].map(|name| case[name].as_str().unwrap().to_owned());
    assert_eq!(
        [of(&cases[0]), of(&cases[1])],
        [["native", "shm"], ["pytorch", "gloo"]].map(|pair| pair.map(str::to_owned))
    );
    assert!(cases.iter().all(|case| case["wrong"] == 0 && case["samples"] == 12), "{cases:?}");
    // torch is imported once: ranks of both are new in each round, and the record says so.
    assert_eq!([&cases[0], &cases[1]].map(|case| case["worlds"].as_str()), [Some("fresh"), Some("fresh")]);
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
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("element types and operators of pytorch/gloo") else { return };
    let place = Place::new();
    let lists = "--dtype f32,f64,f16,bf16,i8,i32,i64,u8 --reduce sum,max,avg --ranks 2 --bytes 1KiB";
    place.run(&format!("comm all_reduce --backend gloo --python {python} {lists} {FIXED}")).exits(0);
    let cases = place.cases("r");
    let [ok, failed, skipped, not_run] = statuses(&cases);
    assert_eq!((ok + skipped, failed, not_run), (24, 0, 0), "{cases:?}");
    // Averages of whole numbers are what some versions lack, and nothing else.
    let lacking = cases.iter().filter(|case| case["status"] == "skipped");
    assert!(lacking.clone().all(|case| case["parameters"]["reduce"] == "avg" && !reason(case).is_empty()), "{cases:?}");
    // Those that are not reduced move.
    let lists = "--dtype u32,u64,f8e4m3,f8e5m2 --ranks 2 --bytes 1KiB";
    let fixed = FIXED.replace("--output-dir r", "--output-dir moved");
    place.run(&format!("comm all_gather,broadcast --backend gloo --python {python} {lists} {fixed}")).exits(0);
    assert_eq!(statuses(&place.cases("moved")), [8, 0, 0, 0]);
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
fn every_primitive_gives_right_results_or_says_what_is_missing() {
    let Some(python) = torch("matrix primitives of pytorch/gloo") else { return };
    let place = Place::new();
    let primitives = "tp_columnwise,tp_rowwise,dp_all_reduce,ep_all_to_all,cp_ring";
    let sizes = "-m 96 -n 6 -k 40 --ranks 2 --trials 1";
    place.run(&format!("primitive {primitives} --runtime pytorch --python {python} {sizes} {FIXED}")).exits(0);
    let cases = place.cases("r");
    let [ok, failed, skipped, not_run] = statuses(&cases);
    assert_eq!((ok + skipped, failed, not_run), (30, 0, 0), "{cases:?}");
    for case in &cases {
        let text = case["parameters"]["implementation"].as_str().unwrap();
        let libraries = ["async_tp", "transformer_engine", "jax"].iter().any(|name| text.starts_with(name));
        if case["status"] == "skipped" {
            let why = reason(case);
            assert!(libraries && (why.contains("needs CUDA") || why.contains("No module named")), "{case}");
        } else {
            assert_eq!(case["wrong"], 0, "{case}");
        }
        // All that torch alone needs is there, and so are the four times.
        if text.starts_with("sequential") {
            assert!(case["overlap"]["ratio"].as_f64() > Some(0.0), "{case}");
            let same = case["overlap"]["audit"]["same"].as_array().unwrap();
            assert!(["threads", "multiplied"].iter().all(|name| same.contains(&(*name).into())), "{case}");
        }
    }
}

#[test]
fn a_changed_element_of_a_primitive_is_found() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("a wrong element of a primitive of a PyTorch rank") else { return };
    let place = Place::new();
    let primitives = "primitive tp_rowwise,cp_ring --implementation sequential -m 64 -n 4 -k 16 --ranks 2 --trials 1";
    let fault = "--inject wrong:rank=1,element=7,at=3,every=1";
    place.run(&format!("{primitives} --runtime pytorch --python {python} {fault} {FIXED}")).exits(1);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 2, 0, 0]);
    for case in &cases {
        assert!(case["wrong_elements"][0]["rank"] == 1 && case["wrong_elements"][0]["index"] == 7, "{case}");
    }
}

#[test]
fn operations_in_flight_are_right_and_count_as_one_each() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("asynchronous and coalesced calls of pytorch/gloo") else { return };
    let place = Place::new();
    let operations =
        "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv,barrier";
    let calls = "--call async,coalesced --in-flight 3 --mode isolated";
    let run = format!("comm {operations} --backend gloo --python {python} --ranks 2 --bytes 4KiB {calls} {FIXED}");
    place.run(&run).exits(0);
    let cases = place.cases("r");
    let [ok, failed, skipped, not_run] = statuses(&cases);
    assert_eq!((ok + skipped, failed, not_run), (22, 0, 0), "{cases:?}");
    for case in &cases {
        let (op, call) = (case["parameters"]["op"].as_str().unwrap(), case["parameters"]["call"].as_str().unwrap());
        let coalesces = ["all_reduce", "all_gather", "reduce_scatter"].contains(&op);
        if case["status"] == "skipped" {
            // What a torch's gloo cannot coalesce is in its words.
            let why = match op {
                "reduce_scatter" => "support",
                _ if coalesces => "this torch cannot coalesce operations",
                _ => "torch coalesces all_reduce, all_gather and reduce_scatter",
            };
            assert!(call == "coalesced" && reason(case).contains(why), "{case}");
            continue;
        }
        assert!(call == "async" || coalesces, "{case}");
        // One call a sample: its time is divided by what it has in flight, and so is what it moved.
        assert_eq!((&case["wrong"], &case["calls_per_sample"]), (&0.into(), &3.into()), "{case}");
        if op == "all_reduce" {
            let rate = 4096.0 / case["time_s"]["median"].as_f64().unwrap() / 1e9;
            assert!((case["algbw_gbs"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{case}");
        }
    }
}

#[test]
fn a_changed_element_is_found_in_any_operation_in_flight() {
    if !skip::heavy(BEYOND) {
        return;
    }
    let Some(python) = torch("a wrong element among operations in flight") else { return };
    let place = Place::new();
    // 1024 elements each: the last operation's.
    let fault = "--call async,coalesced --in-flight 3 --inject wrong:rank=1,element=2055,at=3,every=1";
    let run = format!("comm all_gather --backend gloo --python {python} --ranks 2 --bytes 4KiB {fault} {FIXED}");
    place.run(&run).exits(1);
    let cases = place.cases("r");
    assert_eq!(statuses(&cases), [0, 2, 0, 0]);
    for case in &cases {
        let first = &case["wrong_elements"][0];
        assert!(case["wrong"].as_u64() > Some(0) && first["rank"] == 1 && first["index"] == 2055, "{case}");
    }
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
        ("/no/python", "/no/python is not a program that can be run"),
    ] {
        place.run(&format!("comm all_reduce --backend gloo --python {python} --ranks 2 --bytes 1KiB {FIXED}")).exits(2);
        let cases = place.cases("r");
        assert_eq!(statuses(&cases), [0, 0, 1, 0]);
        assert!(reason(&cases[0]).contains(words), "{}", reason(&cases[0]));
        std::fs::remove_dir_all(place.path("r")).unwrap();
    }
    // A program that is not Python.
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
    let told = place.run("validate --quick --json --plan plan.yaml --trust-plan").exits(1);
    let told: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    let why = told["plan"]["skipped"][0]["reason"].as_str().unwrap_or_default();
    assert!(why.contains("`pytorch/gloo` is not ready: ./no-python is not a program that can be run"), "{told:#}");
}

/// As much of torch as `validate` and a run ask for before ranks start. No rank can work with it.
const FAKE_TORCH: &str = "import sys, types
with open('safe', 'a') as file:
    file.write(f'{getattr(sys.flags, \"safe_path\", True)} ')
__version__ = '9.9.9'
version = types.SimpleNamespace(cuda=None, hip=None)
cuda = types.SimpleNamespace(is_available=lambda: False)
distributed = types.SimpleNamespace(is_available=lambda: True, is_gloo_available=lambda: True)
";

#[test]
fn modules_of_the_working_folder_are_not_imported() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip::skip("modules of the working folder", "no python3");
    }
    let place = Place::new();
    let planted = ["json", "torch", "socket", "struct", "hmac", "traceback"];
    for name in planted {
        place.write(&format!("{name}.py"), format!("open('imported-{name}', 'w').close()\n"));
    }
    std::fs::create_dir_all(place.path("packages/torch")).unwrap();
    place.write("packages/torch/__init__.py", FAKE_TORCH);
    let mut starting = place.command(&format!("comm all_reduce --runtime pytorch --ranks 2 --bytes 1KiB {FIXED}"));
    starting.command.env("PYTHONPATH", place.path("packages"));
    let ended = starting.run();
    let names = place.names();
    assert!(names.iter().all(|name| !name.starts_with("imported-")), "{names:?} {ended:?}");
    // The ranks' Python came as far as torch, the one of the packages.
    assert!(reason(&place.cases("r")[0]).contains("has no PyTorch: "), "{:?}", place.cases("r"));
    ended.exits(2);
    // In the look before the run, where it counts from Python 3.11 on only; in the fork server; and in each rank.
    assert_eq!(place.read("safe").matches("True").count(), 3, "{}", place.read("safe"));
    let mut starting = place.command("validate --quick --python python3");
    starting.command.env("PYTHONPATH", place.path("packages"));
    drop(starting.run());
    assert!(place.names().iter().all(|name| !name.starts_with("imported-")), "{:?}", place.names());
}
