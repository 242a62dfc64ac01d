//! The `next` line: the command that a user most likely types after this one, with the paths of this one.

use std::path::Path;

use crate::place::Place;

const SIM: &str = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB --trials 6 --warmup 1 --iters 5 --quiet";

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/samples").join(name).display().to_string()
}

/// The command of the last `next` line, which a remark follows as the last line of all.
fn next(out: &str) -> &str {
    let (before, remark) = out.trim_end().rsplit_once('\n').unwrap_or_default();
    assert!(remark.starts_with("         # "), "{out}");
    let line = before.lines().last().unwrap_or_default();
    line.strip_prefix("next     ").unwrap_or_else(|| panic!("no `next` line: {out}"))
}

#[test]
fn an_import_is_followed_by_its_report_or_its_run() {
    let place = Place::new();
    std::fs::copy(sample("nccl_tests/2.19.txt"), place.path("nccl.txt")).unwrap();
    let ended = place.run("import nccl.txt --output-dir a").exits(0);
    assert_eq!(next(&ended.out), "rankmark report a --open");
    let ended = place.run("import nccl.txt nccl.txt").exits(0);
    let line = next(&ended.out).to_owned();
    assert!(line.starts_with("rankmark compare results/"), "{line}");
    let compared = place.run(line.strip_prefix("rankmark ").unwrap()).exits(0);
    // A log names neither the machine nor the environment.
    let (out, apart) = (&compared.out, ["No difference is known. Another program", "environment are equal"]);
    assert!(out.contains(apart[0]) && !out.contains(apart[1]), "{compared:?}");
    place.write("conf.json", r#"{"benchmark": {"primitive": "tp_columnwise", "m": [64], "n": [64], "k": [64], "dtype": "float32", "implementations": {"pytorch": [{}]}}}"#);
    let ended = place.run("import conf.json").exits(0);
    assert_eq!((next(&ended.err), ended.out.contains("next ")), ("rankmark run conf.json", false));
    assert!(!place.run("import nccl.txt --output-dir b --json").exits(0).out.contains("next "));
}

#[test]
fn comparisons_and_histories_are_followed_by_pages_of_their_records() {
    let place = Place::new();
    for name in ["results/a", "results/b"] {
        place.run(&format!("{SIM} --output-dir {name}")).exits(0);
    }
    let ended = place.run("compare results/a results/b").exits(0);
    assert_eq!(next(&ended.out), "rankmark report results/a results/b --open");
    for quiet in ["--json", "--quiet"] {
        assert!(!place.run(&format!("compare results/a results/b {quiet}")).exits(0).out.contains("next "));
    }
    let ended = place.run("history results").exits(0);
    // Runs may differ, and the line does not fail by saying so.
    assert_eq!(next(&ended.out), "rankmark compare results/a results/b --fail-on none");
    assert!(!place.run("history results --json").exits(0).out.contains("next "));
    let ended = place.run("history results/a").exits(0);
    assert_eq!(next(&ended.out), "rankmark report results/a --open");
}

#[test]
fn a_profile_is_followed_by_its_page() {
    let place = Place::new();
    std::fs::copy(sample("kineto/h100.json.gz"), place.path("h100.json.gz")).unwrap();
    let ended = place.run("profile --import h100.json.gz --output-dir h100").exits(0);
    assert_eq!(next(&ended.out), "rankmark report h100 --open");
    let json = place.run("profile --import h100.json.gz --output-dir again --json").exits(0);
    assert!(!json.out.contains("next "), "{}", json.out);
}

#[test]
fn validate_is_followed_by_a_run() {
    let place = Place::new();
    assert_eq!(next(&place.run("validate --quick").out), "rankmark run");
    assert!(!place.run("validate --quick --json").out.contains("next "));
    place.write("plan.yaml", "experiment: p\ncases:\n  - {benchmark: collective, op: all_reduce, ranks: 2}\n");
    assert_eq!(next(&place.run("validate --quick --plan plan.yaml").out), "rankmark run plan.yaml");
}

#[test]
fn an_interrupted_run_is_followed_by_its_rest() {
    let place = Place::new();
    let live = place.start("comm all_reduce --ranks 2 --bytes 1KiB,2KiB --trials 30 --output-dir out");
    live.await_lines(&place.path("out/cases.jsonl"), 1);
    live.signal(libc::SIGINT);
    let ended = live.wait().exits(130);
    let line = ended.out.lines().find_map(|line| line.strip_prefix("next     "));
    assert_eq!(line, Some("rankmark run --resume out"), "{}", ended.out);
}

/// All commands of `next` lines, as they are typed: without their remarks.
fn proposed(out: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in out.lines() {
        match line.strip_prefix("next     ") {
            Some(first) => found.push(first.to_owned()),
            None if goes_on => *found.last_mut().unwrap() += &format!("\n{line}"),
            None => continue,
        }
        goes_on = line.ends_with('\\');
    }
    found
}

/// Types what a command prints for next, and what that prints, as it stands. Each must end well.
fn typed(place: &Place, command: &str, links: usize) -> Vec<String> {
    place
        .write("temporary/bin/xdg-open", "#!/bin/sh\n")
        .write("temporary/bin/rankmark", format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_rankmark")));
    for name in ["xdg-open", "rankmark"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(place.path(&format!("temporary/bin/{name}")), mode).unwrap();
    }
    let path = format!("{}:{}", place.path("temporary/bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut lines = vec![format!("rankmark {command}")];
    for link in 0..links {
        place.write("temporary/step.sh", &lines[link]);
        let mut shell = place.command_of("/bin/sh", "temporary/step.sh");
        shell.command.env("PATH", &path);
        let ended = shell.run();
        assert!(ended.status.success(), "{}\n{}{}", lines.join("\nthen "), ended.out, ended.err);
        assert!(!ended.out.contains("panicked"), "{}", ended.out);
        let Some(next) = proposed(&ended.out).pop() else { break };
        assert!(!lines.contains(&next), "it proposes what was done: {next}");
        lines.push(next);
    }
    lines
}

#[test]
fn what_measurements_propose_runs_when_typed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("temporary/bin")).unwrap();
    let small = "--trials 1 --warmup 1 --iters 3 --limits false --spacing 0s";
    for command in [
        format!("comm all_reduce --ranks 2 --bytes 1KiB,4KiB {small}"),
        "comm all_reduce --ranks 2 --bytes 1KiB --quick --max-seconds 0.1s --spacing 0s --limits false".to_owned(),
        format!("primitive tp_columnwise --ranks 2 --m 16 --n 16 --k 16 {small}"),
    ] {
        assert!(typed(&place, &command, 2).len() > 1, "{command}");
    }
}

#[test]
fn what_training_proposes_runs_when_typed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("temporary/bin")).unwrap();
    let command = "train --model mlp --layers 1 --width 8 --features 4 --classes 2 --batch 2 --ranks 2 --steps 3 --trials 1 \
                   --limits false --spacing 0s";
    assert!(typed(&place, command, 2).len() > 1);
}

#[test]
fn what_is_proposed_for_memory_fits_its_limit_when_typed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("temporary/bin")).unwrap();
    let command = "memory --model mlp --layers 1 --width 8 --features 4 --classes 2 --batch 2 --ranks 1";
    assert!(typed(&place, command, 2).len() > 1);
}

#[test]
fn what_records_propose_shows_them_when_typed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("temporary/bin")).unwrap();
    for name in ["results/a", "results/b"] {
        place.run(&format!("{SIM} --output-dir {name}")).exits(0);
    }
    std::fs::copy(sample("nccl_tests/2.19.txt"), place.path("nccl.txt")).unwrap();
    std::fs::copy(sample("kineto/h100.json.gz"), place.path("h100.json.gz")).unwrap();
    for command in [
        "compare results/a results/b",
        "history results",
        "import nccl.txt --output-dir c",
        "profile --import h100.json.gz --output-dir h100",
    ] {
        assert!(typed(&place, command, 3).len() > 1, "{command}");
    }
}
