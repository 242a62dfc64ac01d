//! A secret on the command line or in a plan reaches no stream and no file, whatever is wrong with the rest of the line.

use std::fs;
use std::path::Path;

use crate::place::{Ended, Place};
use crate::skip;

/// Nobody else writes this.
const SECRET: &str = "Zq8x-Plover.77-qZ";
/// The second word of the secret, where it has one.
const TAIL: &str = "Xyzzy-42";

/// How a variable or an option of that kind is written.
fn forms() -> Vec<String> {
    [
        "MY_TOKEN={}",
        "HF_TOKEN={} {tail}",
        "A_PASSWORD='{} {tail}'",
        "APIKEY=\"{}\" {tail}",
        "X=redis://:{}@h",
        "X=--password={}",
        "X=https://h/x?a=1&sig={}",
        "X=AccountKey={};b=c",
        "X=Authorization: Bearer {}",
    ]
    .map(|form| form.replace("{}", SECRET).replace("{tail}", TAIL))
    .into()
}

fn says_nothing(ended: &Ended, what: &str) {
    for text in [&ended.out, &ended.err] {
        assert!(!text.contains(SECRET) && !text.contains(TAIL), "{what}: {text}");
    }
}

/// Files below a folder whose content has the secret.
fn holding(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(SECRET) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_refused_value_is_not_shown() {
    let place = Place::new();
    // Each form and each line are tried in any case, and all of their pairs where there is time.
    let every = if skip::heavy("each form of a secret in each line") { 1 } else { 3 };
    for (number, form) in forms().into_iter().enumerate() {
        for json in ["", " --json"] {
            let lines = [
                ("comm all_reduce --env", form.clone()),
                ("comm all_reduce --dtype nonsense --env", form.clone()),
                ("comm all_reduce --set", format!("env={form}")),
                ("comm all_reduce --set", form.clone()),
                ("comm all_reduce --mpi-library", form.clone()),
                ("comm all_reduce --bytes", form.clone()),
                ("comm all_reduce --budget", form.clone()),
                ("comm all_reduce --note", form.clone()),
                ("comm all_reduce --tag", form.clone()),
                ("comm all_reduce --name", form.clone()),
                ("comm all_reduce", form.clone()),
                ("comm", form.clone()),
                ("run", form.clone()),
                ("run --env", form.clone()),
                ("report", form.clone()),
                ("compare --interleave plan.yaml --env-a", form.clone()),
                ("compare --interleave plan.yaml --set-b", form.clone()),
                ("comm all_reduce", format!("--{form}")),
                ("comm all_reduce --no-such-option", form.clone()),
            ];
            for (at, (line, argument)) in lines.into_iter().enumerate() {
                if (number + at) % every != 0 {
                    continue;
                }
                place.write("plan.yaml", "experiment: x\ncases: [{benchmark: collective, op: barrier}]\n");
                let ended = place
                    .command(&format!("{line}{json}").replacen("comm --json", "comm", 1))
                    .argument(&argument)
                    .run();
                assert_ne!(ended.status.code(), Some(0), "{line} {argument}");
                says_nothing(&ended, &format!("{line} {argument}"));
            }
        }
    }
    assert!(!place.path("results").exists());
}

#[test]
fn a_plan_that_holds_one_is_refused_without_it() {
    let place = Place::new();
    for form in forms() {
        let quoted = serde_json::to_string(&form).unwrap();
        for line in [
            format!("env: [{quoted}]"),
            format!("env: {quoted}"),
            format!("bytes: {quoted}"),
            format!("no_such: {quoted}"),
            format!("python: {quoted}"),
            format!("env: [{quoted}], dtype: nonsense"),
            format!("inject: {quoted}"),
        ] {
            place.write(
                "plan.yaml",
                format!("experiment: x\ncases:\n  - {{benchmark: collective, op: all_reduce, {line}}}\n"),
            );
            for command in [
                "run plan.yaml",
                "run plan.yaml --json",
                "validate --quick --plan plan.yaml",
                "run plan.yaml --dry-run",
            ] {
                let ended = place.run(command);
                assert_ne!(ended.status.code(), Some(0), "{command}: {line}");
                says_nothing(&ended, &format!("{command}: {line}"));
            }
        }
    }
}

#[test]
fn a_record_and_its_reports_do_not_keep_one() {
    let place = Place::new();
    // In a comment of the plan, and in a kept variable.
    let plan = format!(
        "# curl https://h/x?sig={SECRET}\nexperiment: x\ncases: [{{benchmark: collective, backend: sim, bytes: 8}}]\n"
    );
    place.write("plan.yaml", plan);
    let mut starting = place.command("run plan.yaml --output-dir out --verbose");
    starting.command.env("NCCL_CONF_FILE", format!("redis://:{SECRET}@h")).env("UCX_X", format!("--token={SECRET}"));
    let ended = starting.run().exits(0);
    says_nothing(&ended, "run");
    assert_eq!(holding(&place.path("out")), [""; 0]);
    assert_eq!(place.run_file("out")["environment"]["NCCL_CONF_FILE"], "redis://:***@h");
    place.run("pack out --redact").exits(0);
}

#[test]
fn no_option_of_this_program_is_taken_for_a_secret() {
    let fields = benchmarks::abouts().into_iter().flat_map(|about| about.all_fields().map(|field| field.name));
    for name in fields {
        assert!(!record::smells_like_secret(name) && !record::smells_like_secret(&format!("--{name}")), "{name}");
    }
}
