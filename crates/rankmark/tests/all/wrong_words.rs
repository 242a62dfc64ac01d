//! A plan, a program or a trace where a command takes a record: the answer is the line to type.

use std::os::unix::fs::PermissionsExt;

use crate::place::Place;

const PLAN: &str = "experiment: p\ncases:\n  - {benchmark: collective, op: all_reduce, ranks: 2, backend: sim, limits: false, iters: 3}\n";

fn with_record() -> Place {
    let place = Place::new();
    place.write("plan.yaml", PLAN).write("other.yaml", PLAN);
    place.run("run plan.yaml --output-dir rec --quiet").exits(0);
    place
}

#[test]
fn compare_says_how_a_plan_becomes_a_side() {
    let place = with_record();
    let line = "rankmark run plan.yaml --output-dir results/plan && rankmark compare";
    place
        .run("compare plan.yaml rec")
        .refuses(&["plan.yaml is a plan, not a record", &format!("{line} results/plan rec")]);
    place
        .run("compare rec plan.yaml")
        .refuses(&["plan.yaml is a plan, not a record", &format!("{line} rec results/plan")]);
    place.run("compare plan.yaml other.yaml").refuses(&["rankmark compare --interleave plan.yaml other.yaml"]);
    place.run("compare plan.yaml").refuses(&["rankmark compare --interleave plan.yaml"]);
    // A file of a record is its record.
    place.run("compare rec/run.json rec").refuses(&["rankmark compare rec rec"]);
}

#[test]
fn a_plan_is_not_a_record_for_any_command() {
    let place = with_record();
    for command in ["report", "history", "profile", "pack", "merge rec", "baseline save x", "run --resume"] {
        let ended = place.run(&format!("{command} plan.yaml")).exits(2);
        assert!(ended.err.contains("plan.yaml is a plan, not a record"), "{command}: {}", ended.err);
        assert!(!ended.err.contains("--output-dir DIR"), "{command}: {}", ended.err);
    }
}

#[test]
fn profile_shows_where_a_command_begins() {
    let place = Place::new();
    std::fs::create_dir(place.path("bin")).unwrap();
    for name in ["python3", "torchrun", "own"] {
        place.write(&format!("bin/{name}"), "#!/bin/sh\n");
        std::fs::set_permissions(place.path("bin").join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/samples/kineto/h100.json.gz");
    std::fs::copy(trace, place.path("trace.json.gz")).unwrap();
    place.write("train.py", "");
    for (words, line) in [
        ("profile train.py", "rankmark profile -- python3 train.py"),
        ("profile train.py --epochs 3", "rankmark profile -- python3 train.py --epochs 3"),
        ("profile --duration 10s train.py", "rankmark profile --duration 10s -- python3 train.py"),
        ("profile torchrun", "rankmark profile -- torchrun"),
        ("profile torchrun --nproc-per-node 2 train.py", "rankmark profile -- torchrun --nproc-per-node 2 train.py"),
        ("profile -o out python3 train.py", "rankmark profile -o out -- python3 train.py"),
        ("profile bin/own", "rankmark profile -- bin/own"),
        ("profile mpirun -n 2 python3 train.py", "rankmark profile -- mpirun -n 2 python3 train.py"),
        ("profile trace.json.gz", "rankmark profile --import trace.json.gz"),
    ] {
        let mut starting = place.command(words);
        starting.command.env("PATH", place.path("bin"));
        let ended = starting.run().exits(2);
        assert!(ended.err.contains(&format!("hint:  {line}\n")), "{words}: {}", ended.err);
    }
    place.run("profile nowhere").refuses(&["there is no record in nowhere"]);
}
