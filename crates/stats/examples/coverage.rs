//! Prints the coverage table of the method document: `cargo run -p stats --example coverage --release [RUNS]`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use stats::StopRule;
use stats::coverage::{Marginal, NOISES, PHIS, Situation, simulate};

fn main() {
    let runs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let rule = StopRule::default();
    println!("{runs} runs a row; {rule:?}\n");
    println!("| phi | marginal | noise | coverage | mean samples | precise |");
    println!("|---|---|---|---|---|---|");
    for phi in PHIS {
        for marginal in [Marginal::Normal, Marginal::Lognormal] {
            for noise in NOISES {
                let got = simulate(Situation { phi, marginal, noise }, &rule, runs, 1);
                let (coverage, precise) = (100.0 * got.coverage, 100.0 * got.precise);
                println!("| {phi} | {marginal:?} | {noise} | {coverage:.1}% | {:.0} | {precise:.0}% |", got.samples);
            }
        }
    }
}
