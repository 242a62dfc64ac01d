//! Writes the record of an invented run of any size, to see how long its report takes:
//! `cargo run --release -p rankmark-report --example large -- DIR CASES` writes a record; without CASES it writes the report of
//! the record in DIR, as `rankmark report DIR` does.

#![expect(clippy::disallowed_methods, reason = "an example reads its arguments")]

#[path = "../tests/all/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../tests/all/many.rs"]
mod many;

use std::fs::File;
use std::io::{BufWriter, Error, Write};
use std::path::{Path, PathBuf};

use record::{Case, CaseLine, CaseSamples};
use serde_json::{Map, Value, json};

/// Samples of each rank.
const SAMPLES: u64 = 120;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "large".to_owned()));
    match arguments.next() {
        Some(cases) => write(&dir, cases.parse().map_err(Error::other)?),
        None => {
            let run = report::Run::read(&dir, benchmarks::VIEWS).map_err(Error::other)?;
            report::write(&run, &dir).map(drop).map_err(Error::other)
        }
    }
}

fn write(dir: &Path, cases: usize) -> Result<(), Error> {
    let run = many::run(cases);
    std::fs::create_dir_all(dir)?;
    let file = |name: &str| File::create(dir.join(name)).map(BufWriter::new);
    let (mut lines, mut samples) = (file("cases.jsonl")?, file("samples.jsonl")?);
    // Rounds visit cases in an order of their own: lines do not stand in the plan's.
    let step = (cases / 2 + 1..).find(|step| shares_no_factor(*step, cases.max(1))).unwrap_or(1);
    for line in (0..cases).map(|index| &run.cases[index * step % cases]) {
        writeln!(lines, "{}", serde_json::to_string(line)?)?;
        writeln!(samples, "{}", serde_json::to_string(&series(line))?)?;
    }
    let plan: Vec<Case> = run.cases.iter().map(case).collect();
    let about = json!({"schema": 1, "tool": {"name": "rankmark", "version": "0.1.0"}, "experiment": "large",
        "started": "2026-11-20T10:15:00Z", "command_line": ["rankmark", "run", "large.yaml"],
        "machine": {"host": "h", "os": "Debian", "kernel": "6.18", "arch": "x86_64", "cpu_model": "invented"},
        "plan": {"experiment": "large", "profiling": false, "cases": plan}, "benchmarks": run.benchmarks,
        "rounds": {"seed": 1, "made": 6}, "simulated": true});
    serde_json::to_writer(file("run.json")?, &about)?;
    lines.flush()?;
    samples.flush()
}

/// Whether steps of this size visit each of so many places once.
fn shares_no_factor(step: usize, places: usize) -> bool {
    let (mut larger, mut smaller) = (step, places);
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    larger == 1
}

/// The case that a line is of, with settings and world as plans have them.
fn case(line: &CaseLine) -> Case {
    let settings =
        json!({"min_time": 0.5, "max_time": 10.0, "target": 0.02, "warmup": 0.1, "launches": 1, "check": true});
    let world = ["ranks", "backend", "device"].map(|name| (name.to_owned(), line.parameters[name].clone()));
    Case {
        id: line.id.clone(),
        benchmark: line.benchmark.clone(),
        parameters: line.parameters.clone(),
        settings: settings.as_object().cloned().unwrap_or_default().into(),
        world: Map::<String, Value>::from_iter(world).into(),
        caveats: line.caveats.clone(),
        bytes_requested: line.bytes,
        skip: None,
    }
}

fn series(line: &CaseLine) -> CaseSamples {
    let median = line.time_s.as_ref().map_or(0.0, |time| time.median) * 1e9;
    let rank = |rank: u64| (0..SAMPLES).map(|index| (median * 2.0) as u64 + 7 * index + rank).collect();
    CaseSamples { id: line.id.clone(), calls: 2, ns: (0..2).map(rank).collect(), ..CaseSamples::default() }
}
