//! Prints the simulation of docs/appendix/method.md: `cargo run -p rankmark-stats --example coverage --release [RUNS]`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

#[path = "../tests/all/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

use simulation::{Path, Situation, simulate};

fn main() {
    let runs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(400);
    println!("{runs} runs of 12 cases a row, spikes in 5% of trials\n");
    println!(
        "| path | stops within | trials | `ci95` holds its span | `ci95_again` holds the long run | has none | width / oracle |"
    );
    println!("|---|---|---|---|---|---|---|");
    let correlated = [0.0, 0.15, 0.3, 0.5, 0.7].map(Path::Correlated);
    let regimes = [0.3, 1.0, 4.0, 20.0].map(Path::Regimes);
    for path in [correlated.as_slice(), regimes.as_slice(), &[Path::Drift(1.0), Path::Drift(3.0)]].concat() {
        for (target, fewest) in [(0.06, 6), (0.04, 9), (0.04, 13), (0.0, 42)] {
            let got = simulate(&Situation { path, spikes: 0.05, cases: 12, target, fewest }, runs, 1);
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            let long_run = if matches!(path, Path::Drift(_)) { "-".to_owned() } else { percent(got.long_run) };
            let width = if got.width > 0.0 { format!("{:.2}", got.width) } else { "-".to_owned() };
            let name = match path {
                Path::Correlated(correlation) => format!("correlation {correlation}"),
                Path::Regimes(dwell) => format!("regimes of {dwell} trials"),
                Path::Drift(change) => format!("drift of {change} sd"),
            };
            let within = if target > 0.0 { percent(target) } else { "never".to_owned() };
            println!(
                "| {name} | {within}, from {fewest} | {:.1} | {} | {long_run} | {} | {width} |",
                got.trials,
                percent(got.own_span),
                percent(got.without),
            );
        }
    }
}
