//! Prints the table of docs/appendix/diagnosis.md on steps without a fault: `cargo run --release -p rankmark-diagnose --example
//! without_rates [RUNS]` (200 timelines a row). Equal arguments print equal tables.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

#[path = "../tests/all/profile/counterfactual.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod counterfactual;
#[path = "../tests/all/profile/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

use counterfactual::{Claim, Fault, Job, Op, blocking, claim, overlapped, pairs};
use simulation::Law;

/// What is planted: words, the program, and the faults for a delay.
type Planted = (&'static str, fn() -> Vec<Op>, fn(f64) -> Vec<Fault>);

const PLANTED: [Planted; 5] = [
    ("one rank, forward", blocking, |delay| vec![Fault::Rank(1, 1, delay, 1)]),
    ("two ranks", blocking, |delay| vec![Fault::Rank(1, 1, delay, 1), Fault::Rank(3, 4, delay, 1)]),
    ("one rank, every 5th step", blocking, |delay| vec![Fault::Rank(2, 2, 2.0 * delay, 5)]),
    ("one rank, 5% of a step overlapped", overlapped, |delay| vec![Fault::Rank(1, 3, delay, 1)]),
    ("one of two links", pairs, |delay| vec![Fault::Link(1, delay)]),
];

fn main() {
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200);
    println!("4 ranks, 200 steps, {runs} timelines a row\n");
    println!("| planted | delay | law | jitter | claims | interval holds the truth | median error | median width |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, program, faults) in PLANTED {
        for delay in [0.1, 0.3] {
            for (law_name, law) in
                [("normal", Law::Normal), ("correlated (0.6)", Law::Correlated(0.6)), ("spikes", Law::Spikes)]
            {
                for jitter in [0.01, 0.05] {
                    let job = Job { law, ..Job::new(program(), jitter, faults(delay)) };
                    println!(
                        "| {name} | {} | {law_name} | {} | {} |",
                        percent(delay),
                        percent(jitter),
                        row(&job, runs)
                    );
                }
            }
        }
    }
    println!("\nNothing is planted\n\n| program | jitter | claims |\n|---|---|---|");
    for (name, program) in [("blocking", blocking as fn() -> Vec<Op>), ("overlapped", overlapped), ("pairs", pairs)] {
        for jitter in [0.01, 0.05] {
            let job = Job::new(program(), jitter, Vec::new());
            let claims = (0..runs as u64).filter(|seed| claim(&job, 1_000_000 + seed).is_some()).count();
            println!("| {name} | {} | {claims} of {runs} |", percent(jitter));
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn row(job: &Job, runs: usize) -> String {
    let claims: Vec<Claim> = (0..runs as u64).filter_map(|seed| claim(job, seed)).collect();
    if claims.is_empty() {
        return format!("0 of {runs} | - | - | -");
    }
    let covered = claims.iter().filter(|claim| claim.is_covered()).count();
    let median = |of: fn(&Claim) -> f64| stats::median(&claims.iter().map(of).collect::<Vec<f64>>());
    let error = median(|claim| (claim.claimed.step_s - claim.truth_s) / claim.truth_s);
    let width = median(|claim| (claim.claimed.ci95[1] - claim.claimed.ci95[0]) / claim.truth_s);
    let share = percent(covered as f64 / claims.len() as f64);
    format!("{} of {runs} | {share} | {:+.2}% | {} |", claims.len(), 100.0 * error, percent(width))
        .trim_end_matches(" |")
        .to_owned()
}
