//! Whom the program trusts: `validate --plan` and `gen-job` run nothing that a plan names unless they are told to, and
//! what is not a plain file is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::place::Place;
use crate::validate::{Bench, answer};

/// A program of the plan's that leaves a trace of having run.
fn planted(place: &Place) -> PathBuf {
    let path = place.path("python");
    let script = format!("#!/bin/sh\ntouch {}\n", place.path("has-run").display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn case(fields: &str) -> String {
    format!(
        "experiment: x\ncases:\n  - {{benchmark: collective, op: all_reduce, ranks: 2, bytes: 1KiB}}\n  \
         - {{benchmark: collective, op: all_reduce, ranks: 2, bytes: 1KiB, {fields}}}\n"
    )
}

#[test]
fn the_python_of_a_plan_is_not_run_unless_it_is_trusted() {
    let place = Place::new();
    let python = planted(&place);
    place.write("plan.yaml", case(&format!("runtime: pytorch, python: {}", python.display())));
    let value = answer(place.run("validate --json --quick --plan plan.yaml"));
    assert!(!place.path("has-run").exists(), "it was run");
    let plan = &value["plan"];
    assert_eq!((&plan["cases"], &plan["run"], &plan["skipped"]), (&2.into(), &1.into(), &serde_json::json!([])));
    let reason = plan["not_looked_at"][0]["reason"].as_str().unwrap();
    assert!(
        reason.contains(&format!("the Python `{}`", python.display())) && reason.contains("--trust-plan"),
        "{plan}"
    );

    let page = place.run("validate --quick --plan plan.yaml").out;
    assert!(page.contains("1 of 2 cases would run here") && page.contains("1 case not looked at: the plan names"));
    assert!(!page.contains("1 case skipped"), "{page}");
    assert!(!place.path("has-run").exists(), "it was run");

    let trusted = answer(place.run("validate --json --quick --plan plan.yaml --trust-plan"));
    assert!(place.path("has-run").exists(), "what is trusted is looked at");
    assert_eq!(trusted["plan"]["not_looked_at"], serde_json::json!([]));
    assert_eq!(trusted["plan"]["skipped"].as_array().unwrap().len(), 1, "{trusted:#}");
    // One that the user names is the user's choice.
    std::fs::remove_file(place.path("has-run")).unwrap();
    let own = place.command("validate --json --quick --plan plan.yaml --python").argument(&python).run();
    assert_eq!(answer(own)["plan"]["not_looked_at"], serde_json::json!([]));
    place.run("validate --trust-plan").exits(2);
}

#[test]
fn the_library_of_a_plan_is_not_loaded_unless_it_is_trusted() {
    let Some(bench) = Bench::new("the MPI library of a plan") else { return };
    let place = &bench.place;
    let trace = place.path("has-run");
    let source = format!(
        "#include <fcntl.h>\n__attribute__((constructor)) static void on(void) {{ open(\"{}\", O_CREAT, 0600); }}",
        trace.display()
    );
    let library = bench.library("planted.so", &source);
    place.write("plan.yaml", case(&format!("backend: mpi, mpi_library: {}", library.display())));
    let validate =
        |arguments: &str| answer(place.run(&format!("validate --json --quick --plan plan.yaml {arguments}")));
    let untrusted = validate("");
    assert!(!trace.exists(), "it was loaded");
    let reason = untrusted["plan"]["not_looked_at"][0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains(&format!("the library `{}`", library.display())), "{reason}");
    assert_eq!(untrusted["plan"]["skipped"], serde_json::json!([]));

    let plan = case(&format!("backend: mpi, mpi_library: {}", library.display()));
    let (head, mpi) = plan.split_at(plan.rfind("  - ").unwrap());
    let head = head.lines().take(2).collect::<Vec<_>>().join("\n");
    place.write("mpi.yaml", format!("{head}\n{mpi}"));
    let said = place.run("gen-job --for slurm mpi.yaml --output job.sh").exits(0);
    assert!(!trace.exists(), "it was loaded");
    assert!(said.out.contains("not examined: the plan names the library") && said.out.contains("--mpi pmix"));
    assert!(!place.read("job.sh").contains("--mpi=p"), "nothing is known of it");
    place.run("gen-job --for slurm mpi.yaml --output job.sh --force --trust-plan").exits(0);
    assert!(trace.exists(), "what is trusted is looked at");

    std::fs::remove_file(&trace).unwrap();
    assert_eq!(validate("--trust-plan")["plan"]["skipped"].as_array().unwrap().len(), 1);
    assert!(trace.exists(), "what is trusted is looked at");
}

#[test]
fn pipes_and_devices_are_refused_and_nobody_waits() {
    let place = Place::new();
    place.command_of("mkfifo", "pipe").run().exits(0);
    place.run("run pipe").refuses(&["plan pipe cannot be read: it is a named pipe (FIFO), not a plain file"]);
    place.run("validate --plan /dev/zero").refuses(&["plan /dev/zero cannot be read: it is a device"]);
    let words = ["--data-mmap pipe", "pipe: it is a named pipe (FIFO), not a plain file"];
    place.run("train --data-mmap pipe").refuses(&words);
    let words = ["pipe: it is a named pipe (FIFO), not a plain file"];
    place.run("comm all_to_allv --traffic file --traffic-file pipe").refuses(&words);
}
