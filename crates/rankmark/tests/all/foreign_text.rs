//! Text of records, plans, traces and logs commands nobody: whatever stands in any member of any line, no command prints a
//! control character but its own line breaks, tabs and styles, and text of data never begins a line.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use crate::place::{Ended, Place, json_lines};
use crate::skip;
use crate::snapshots::on_terminal;

/// What a terminal obeys. `FORGED` behind a line break would begin a line.
const COMMANDS: [&str; 9] = [
    "\u{1b}[2J\u{1b}[30A\u{1b}[8m",
    "\nFORGED: all 7 cases ok",
    "\r\nFORGED\r",
    "\u{1b}]0;title\u{7}",
    "\u{1b}[1;31mred\u{1b}[0m",
    "\u{9b}2J\u{85}",
    "\u{8}\u{7f}\u{b}\u{c}\t",
    "\u{202e}\u{fdd0}\u{fdda}\u{fdeb}[2J",
    "\u{1b}[A\u{1b}[J\u{0}",
];

/// Puts commands into a share of all texts and keys of a value.
fn forge(value: &mut Value, share: f64, random: &mut StdRng) {
    match value {
        Value::String(text) if random.random_bool(share) => {
            let command = COMMANDS.choose(random).unwrap();
            // In place of the text, behind it, or within it.
            *text = match random.random_range(0..3) {
                0 => (*command).to_owned(),
                1 => format!("{text}{command}"),
                _ => {
                    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
                    format!("{}{command}{}", &text[..middle], &text[middle..])
                }
            };
        }
        Value::Array(items) => items.iter_mut().for_each(|item| forge(item, share, random)),
        Value::Object(members) => {
            let forged: Map<String, Value> = std::mem::take(members)
                .into_iter()
                .map(|(mut key, mut item)| {
                    forge(&mut item, share, random);
                    if random.random_bool(share / 10.0) {
                        key += COMMANDS.choose(random).unwrap();
                    }
                    (key, item)
                })
                .collect();
            *members = forged;
        }
        _ => {}
    }
}

/// The first thing in an output that a terminal would obey, or a line that data began. `styles`: the program's own may stand
/// there.
fn obeyed(output: &str, styles: bool) -> Option<String> {
    let mut plain = output.replace("\r\n", "\n");
    if styles {
        for own in ["0", "1", "2", "31", "32", "33", "1;31", "1;33"] {
            plain = plain.replace(&format!("\u{1b}[{own}m"), "");
        }
    }
    let control = plain.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    let control = control.map(|c| format!("{c:?}"));
    control.or_else(|| plain.lines().find(|line| line.starts_with("FORGED")).map(str::to_owned))
}

#[track_caller]
fn is_harmless(ended: &Ended, arguments: &str, seed: u64) {
    for (stream, text) in [("output", &ended.out), ("errors", &ended.err)] {
        if let Some(found) = obeyed(text, false) {
            panic!("{stream} of `{arguments}`, seed {seed}: {found} in {text:?}");
        }
    }
    assert!(!ended.err.contains("panicked"), "`{arguments}`, seed {seed}: {}", ended.err);
}

#[track_caller]
fn check(place: &Place, arguments: &str, seed: u64) {
    is_harmless(&place.run(arguments), arguments, seed);
}

/// Seeds of the rounds: more before a release.
fn seeds(few: u64, what: &str) -> std::ops::Range<u64> {
    0..if skip::heavy(what) { 20 * few } else { few }
}

/// Writes a forged copy of a record that is read without its checksums.
fn forged_record(place: &Place, from: &str, to: &str, share: f64, random: &mut StdRng) {
    let folder = place.path(to);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["run.json", "cases.jsonl", "samples.jsonl", "profile.json"] {
        let Ok(text) = std::fs::read_to_string(place.path(&format!("{from}/{name}"))) else { continue };
        let values = if name.ends_with('l') { json_lines(&text) } else { vec![serde_json::from_str(&text).unwrap()] };
        let forged = values.into_iter().map(|mut value| {
            value.as_object_mut().unwrap().remove("crc32");
            forge(&mut value, share, random);
            format!("{value}\n")
        });
        place.write(&format!("{to}/{name}"), forged.collect::<String>());
    }
}

#[test]
fn text_of_a_record_is_inert_in_every_command() {
    let place = Place::new();
    place.run("comm all_reduce,broadcast --backend sim --ranks 2 --bytes 1KiB,2KiB --note n --tag t --quiet --output-dir base").exits(0);
    let commands = [
        "report forged --format markdown,csv,junit,prometheus,github-summary",
        "list records forged",
        "list records forged --json",
        "compare base forged",
        "compare forged base --json",
        "history forged base",
        "watch forged --once",
        "merge forged base --output-dir merged",
        "baseline save forged forged",
        "pack forged --redact --output packed.tar.gz",
        "fleet forged",
        "profile forged",
        "run --resume forged --quiet",
    ];
    for seed in seeds(3, "more forged records") {
        let mut random = StdRng::seed_from_u64(seed);
        // Few texts, so that most records can be read; then all, for errors.
        let share = [0.02, 0.1, 0.5][seed as usize % 3];
        for arguments in commands {
            forged_record(&place, "base", "forged", share, &mut random);
            check(&place, arguments, seed);
        }
        forged_record(&place, "base", "forged", 0.01, &mut random);
        for arguments in ["report forged", "list records forged", "compare base forged", "watch forged --once"] {
            let (shown, _) = on_terminal(&place, arguments, true);
            assert_eq!(obeyed(&shown, true), None, "`{arguments}` on a terminal, seed {seed}: {shown:?}");
        }
        let _ = std::fs::remove_dir_all(place.path("merged"));
    }
}

#[test]
fn text_of_a_plan_is_inert() {
    let place = Place::new();
    let plan = json!({
        "experiment": "sweep",
        "defaults": {"dtype": "f32", "backend": "sim"},
        "cases": [
            {"benchmark": "collective", "op": ["all_reduce", "broadcast"], "ranks": 2, "bytes": "1KiB", "trials": 1},
            {"benchmark": "training", "model": "mlp", "ranks": 1, "runtime": "pytorch", "python": "nowhere"},
            {"benchmark": "collective", "op": "barrier", "ranks": 2, "backend": "mpi", "mpi_library": "none.so"},
            {"benchmark": "collective", "op": "barrier", "ranks": 2, "env": ["NCCL_DEBUG=INFO"], "trials": 1}
        ],
        "expected": [{"benchmark": "collective", "metric": "busbw_gbs", "value": 3, "source": "a page"}]
    });
    for seed in seeds(8, "more forged plans") {
        let mut random = StdRng::seed_from_u64(seed);
        let mut forged = plan.clone();
        forge(&mut forged, [0.05, 0.2][seed as usize % 2], &mut random);
        // JSON is YAML.
        place.write("plan.yaml", forged.to_string());
        for arguments in
            ["validate --plan plan.yaml --quick", "run plan.yaml --dry-run", "run plan.yaml --output-dir out"]
        {
            check(&place, arguments, seed);
        }
        let _ = std::fs::remove_dir_all(place.path("out"));
        for arguments in ["run plan.yaml --dry-run", "validate --plan plan.yaml --quick"] {
            let (shown, _) = on_terminal(&place, arguments, true);
            assert_eq!(obeyed(&shown, true), None, "`{arguments}` on a terminal, seed {seed}: {shown:?}");
        }
    }
}

#[test]
fn a_variable_of_a_plan_reaches_ranks_as_it_was_written() {
    let place = Place::new();
    let case = json!({"benchmark": "collective", "op": "barrier", "ranks": 1, "env": ["NCCL_NOTE=a\u{1b}b\u{7}"], "trials": 1});
    place.write("plan.json", json!({"experiment": "e", "cases": [case]}).to_string());
    let file = place.path("seen");
    let starting =
        place.start("run plan.json --set backend=shm --set bytes=8 --output-dir out --inject delay:rank=0,time=300ms");
    let seen = crate::processes::wait_until(std::time::Duration::from_secs(60), || {
        starting.ranks().iter().any(|rank| {
            let read = std::fs::read(format!("/proc/{}/environ", rank.pid)).unwrap_or_default();
            let is_own = read.split(|byte| *byte == 0).any(|entry| entry == b"NCCL_NOTE=a\x1bb\x07");
            is_own && std::fs::write(&file, b"").is_ok()
        })
    });
    let ended = starting.wait();
    assert!(seen, "{}{}", ended.out, ended.err);
    assert!(place.read("out/cases.jsonl").contains(r"NCCL_NOTE=a\u001bb\u0007"));
}

/// A small trace of PyTorch's profiler.
fn trace(rank: u32) -> Value {
    let span = |name: &str, category: &str, begin: u32, length: u32| {
        json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": length,
               "args": {"External id": 1, "Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float",
                        "Process Group Description": "default_pg", "In msg nelems": 8, "Group size": 2}})
    };
    let step = |number: u32| {
        let begin = number * 1000;
        [
            span(&format!("ProfilerStep#{number}"), "user_annotation", begin, 900),
            span("forward", "user_annotation", begin + 10, 300),
            span("aten::mm", "cpu_op", begin + 20, 200),
            span("ncclDevKernel_AllReduce_Sum_f32", "kernel", begin + 400, 200 + 100 * rank),
            span("gemm_kernel", "kernel", begin + 20, 200),
        ]
    };
    json!({
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2,
                            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]}]},
        "host_name": "node-a",
        "traceEvents": (1..8).flat_map(step).collect::<Vec<_>>(),
    })
}

#[test]
fn text_of_a_trace_is_inert() {
    let place = Place::new();
    std::fs::create_dir(place.path("traces")).unwrap();
    let write = |share: f64, random: &mut StdRng| {
        for rank in 0..2 {
            let mut forged = trace(rank);
            forge(&mut forged, share, random);
            place.write(&format!("traces/rank{rank}.json"), forged.to_string());
        }
    };
    write(0.0, &mut StdRng::seed_from_u64(0));
    let told = place.run("profile --import traces --output-dir sound").exits(0);
    assert!(told.out.contains("all_reduce"), "{}", told.out);
    for seed in seeds(6, "more forged traces") {
        let mut random = StdRng::seed_from_u64(seed);
        write([0.02, 0.1, 0.5][seed as usize % 3], &mut random);
        for arguments in ["profile --import traces --output-dir out", "profile out", "import --as plan traces"] {
            check(&place, arguments, seed);
        }
        let (shown, _) = on_terminal(&place, "profile out", true);
        assert_eq!(obeyed(&shown, true), None, "seed {seed}: {shown:?}");
        let _ = std::fs::remove_dir_all(place.path("out"));
    }
}

#[test]
fn text_of_a_log_is_inert() {
    let place = Place::new();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/samples");
    let mut logs = Vec::new();
    for folder in std::fs::read_dir(samples).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let files = std::fs::read_dir(folder.path()).unwrap().flatten();
        logs.extend(files.filter_map(|file| std::fs::read_to_string(file.path()).ok()));
    }
    logs.sort();
    assert!(logs.len() > 20);
    for seed in seeds(logs.len() as u64, "more forged logs") {
        let mut random = StdRng::seed_from_u64(seed);
        let log = &logs[seed as usize % logs.len()];
        // A line break of a log ends its line, and what follows it is another one.
        let commands = COMMANDS.map(|command| command.replace(['\n', '\r', '\0'], ""));
        let mut text = String::new();
        for word in log.split_inclusive([' ', '\n', '"']) {
            let (word, end) = word.split_at(word.len() - word.ends_with([' ', '\n', '"']) as usize);
            text += word;
            text += if random.random_bool(0.03) { commands.choose(&mut random).unwrap() } else { "" };
            text += end;
        }
        place.write("forged.log", text);
        check(&place, "import forged.log --output-dir out", seed);
        check(&place, "import forged.log --dry-run", seed);
        let _ = std::fs::remove_dir_all(place.path("out"));
    }
}
