//! Prints the simulation of docs/appendix/comparisons.md: `cargo run --release -p rankmark-diagnose --example rates [PAIRS]`
//! (300 pairs).
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

#[path = "../tests/all/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

use simulation::{Known, Situation, simulate};

fn main() {
    let pairs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(300);
    println!("{pairs} pairs of runs of ten cases a row, trials with a standard deviation of 3%\n");
    println!(
        "| known | trials | correlation | noise between runs | any false verdict | smallest change found | same at 1.5 times it | 10% called same | smallest change |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for known in [Known::Nothing, Known::History(8), Known::Baseline(5), Known::Baseline(8), Known::Baseline(20)] {
        for (trials, correlation) in [(13, 0.0), (13, 0.25), (13, 0.5), (6, 0.25), (28, 0.25)] {
            let levels: &[f64] = if known == Known::Nothing { &[0.0] } else { &[0.0, 0.02] };
            for &between in levels {
                row(&Situation { cases: 10, trials, correlation, noise: 0.03, between, history: known }, pairs);
            }
        }
    }
}

fn row(situation: &Situation, pairs: usize) {
    let rates = simulate(situation, pairs, 1);
    let known = match situation.history {
        Known::Nothing => "two runs".to_owned(),
        Known::History(runs) => format!("two runs, history of {runs}"),
        Known::Baseline(runs) => format!("baseline of {runs}"),
    };
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    println!(
        "| {known} | {} | {} | {} | {} | {} | {} | {} | {} |",
        situation.trials,
        situation.correlation,
        percent(situation.between),
        percent(rates.any_false),
        percent(rates.found),
        percent(rates.same),
        percent(rates.ten_percent_same),
        percent(rates.smallest_change),
    );
}
