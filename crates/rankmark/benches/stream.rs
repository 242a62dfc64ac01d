//! Memory bandwidth compared with a C compiler's: `cargo bench -p rankmark --bench stream -- [PAIRS]`.
//!
//! Each pair is a fresh process of `rankmark hardware` and one of peers/stream/triad.c, in alternating order, on one core and
//! 192 MiB. The C loops run with pages of 4 KiB, as STREAM comes, and with huge pages, as our arrays have where the kernel has
//! them. A ratio above 1 means that ours moves more bytes a second.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments, starts programs, and prints its table"
)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

const BYTES: u64 = 192 << 20;
const SECONDS: &str = "0.3";
const PAIRS: usize = 20;
/// Equal is an interval inside this.
const EQUAL: [f64; 2] = [0.95, 1.05];

fn main() {
    let pairs = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(PAIRS);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = folder.path().join("triad");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers/stream/triad.c");
    let compiled = Command::new("cc").args(["-O3", "-march=native", "-o"]).arg(&program).arg(source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("stream: skipped, there is no C compiler `cc`");
        return;
    }
    println!("| test | pages | pairs | ours / C | 95% interval | equal within 5 % |");
    println!("|---|---|---|---|---|---|");
    for test in ["copy", "scale", "add", "triad"] {
        for pages in ["small", "huge"] {
            report(test, pages, &measure(test, pages, pairs, &program, folder.path()));
        }
    }
}

/// Ratios of bandwidth, ours over C's.
fn measure(test: &str, pages: &str, pairs: usize, program: &Path, folder: &Path) -> Vec<f64> {
    let pair = |number: usize| {
        let (ours, theirs);
        if number.is_multiple_of(2) {
            ours = of_ours(test, &folder.join(format!("{test}-{pages}-{number}")));
            theirs = of_c(test, pages, program);
        } else {
            theirs = of_c(test, pages, program);
            ours = of_ours(test, &folder.join(format!("{test}-{pages}-{number}")));
        }
        theirs / ours
    };
    (0..pairs).map(pair).collect()
}

/// Nanoseconds of a pass of `rankmark hardware`.
fn of_ours(test: &str, record: &Path) -> f64 {
    let bytes = BYTES.to_string();
    let arguments =
        ["hardware", test, "--threads", "1", "--trials", "1", "--max-seconds", "0.3s", "--json", "--bytes", &bytes];
    let output = Command::new(env!("CARGO_BIN_EXE_rankmark"))
        .args(arguments)
        .arg("--output-dir")
        .arg(record)
        .output()
        .expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut times = lines.filter(|line| line["wrong"] == 0).filter_map(|line| line["time_s"]["median"].as_f64());
    times.next_back().unwrap_or_else(|| panic!("{test}: {text}{}", String::from_utf8_lossy(&output.stderr))) * 1e9
}

/// Nanoseconds of a pass of the C loops, on the first core.
fn of_c(test: &str, pages: &str, program: &Path) -> f64 {
    let bytes = BYTES.to_string();
    let program = program.display().to_string();
    let output = Command::new("taskset")
        .args(["-c", "0", &program, test, &bytes, SECONDS, pages])
        .output()
        .expect("taskset of util-linux runs");
    assert!(output.status.success(), "{test}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn report(test: &str, pages: &str, ratios: &[f64]) {
    let median = stats::median(ratios);
    let (interval, equal) = match stats::sign_interval(ratios) {
        Some([low, high]) => {
            (format!("{low:.3} to {high:.3}"), if EQUAL[0] <= low && high <= EQUAL[1] { "yes" } else { "no" })
        }
        None => ("too few pairs".to_owned(), "-"),
    };
    println!("| {test} | {pages} | {} | {median:.3} | {interval} | {equal} |", ratios.len());
}
