//! Prints the tables of docs/diagnosis.md: `cargo run --release -p diagnose --example straggler_rates [RUNS] [HEALTHY_RUNS]`
//! (200 and 600 runs a row). Equal arguments print equal tables.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

use diagnose::profile::simulation::{Fault, Law, Rates, Scenario, Target, simulate};
use diagnose::profile::{Phase, Settings};

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

fn of(hits: usize, runs: usize) -> String {
    if runs == 0 { "-".to_owned() } else { percent(hits as f64 / runs as f64) }
}

fn healthy(runs: usize) {
    println!("Equal ranks, {STEPS} steps, {runs} timelines a row\n");
    println!("| ranks | jitter | law | any rank named | at most (95%) | called rotating |");
    println!("|---|---|---|---|---|---|");
    let (mut all, mut named) = (0, 0);
    for ranks in [2, 4, 8] {
        for jitter in JITTERS {
            for (name, law) in LAWS {
                let scenario = Scenario { law, ..Scenario::equal(ranks, STEPS, jitter) };
                let rates = simulate(&scenario, &Settings::default(), runs, 1);
                all += runs;
                named += rates.named;
                let (told, most) = (of(rates.named, runs), percent(bound(rates.named, runs)));
                println!("| {ranks} | {} | {name} | {told} | {most} | {} |", percent(jitter), of(rates.rotating, runs));
            }
        }
    }
    let most = percent(bound(named, all));
    println!("\nAll rows: {named} of {all} timelines name a rank, a rate of at most {most} (95%).\n");
    spread(runs);
}

/// Equal ranks but for a constant difference in speed below the minimum share.
fn spread(runs: usize) {
    let scenario = |jitter| Scenario { spread: 0.004, ..Scenario::equal(4, STEPS, jitter) };
    for jitter in JITTERS {
        let rates = simulate(&scenario(jitter), &Settings::default(), runs, 2);
        let most = percent(bound(rates.named, runs));
        println!(
            "The slowest of four ranks always 0.4% slower, jitter {}: a rank is named in {} (at most {most}).\n",
            percent(jitter),
            of(rates.named, runs)
        );
    }
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
    println!("Planted delays, 4 ranks, {STEPS} steps, {runs} timelines a row\n");
    println!(
        "| planted | law | jitter | delay | slow rank named | all of them | right phase | other rank named | called rotating |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut smallest: Vec<String> = Vec::new();
    for (name, faults) in PATTERNS {
        for (law_name, law) in [LAWS[0], LAWS[2]] {
            for jitter in JITTERS {
                let mut least: Option<f64> = None;
                for delay in DELAYS {
                    let scenario = Scenario { law, faults: faults(delay), ..Scenario::equal(4, STEPS, jitter) };
                    let rates = simulate(&scenario, &Settings::default(), runs, 3);
                    let hits = if name == "rotating" { rates.rotating } else { rates.found };
                    let enough = hits as f64 >= 0.95 * runs as f64;
                    least = if enough { least.or(Some(delay)) } else { None };
                    row([name, law_name], jitter, delay, &rates);
                }
                let least = least.map_or("more than 50%".to_owned(), percent);
                smallest.push(format!("| {name} | {law_name} | {} | {least} |", percent(jitter)));
            }
        }
    }
    println!("\nThe smallest of these delays that is found in at least 95% (rotating: called rotating)\n");
    println!("| planted | law | jitter | smallest delay |");
    println!("|---|---|---|---|");
    println!("{}\n", smallest.join("\n"));
}

fn row([name, law]: [&str; 2], jitter: f64, delay: f64, rates: &Rates) {
    let runs = rates.runs;
    println!(
        "| {name} | {law} | {} | {} | {} | {} | {} | {} | {} |",
        percent(jitter),
        percent(delay),
        of(rates.found, runs),
        of(rates.all_found, runs),
        of(rates.phase, rates.found),
        of(rates.accused, runs),
        of(rates.rotating, runs)
    );
}

/// How many steps a delay of 5% at a jitter of 5% needs.
fn steps(runs: usize) {
    println!("One rank delayed by 5% of a step, jitter 5%, normal, 4 ranks: by the number of steps\n");
    println!("| steps | slow rank named | other rank named |");
    println!("|---|---|---|");
    for steps in [10, 20, 30, 50, 100, 200, 500] {
        let faults = (PATTERNS[0].1)(0.05);
        let scenario = Scenario { faults, ..Scenario::equal(4, steps, 0.05) };
        let rates = simulate(&scenario, &Settings::default(), runs, 4);
        println!("| {steps} | {} | {} |", of(rates.found, runs), of(rates.accused, runs));
    }
}
