//! The commands of the documentation, run as they stand in its `sh` blocks, page by page.
//!
//! * A command that measures gets `--dry-run`: it reads and checks all it is given, looks for backends, and measures nothing.
//!   The tutorials are run as they stand under --full (`tutorials.rs`).
//! * `cargo` is not started: `cargo_commands.rs` looks for what it is to build or run.
//! * A block that needs what no test has says so in a comment above it: `<!-- not run: needs two hosts -->`. Each is listed
//!   as skipped. `src/tests/documented.rs` parses its commands all the same.
//!
//! Records, plans and traces that pages name are there: [`fixtures`] makes them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::blocks::{self, Block};
use crate::place::Place;
use crate::skip;

/// Tests that run at the same time have a part of the pages each.
const PARTS: usize = 12;

/// Records that pages name. All are copies of one, which is simulated.
const RECORDS: [&str; 26] = [
    "results/DIR",
    "results/RUN",
    "results/A",
    "results/B",
    "results/monday",
    "results/today",
    "results/nightly",
    "results/node07",
    "results/old/1",
    "results/old/2",
    "results/new/1",
    "results/new/2",
    "nightly/1",
    "A",
    "B",
    "C",
    "run-1",
    "run-2",
    "run-3",
    "run-4",
    "run-5",
    "old-1",
    "old-2",
    "new-1",
    "new-2",
    "first",
];

/// The program as pages call it. What measures only looks; other commands may say with their exit code what they found.
const PROGRAM: &str = r#"#!/bin/sh
dry() {
    said=$('PROGRAM' "$@" --dry-run); code=$?
    printf '%s\n' "$said"
    # 2 with a table of cases: this machine would skip all of them.
    [ $code = 0 ] || { [ $code = 2 ] && [ -n "$said" ]; }
}
case "$1 $*" in
    run*|comm*|primitive*|train*|memory*|hardware*|kernel*|calibrate*|startup*|interference*|"profile "*" --model "*) dry "$@"; exit ;;
    *--quick*) ;;
    validate*) set -- "$@" --quick ;;
esac
case "$1 $*" in
    validate*|"import "*" --gate "*) 'PROGRAM' "$@"; code=$?; exit $((code > 1)) ;;
    compare*|fleet*|"baseline baseline check"*) 'PROGRAM' "$@"; code=$?; exit $((code == 2 || code > 3)) ;;
esac
exec 'PROGRAM' "$@"
"#;

/// Writes a script that stands for a program.
fn script(place: &Place, name: &str, text: &str) {
    let path = place.path("temporary/bin").join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A dump of PyTorch's Flight Recorder on one of two ranks: one all_reduce, which the second rank does not reach.
fn dump(rank: u64) -> String {
    let entry = |number: u64, ended: bool| {
        json!({
            "record_id": number, "process_group": ["0", ""], "collective_seq_id": number, "p2p_seq_id": 0,
            "profiling_name": "nccl:all_reduce", "input_sizes": [[1024]], "output_sizes": [[1024]], "input_dtypes": ["Float"],
            "output_dtypes": ["Float"], "is_p2p": false, "retired": ended, "frames": [],
            "state": if ended { "completed" } else { "started" }, "time_created_ns": 1_724_779_239_000_000_000_u64 + number,
        })
    };
    let entries = if rank == 0 { vec![entry(1, true), entry(2, false)] } else { vec![entry(1, true)] };
    let groups = json!({"0": {"name": "0", "desc": "", "ranks": "[0, 1]"}});
    json!({"version": "2.5", "pg_config": groups, "pg_status": {}, "entries": entries}).to_string()
}

fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let (from, to) = (from.as_ref(), to.as_ref());
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(entry.path(), target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// What the commands of pages read.
fn fixtures(place: &Place) {
    let sim = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB,1MiB --trials 6 --spacing 0s --iters 5 --warmup 1 --quiet";
    place.run(&format!("{sim} --output-dir made")).exits(0);
    change(place, "made", None);
    RECORDS.iter().for_each(|name| copy(place.path("made"), place.path(name)));
    fs::remove_dir_all(place.path("results/today")).unwrap();
    place.run(&format!("{sim} --inject delay:rank=1,time=20us,every=1 --output-dir results/today")).exits(0);
    change(place, "results/today", None);
    nodes(place);
    place.run("hardware copy --bytes 1MiB --threads 1 --quick --quiet --output-dir profile").exits(0);
    for plan in ["plan.yaml", "a.yaml", "b.yaml"] {
        place.write(plan, "experiment: e\ncases:\n  - {benchmark: collective, op: all_reduce, bytes: [1KiB, 1MiB]}\n");
    }
    let samples = blocks::root().join("crates/import/tests/samples");
    for year in ["2025", "2026"] {
        fs::create_dir_all(place.path("logs").join(year)).unwrap();
        fs::copy(samples.join("nccl_tests/2.19.txt"), place.path("logs").join(year).join("a.txt")).unwrap();
    }
    let log = fs::read_to_string(samples.join("nccl_tests/eight_gpus.txt")).unwrap();
    let log = log.replace("MODEL", "NVIDIA H100 80GB HBM3").replace("HOST-A", "node-a").replace("HOST-B", "node-a");
    place.write("all_reduce.log", log);
    let mut trace = String::new();
    GzDecoder::new(fs::File::open(samples.join("kineto/h100.json.gz")).unwrap()).read_to_string(&mut trace).unwrap();
    for rank in 0..2 {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(trace.replace("\"rank\":0", &format!("\"rank\":{rank}")).as_bytes()).unwrap();
        place.write(&format!("trace-rank{rank}.json.gz"), file.finish().unwrap());
    }
    for folder in ["trace", "dumps", "SHARED/trace"] {
        fs::create_dir_all(place.path(folder)).unwrap();
        for rank in 0..2 {
            place.write(&format!("{folder}/fr_rank_{rank}.json"), dump(rank));
        }
    }
}

/// Changes the run file of a record, and removes its checksum. What a test sets in the environment is not the page's.
fn change(place: &Place, record: &str, host: Option<&str>) {
    let mut run = place.run_file(record);
    let members = run.as_object_mut().expect("a run file is an object");
    members.remove("crc32");
    members["environment"].as_object_mut().expect("it has the environment").remove("RANKMARK_TEST_RUN");
    if let Some(host) = host {
        members["machine"]["host"] = host.into();
    }
    place.write(&format!("{record}/run.json"), run.to_string());
}

/// Records of as many nodes as a fleet needs, by the names of their hosts.
fn nodes(place: &Place) {
    for node in 1..=6 {
        let record = format!("results/nodes/{node}");
        copy(place.path("made"), place.path(&record));
        change(place, &record, Some(&format!("node{node:02}")));
    }
}

/// Records that hold traces: only where a page compares them, because they take longest to make.
fn traced(place: &Place) {
    for record in ["results/BEFORE", "results/AFTER"] {
        place.run(&format!("profile --import trace-rank0.json.gz trace-rank1.json.gz --output-dir {record}")).exits(0);
        // As in a record of a job that was profiled.
        fs::create_dir(place.path(record).join("trace")).unwrap();
        for trace in ["trace-rank0.json.gz", "trace-rank1.json.gz"] {
            fs::copy(place.path(trace), place.path(record).join("trace").join(trace)).unwrap();
        }
    }
    fs::remove_dir_all(place.path("results/DIR")).unwrap();
    copy(place.path("results/BEFORE"), place.path("results/DIR"));
}

/// Runs the blocks of a page, one after another, in a copy of this folder.
fn follow(made: &Place, blocks: &[Block]) {
    let place = Place::new();
    copy(made.path(""), place.path(""));
    let path = format!("{}:{}", place.path("temporary/bin").display(), std::env::var("PATH").unwrap_or_default());
    for block in blocks {
        if block.text.contains("BEFORE") {
            traced(&place);
        }
        let has_python = std::env::split_paths(&path).any(|folder| folder.join("python3").is_file());
        if block.text.starts_with("python3") && !has_python {
            skip::skip(&block.place, "no python3");
            continue;
        }
        place.write("temporary/step.sh", format!("set -ex\n{}", block.text));
        let mut shell = place.command_of("/bin/sh", "temporary/step.sh");
        shell.command.env("PATH", &path).env("GITHUB_STEP_SUMMARY", place.path("temporary/summary.md"));
        let ended = shell.run();
        assert!(ended.status.success(), "{}:\n{}\n{}", block.place, ended.out, ended.err);
    }
}

/// A folder with all that pages name, and the programs that they call.
fn prepared() -> Place {
    let made = Place::new();
    fs::create_dir(made.path("temporary/bin")).unwrap();
    script(&made, "rankmark", &PROGRAM.replace("PROGRAM", env!("CARGO_BIN_EXE_rankmark")));
    for other in ["cargo", "xdg-open"] {
        script(&made, other, "#!/bin/sh\n");
    }
    fixtures(&made);
    made
}

/// Every `PARTS`-th page that has something to run, from this one on.
fn part(first: usize) {
    let made = prepared();
    let pages = blocks::pages()
        .into_iter()
        .map(|page| blocks::blocks(&page).into_iter().filter(|block| block.not_run().is_none()).collect::<Vec<_>>());
    let with_blocks = pages.filter(|blocks| !blocks.is_empty());
    with_blocks.skip(first).step_by(PARTS).for_each(|blocks| follow(&made, &blocks));
}

#[test]
fn pages_run_1() {
    part(0);
}

#[test]
fn pages_run_2() {
    part(1);
}

#[test]
fn pages_run_3() {
    part(2);
}

#[test]
fn pages_run_4() {
    part(3);
}

#[test]
fn pages_run_5() {
    part(4);
}

#[test]
fn pages_run_6() {
    part(5);
}

#[test]
fn pages_run_7() {
    part(6);
}

#[test]
fn pages_run_8() {
    part(7);
}

#[test]
fn pages_run_9() {
    part(8);
}

#[test]
fn pages_run_10() {
    part(9);
}

#[test]
fn pages_run_11() {
    part(10);
}

#[test]
fn pages_run_12() {
    part(11);
}

/// Blocks that are not run, by their reason.
#[test]
fn what_is_not_run_is_listed() {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in blocks::pages().iter().flat_map(|page| blocks::blocks(page)) {
        if let Some(reason) = block.not_run() {
            reasons.entry(reason.to_owned()).or_default().push(block.place.clone());
        }
    }
    for (reason, places) in reasons {
        skip::skip("commands of the documentation", &format!("{reason} ({})", places.join(", ")));
    }
}

/// What pages show of a command's output: made here (`UPDATE_EXPECT=1` writes it), or with the machine that it is of in
/// a comment.
#[test]
fn what_commands_print_is_what_pages_show() {
    let place = prepared();
    let mut count = 0;
    for page in blocks::pages() {
        let path = blocks::root().join(&page);
        let text = fs::read_to_string(&path).unwrap();
        let mut made = text.clone();
        for block in blocks::all_blocks(&page) {
            let known = ["sh", "console", "yaml", "python"].contains(&block.language.as_str());
            assert!(known, "{}: a block of `{}`; what a command prints is `console`", block.place, block.language);
            let is_marked = block.comment.as_deref().is_some_and(|comment| comment.starts_with("output: "));
            if block.language == "console" && !is_marked {
                count += 1;
                made = made.replacen(&block.text, &printed(&place, &block), 1);
            }
        }
        if made != text {
            expect_test::expect_file![path].assert_eq(&made);
        }
    }
    assert!(count > 0, "no page shows what a command prints");
}

/// The first line of a block, `$ COMMAND`, and what that prints.
fn printed(place: &Place, block: &Block) -> String {
    let first = block.text.lines().next().unwrap_or_default();
    let command = first.strip_prefix("$ rankmark ");
    let command = command.unwrap_or_else(|| panic!("{}: `$ rankmark ...`, or `<!-- output: MACHINE -->`", block.place));
    let ended = place.run(command);
    assert_eq!(ended.err.find("error:"), None, "{}: {}", block.place, ended.err);
    format!("{first}\n{}", ended.out)
}
