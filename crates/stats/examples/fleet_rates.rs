//! Prints the simulation of docs/appendix/fleets.md: `cargo run --release -p rankmark-stats --example fleet_rates [FLEETS]`
//! (2000 fleets of 8 nodes, and fewer of larger ones).
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

use stats::samples::{Marginal, Situation, StationarySeries};
use stats::{Member, PairTimes, fleet, links};

/// Trials of a node.
const TRIALS: usize = 6;
/// Deviation of a trial.
const TRIAL: f64 = 0.01;
/// Healthy nodes differ by this.
const NODE: f64 = 0.005;
/// The chance of any false alarm.
const LEVEL: f64 = 0.01;

fn main() {
    let fleets = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(2000);
    nodes(fleets);
    println!();
    pairs(fleets);
}

fn series(noise: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut series = StationarySeries::new(Situation { phi: 0.0, marginal: Marginal::Lognormal, noise }, seed);
    series.extend(count);
    series.samples
}

/// Nodes with their own level and six trials each; the first `bad` take so many times as long. With `heavy`, the trials
/// of one node in fifty vary three times as much, and one trial in fifty takes 1.5 times as long.
fn draw(nodes: usize, bad: usize, factor: f64, heavy: bool, seed: u64) -> Vec<Member> {
    let levels = series(NODE, nodes, seed);
    (0..nodes)
        .map(|node| {
            let wild = if heavy && node % 50 == 7 { 3.0 } else { 1.0 };
            let level = levels[node] * if node < bad { factor } else { 1.0 };
            let spike = |at: usize| if heavy && (node * TRIALS + at) % 50 == 11 { 1.5 } else { 1.0 };
            let trials = series(wild * TRIAL, TRIALS, seed * 10_007 + node as u64);
            let trials: Vec<f64> = trials.iter().enumerate().map(|(at, trial)| level * trial * spike(at)).collect();
            Member::from_trials(&trials)
        })
        .collect()
}

/// The share of fleets in which any healthy node is slow, and the share of slow nodes that are found.
fn rates(nodes: usize, bad: usize, factor: f64, heavy: bool, fleets: usize) -> [f64; 2] {
    let (mut alarms, mut found) = (0, 0);
    for seed in 0..fleets {
        let members = draw(nodes, bad, factor, heavy, 1 + seed as u64 * 31 + nodes as u64 * 1_000_003);
        let Some(judged) = fleet(&members, LEVEL) else { continue };
        let slow = |from: usize, to: usize| judged.standings[from..to].iter().filter(|one| one.slow).count();
        found += slow(0, bad);
        alarms += usize::from(slow(bad, nodes) > 0);
    }
    [alarms as f64 / fleets as f64, found as f64 / (fleets * bad.max(1)) as f64]
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

fn nodes(fleets: usize) {
    println!("Healthy nodes differ by 0.5%, a trial by 1%; six trials a node.\n");
    println!(
        "| nodes | fleets | any false alarm | with a third slow by 10% | heavy tails | 3% found | 5% found | 10% found | a third slow by 10% found |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for nodes in [8usize, 16, 64, 256, 1024, 4096] {
        let fleets = (fleets * 8 / nodes).max(fleets / 20);
        let [healthy, _] = rates(nodes, 0, 1.0, false, fleets);
        let [heavy, _] = rates(nodes, 0, 1.0, true, fleets);
        let third = rates(nodes, nodes / 3, 1.10, false, fleets);
        let found = [1.03, 1.05, 1.10].map(|factor| percent(rates(nodes, 1, factor, false, fleets)[1]));
        println!(
            "| {nodes} | {fleets} | {} | {} | {} | {} | {} |",
            percent(healthy),
            percent(third[0]),
            percent(heavy),
            found.join(" | "),
            percent(third[1])
        );
    }
}

fn pairs(fleets: usize) {
    println!("Members differ by 1%; the noise of a pair is that of its median.\n");
    println!("| nodes | noise of a pair | tournaments | any false alarm | a link 5% slow found | 10% found |");
    println!("|---|---|---|---|---|---|");
    for (nodes, noise) in [(8, 0.007), (32, 0.007), (64, 0.007), (256, 0.005), (256, 0.007), (256, 0.01)] {
        let tries = (fleets * 64 / (nodes * nodes)).max(fleets / 20);
        let square = |seed: usize, factor: f64| {
            let (own, all) = (series(0.01, nodes, seed as u64 + 77), series(noise, nodes * nodes, seed as u64 + 1));
            let of = |low: usize, high: usize| 1e-6 * all[low * nodes + high] * own[low] * own[high];
            let mut times: Vec<Vec<f64>> =
                (0..nodes).map(|low| (0..nodes).map(|high| of(low, high)).collect()).collect();
            times[1][nodes - 2] *= factor;
            links(&PairTimes::from_square(&times), &vec![0; nodes], LEVEL).expect("enough nodes")
        };
        let share =
            |holds: &dyn Fn(usize) -> bool| (0..tries).filter(|seed| holds(*seed)).count() as f64 / tries as f64;
        let alarm = share(&|seed| {
            let judged = square(seed * 7, 1.0);
            !judged.slow.is_empty() || judged.members.standings.iter().any(|one| one.slow)
        });
        let found = [1.05, 1.10].map(|factor| {
            percent(share(&|seed| square(seed * 7 + 3, factor).slow.iter().any(|(pair, _)| *pair == [1, nodes - 2])))
        });
        println!("| {nodes} | {} | {tries} | {} | {} |", percent(noise), percent(alarm), found.join(" | "));
    }
}
