//! `rankmark validate`: what this machine can run, what it cannot, and the command that mends it.

use clap::ArgMatches;
use comm::Readiness;
use measure::machine;
use serde_json::{Value, json};
use terms::Bytes;

use crate::Failure;
use crate::terminal;

/// One line: a mark and a word, what was found, what mends it.
struct Finding {
    group: &'static str,
    name: String,
    state: State,
    found: String,
    hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Ready,
    Missing,
    Slow,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Missing => "missing",
            Self::Slow => "slow",
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Ready => "\u{1b}[32m✓\u{1b}[0m",
            Self::Missing => "\u{1b}[31m✗\u{1b}[0m",
            Self::Slow => "\u{1b}[33m!\u{1b}[0m",
        }
    }
}

fn finding(group: &'static str, name: &str, state: State, found: String, hint: Option<&str>) -> Finding {
    Finding { group, name: name.to_owned(), state, found, hint: hint.map(str::to_owned) }
}

fn system() -> Vec<Finding> {
    let machine = machine::detect();
    let mut found = vec![finding("system", "machine", State::Ready, report::machine_line(&machine), None)];
    let huge = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    let chosen =
        huge.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or("unknown");
    let usable = ["always", "within_size", "advise", "force"].contains(&chosen);
    found.push(finding(
        "system",
        "huge pages",
        if usable { State::Ready } else { State::Slow },
        format!("for shared memory: {chosen}; large messages are a few percent slower without"),
        (!usable).then_some("echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    ));
    let governor = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok();
    if let Some(governor) = governor.map(|text| text.trim().to_owned()) {
        let steady = governor == "performance";
        let state = if steady { State::Ready } else { State::Slow };
        let hint = (!steady).then_some("cpupower frequency-set -g performance");
        found.push(finding("system", "governor", state, format!("{governor}; others let clocks wander"), hint));
    }
    if let Some(available) = machine::available_memory() {
        found.push(finding("system", "memory", State::Ready, format!("{} available", Bytes(available).about()), None));
    }
    found
}

fn backends() -> Vec<Finding> {
    let one = |backend: &&dyn comm::Backend| match backend.probe() {
        Readiness::Ready { version, path } => {
            let place = path.map_or(String::new(), |path| format!(" {path}"));
            let note = if backend.about().simulated { ", computes times" } else { "" };
            let found = format!("{version}{place}{note}: {}", backend.about().doc);
            finding("CPU ranks", backend.about().name, State::Ready, found, None)
        }
        Readiness::Missing { why, hint } => {
            finding("CPU ranks", backend.about().name, State::Missing, why, Some(&hint))
        }
    };
    comm::BACKENDS.iter().map(one).collect()
}

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let findings: Vec<Finding> = system().into_iter().chain(backends()).collect();
    if matches.get_flag("json") {
        let all: Vec<Value> = findings
            .iter()
            .map(|finding| {
                json!({ "group": finding.group, "name": finding.name, "state": finding.state.word(),
                        "found": finding.found, "hint": finding.hint })
            })
            .collect();
        return terminal::print(&format!("{}\n", Value::Array(all)));
    }
    let mut text = String::new();
    let mut group = "";
    for finding in &findings {
        if finding.group != group {
            group = finding.group;
            text.push_str(&format!("\u{1b}[1m{group}\u{1b}[0m\n"));
        }
        let Finding { name, state, found, .. } = finding;
        text.push_str(&format!("  {} {:8} {name:12} {found}\n", state.mark(), state.word()));
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("                          mend: {hint}\n"));
        }
    }
    let ready = findings.iter().any(|finding| finding.group == "CPU ranks" && finding.state == State::Ready);
    let names: Vec<&str> = suite::abouts().iter().filter(|_| ready).map(|about| about.name).collect();
    let word = if names.len() == 1 { "benchmark" } else { "benchmarks" };
    text.push_str(&format!(
        "{} of {} {word} can run here: {}\n",
        names.len(),
        suite::BENCHMARKS.len(),
        names.join(", ")
    ));
    terminal::print(&text)?;
    Ok(if ready { 0 } else { 2 })
}
