//! Prints the tables of docs/appendix/diagnosis.md: `cargo run --release -p rankmark-diagnose --example straggler_rates [RUNS]
//! [HEALTHY_RUNS]` (200 and 600 timelines a cell). Equal arguments print equal tables.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

#[path = "../tests/all/profile/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

use diagnose::profile::{Phase, Settings};
use simulation::{Fault, Law, Rates, Scenario, Target, simulate};

/// Steps of a timeline.
const STEPS: usize = 200;
/// Parts of a step.
const DELAYS: [f64; 7] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const JITTERS: [f64; 3] = [0.01, 0.05, 0.15];
const LAWS: [(&str, Law); 5] = [
    ("normal", Law::Normal),
    ("correlated (0.6)", Law::Correlated(0.6)),
    ("heavy-tailed (t, 2)", Law::HeavyTailed),
    ("spikes", Law::Spikes),
    ("correlated (0.9)", Law::Correlated(0.9)),
];

fn main() {
    let number =
        |place: usize, usual: usize| std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(usual);
    healthy(number(2, 600));
    delayed(number(1, 200));
    steps(number(1, 200));
    few(number(1, 200), number(2, 600));
}

/// The one-sided 95% bound of a rate: the smallest rate at which so few hits have a chance of at most 5% (Clopper and
/// Pearson, Biometrika 26, 1934), by bisection.
fn bound(hits: usize, runs: usize) -> f64 {
    let chance = |rate: f64| {
        let mut term = (1.0 - rate).powi(runs as i32);
        let mut sum = term;
        for k in 0..hits {
            term *= (runs - k) as f64 / (k + 1) as f64 * rate / (1.0 - rate);
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if chance(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn share(hits: usize, runs: usize) -> String {
    if runs == 0 { "-".to_owned() } else { percent(hits as f64 / runs as f64) }
}

/// `0.2% (0.8%)`: a rate and its bound.
fn bounded(hits: usize, runs: usize) -> String {
    format!("{} ({})", share(hits, runs), percent(bound(hits, runs)))
}

fn healthy(runs: usize) {
    println!("Equal ranks, {STEPS} steps, {runs} timelines a cell: any rank is named (at most, 95%)\n");
    println!("| ranks | jitter | {} |", LAWS.map(|(name, _)| name).join(" | "));
    println!("|---|---|---|---|---|---|---|");
    let (mut all, mut named) = (0, 0);
    for ranks in [2, 4, 8] {
        for jitter in JITTERS {
            let cells = LAWS.map(|(_, law)| {
                let scenario = Scenario { law, ..Scenario::equal(ranks, STEPS, jitter) };
                let rates = simulate(&scenario, &Settings::default(), runs, 1);
                all += runs;
                named += rates.named;
                bounded(rates.named, runs)
            });
            println!("| {ranks} | {} | {} |", percent(jitter), cells.join(" | "));
        }
    }
    println!("\nAll cells: {named} of {all} timelines, {}.\n", bounded(named, all));
    spread(runs);
}

/// Equal ranks but for a constant difference in speed below the minimum share.
fn spread(runs: usize) {
    println!("Four ranks, the slowest always slower by 0.4% of a step: any rank is named (at most, 95%)\n");
    println!("| jitter | named |");
    println!("|---|---|");
    for jitter in JITTERS {
        let scenario = Scenario { spread: 0.004, ..Scenario::equal(4, STEPS, jitter) };
        let rates = simulate(&scenario, &Settings::default(), runs, 2);
        println!("| {} | {} |", percent(jitter), bounded(rates.named, runs));
    }
    println!();
}

fn fault(target: Target, phase: Phase, delay: f64, every: usize) -> Fault {
    Fault { target, phase, delay, every }
}

/// What is planted, by a delay.
type Pattern = (&'static str, fn(f64) -> Vec<Fault>);

const PATTERNS: [Pattern; 4] = [
    ("one rank", |delay| vec![fault(Target::Rank(1), Phase::Forward, delay, 1)]),
    ("two ranks", |delay| {
        vec![fault(Target::Rank(1), Phase::Forward, delay, 1), fault(Target::Rank(3), Phase::Input, delay, 1)]
    }),
    ("one rank, every 5th step", |delay| vec![fault(Target::Rank(2), Phase::Backward, delay, 5)]),
    ("rotating", |delay| vec![fault(Target::Rotating, Phase::Backward, delay, 2)]),
];

fn delayed(runs: usize) {
    println!(
        "Planted delays, 4 ranks, {STEPS} steps, {runs} timelines a cell: the slow rank is named (rotating: called rotating)\n"
    );
    println!(
        "| planted | law | jitter | {} | found in 95% from | right phase | other rank named |",
        DELAYS.map(percent).join(" | ")
    );
    println!("|---|---|---|{}---|---|---|", "---|".repeat(DELAYS.len()));
    for (name, faults) in PATTERNS {
        for (law_name, law) in [LAWS[0], LAWS[2]] {
            for jitter in JITTERS {
                let rates = DELAYS.map(|delay| {
                    let scenario = Scenario { law, faults: faults(delay), ..Scenario::equal(4, STEPS, jitter) };
                    simulate(&scenario, &Settings::default(), runs, 3)
                });
                println!("| {name} | {law_name} | {} | {} |", percent(jitter), row(name, &rates));
            }
        }
    }
    println!();
}

/// Rates by delay, the smallest delay from which on all are found in 95%, and what goes wrong over all delays.
fn row(name: &str, rates: &[Rates; 7]) -> String {
    let hits = |rates: &Rates| if name == "rotating" { rates.rotating } else { rates.found };
    let found = rates.map(|rates| share(hits(&rates), rates.runs)).join(" | ");
    let enough = |rates: &Rates| hits(rates) as f64 >= 0.95 * rates.runs as f64;
    let missed = rates.iter().rposition(|rates| !enough(rates)).map_or(0, |place| place + 1);
    let least = DELAYS.get(missed).map_or("more than 50%".to_owned(), |delay| percent(*delay));
    let sum = |part: fn(&Rates) -> usize| rates.iter().map(part).sum::<usize>();
    let phase = share(sum(|rates| rates.phase), sum(|rates| rates.found));
    let accused = share(sum(|rates| rates.accused), sum(|rates| rates.runs));
    format!("{found} | {least} | {phase} | {accused}")
}

/// How many steps a delay of 5% at a jitter of 5% needs, and what is said where it is not found.
fn steps(runs: usize) {
    println!("One rank delayed by 5% of a step, 4 ranks: by the number of steps\n");
    println!("| law | jitter | steps | slow rank named | other rank named | no verdict | cleared below the delay |");
    println!("|---|---|---|---|---|---|---|");
    for (law, jitter) in [(Law::Normal, 0.05), (Law::Correlated(0.9), 0.05), (Law::Normal, 0.4)] {
        for steps in [10, 20, 30, 50, 100, 200, 500] {
            let faults = (PATTERNS[0].1)(0.05);
            let scenario = Scenario { faults, law, ..Scenario::equal(4, steps, jitter) };
            let rates = simulate(&scenario, &Settings::default(), runs, 4);
            let name = LAWS.iter().find(|one| one.1 == law).map_or("", |one| one.0);
            let cells =
                [rates.found, rates.accused, rates.unclear, rates.wrongly_cleared].map(|hits| share(hits, runs));
            println!("| {name} | {} | {steps} | {} |", percent(jitter), cells.join(" | "));
        }
    }
}

/// Few steps of two ranks: a rank that waits for data and computes faster while the other waits for it, and none.
fn few(runs: usize, healthy: usize) {
    println!();
    println!(
        "Two ranks, few steps: one waits for 8% of a step for its data and computes faster by 3.5%. The noise of the input is a \
         tenth of that of the other phases\n"
    );
    println!(
        "| law | jitter | steps | slow rank named | right phase | other rank named | equal ranks: any is named (at most, 95%) |"
    );
    println!("|---|---|---|---|---|---|---|");
    let late = vec![fault(Target::Rank(1), Phase::Input, 0.08, 1), fault(Target::Rank(1), Phase::Backward, -0.035, 1)];
    for (name, law) in LAWS {
        for jitter in [0.02, 0.05] {
            for steps in [10, 15, 24, 50] {
                let equal = Scenario { law, quiet: Some(Phase::Input), ..Scenario::equal(2, steps, jitter) };
                let rates =
                    simulate(&Scenario { faults: late.clone(), ..equal.clone() }, &Settings::default(), runs, 5);
                let none = simulate(&equal, &Settings::default(), healthy, 6);
                let cells = [share(rates.found, runs), share(rates.phase, rates.found), share(rates.accused, runs)];
                let none = bounded(none.named, healthy);
                println!("| {name} | {} | {steps} | {} | {none} |", percent(jitter), cells.join(" | "));
            }
        }
    }
}
