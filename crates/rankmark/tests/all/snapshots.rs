//! What commands print, whole: a flow of a user each, in `snapshots/`. `UPDATE_EXPECT=1 cargo test -p rankmark --test all snapshots`
//! writes them again; read the difference as a user would.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::place::Place;

/// Columns of the terminal that a user sees.
const COLUMNS: u16 = 80;

/// What a command prints on a terminal of 80 columns, and its exit code.
pub(crate) fn on_terminal(place: &Place, arguments: &str, colours: bool) -> (String, i32) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let program_s = ioctl_tiocgptpeer(&terminal, flags).unwrap();
    let size = Winsize { ws_row: 50, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&program_s, size).unwrap();
    let mut starting = place.command(arguments);
    starting.command.stdout(Stdio::from(program_s));
    if colours {
        starting.command.env("TERM", "xterm-256color");
    } else {
        starting.command.env("NO_COLOR", "1");
    }
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // It ends with EIO once no program has the other side.
        let _ = File::from(terminal).read_to_end(&mut text);
        String::from_utf8(text).unwrap().replace("\r\n", "\n")
    });
    let ended = starting.run();
    let text = reader.join().unwrap();
    (text + &ended.err, ended.status.code().unwrap_or(-1))
}

/// What a command prints into pipes, and its exit code. Runs need pipes: on a terminal they draw their rows again and again.
fn into_pipes(place: &Place, arguments: &str) -> (String, i32) {
    let ended = place.run(arguments);
    (ended.out + &ended.err, ended.status.code().unwrap_or(-1))
}

/// Compares what a command printed with its snapshot.
fn check(place: &Place, name: &str, arguments: &str, (text, code): (String, i32)) {
    let shown = format!("$ rankmark {arguments}\n{}[exit {code}]\n", plain(place, &text));
    expect_test::expect_file![format!("snapshots/{name}.txt")].assert_eq(&shown);
}

/// Without what differs from machine to machine and from run to run.
fn plain(place: &Place, text: &str) -> String {
    let folder = place.path("").display().to_string();
    let text = text.replace(folder.trim_end_matches('/'), "FOLDER").replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let mut lines = String::new();
    let mut is_left_out = false;
    for line in text.lines() {
        is_left_out = match line.split(' ').next().unwrap_or_default() {
            "machine" | "backends" => true,
            // What a line of these continues with.
            "" => is_left_out && !line.trim().is_empty(),
            _ => false,
        };
        if !is_left_out {
            lines += &format!("{}\n", without_times(line.trim_end()));
        }
    }
    lines
}

/// A time of a record's name (`20261126T101500Z`) as `TIME`.
fn without_times(line: &str) -> String {
    let is_time = |word: &str| {
        let digits = |range: std::ops::Range<usize>| {
            word.get(range).is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
        };
        digits(0..8) && word.get(8..9) == Some("T") && digits(9..15) && word.get(15..16) == Some("Z")
    };
    let mut shown = String::new();
    let mut rest = line;
    while !rest.is_empty() {
        if is_time(rest) {
            shown += "TIME";
            rest = &rest[16..];
        } else {
            let next = rest.chars().next().map_or(1, char::len_utf8);
            shown += &rest[..next];
            rest = &rest[next..];
        }
    }
    shown
}

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/samples").join(name).display().to_string()
}

const SIM: &str = "comm all_reduce --backend sim --ranks 2,4 --bytes 1KiB,1MiB --trials 6 --warmup 1 --iters 5";

/// Writes a record again as another run, with each time multiplied by what `factor` gives for its case and trial.
fn copy(place: &Place, to: &str, day: u32, factor: impl Fn(usize, usize) -> f64) {
    std::fs::create_dir_all(place.path(to)).unwrap();
    let mut run = place.run_file("sim");
    run["started"] = json!(format!("2026-01-{day:02}T00:00:00Z"));
    run["simulated"] = json!(false);
    run["machine"] = json!({ "host": "node-a", "os": "Debian", "kernel": "6.18", "arch": "x86_64", "cpu_model": "EPYC", "cores": 2 });
    // What a baseline leaves out or replaces would differ from machine to machine.
    let own = ["crc32", "id", "end", "environment", "versions", "backends", "placement"];
    own.iter().for_each(|name| drop(run.as_object_mut().unwrap().remove(*name)));
    run["command_line"] = json!(["rankmark"]);
    place.write(&format!("{to}/run.json"), run.to_string());
    let mut lines = String::new();
    for (case, mut line) in place.cases("sim").into_iter().enumerate() {
        let time = line["time_s"]["median"].as_f64().unwrap();
        let trials: Vec<f64> = (0..13).map(|trial| time * factor(case, trial)).collect();
        let mut sorted = trials.clone();
        sorted.sort_by(f64::total_cmp);
        line["time_s"] = json!({ "median": sorted[6], "ci95": [sorted[2], sorted[10]] });
        line["trial_median_s"] = json!(trials);
        line["trials"] = json!(13);
        line["simulated"] = json!(false);
        line["caveats"] = json!([]);
        let members = line.as_object_mut().unwrap();
        ["crc32", "run", "line", "trial_round", "metrics"].iter().for_each(|name| drop(members.remove(*name)));
        lines += &format!("{line}\n");
    }
    place.write(&format!("{to}/cases.jsonl"), lines);
}

fn noise(case: usize, trial: usize) -> f64 {
    1.0 + ((case * 7 + trial * 5) % 13) as f64 / 1e3
}

#[test]
fn help_and_lists() {
    let place = Place::new();
    for (name, arguments) in [
        ("help", "--help"),
        ("run_help", "run --help"),
        ("comm_short_help", "comm -h"),
        ("list_benchmarks", "list benchmarks"),
        ("list_formats", "list formats"),
    ] {
        let printed = on_terminal(&place, arguments, false);
        check(&place, name, arguments, printed);
    }
}

#[test]
fn errors() {
    let place = Place::new();
    place.write("typo.yaml", "experiment: typo\ncases:\n  - {benchmark: collective, op: all_reduce, bites: 1KiB}\n");
    for (name, arguments) in [
        ("error_no_plan", "run missing.yaml"),
        ("error_unknown_field", "run typo.yaml"),
        ("error_unknown_operation", "comm brodcast"),
        ("error_unknown_model", "train --model gtp2"),
        ("error_no_record", "report nowhere"),
        ("error_unknown_option", "comm all_reduce --rank 2"),
    ] {
        let printed = on_terminal(&place, arguments, false);
        check(&place, name, arguments, printed);
    }
}

#[test]
fn a_run_and_what_follows() {
    let place = Place::new();
    let run = format!("{SIM} --output-dir sim");
    let printed = into_pipes(&place, &run);
    check(&place, "run", &run, printed);
    let dry = format!("{SIM} --dry-run");
    let printed = on_terminal(&place, &dry, false);
    check(&place, "dry_run", &dry, printed);
    let printed = on_terminal(&place, "report sim", false);
    check(&place, "report", "report sim", printed);
}

#[test]
fn comparisons() {
    let place = Place::new();
    place.run(&format!("{SIM} --output-dir sim --quiet")).exits(0);
    for day in 1..=8 {
        let nightly = 1.0 + f64::from(day * 5 % 8) / 500.0;
        copy(&place, &format!("results/night-{day}"), day, |case, trial| nightly * noise(case, trial + day as usize));
    }
    copy(&place, "slower", 9, |case, trial| noise(case, trial) * if case == 1 { 1.3 } else { 1.0 });
    for (name, arguments) in [
        ("compare", "compare results/night-1 slower"),
        ("compare_several", "compare results/night-1 results/night-2 slower"),
        ("history", "history results"),
        (
            "baseline_save",
            "baseline save night results/night-1 results/night-2 results/night-3 results/night-4 results/night-5",
        ),
        ("baseline_list", "baseline list"),
        ("baseline_check", "baseline check night slower"),
    ] {
        let printed = on_terminal(&place, arguments, false);
        check(&place, name, arguments, printed);
    }
}

#[test]
fn files_of_others() {
    let place = Place::new();
    for (name, file) in [
        ("nccl.txt", "nccl_tests/2.19.txt"),
        ("osu.txt", "osu/7.2_latency.txt"),
        ("h100.json.gz", "kineto/h100.json.gz"),
    ] {
        std::fs::copy(sample(file), place.path(name)).unwrap();
    }
    for (name, arguments) in [
        ("import_nccl_tests", "import nccl.txt --output-dir nccl"),
        ("import_osu", "import osu.txt --output-dir osu"),
        ("profile_import", "profile --import h100.json.gz --output-dir h100"),
    ] {
        let printed = on_terminal(&place, arguments, false);
        check(&place, name, arguments, printed);
    }
    let file: Value = place.run_file("nccl");
    assert!(file.get("imported").is_some());
}
