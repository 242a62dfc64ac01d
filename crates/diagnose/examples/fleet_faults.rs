//! Prints the simulation of faults in docs/appendix/fleets.md: `cargo run --release -p rankmark-diagnose --example fleet_faults
//! [HEALTHY] [FAULTY]` (200 healthy clusters of each structure, and 20 of each fault).
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example reads its arguments and prints")]

#[path = "../tests/all/clusters.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod clusters;
#[path = "../tests/all/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

fn main() {
    let argument = |at: usize, default: usize| std::env::args().nth(at).and_then(|n| n.parse().ok()).unwrap_or(default);
    let (healthy, faulty) = (argument(1, 200), argument(2, 20));
    println!(
        "| nodes | noise of a trial | healthy clusters | any false alarm | any `cannot tell` | faults | named exactly |"
    );
    println!("|---|---|---|---|---|---|---|");
    for scenario in clusters::scenarios() {
        let rates = scenario.rates(healthy, faulty);
        println!(
            "| {} | {:.0}% | {healthy} | {} | {} | {} | {} |",
            scenario.name,
            100.0 * scenario.noise,
            rates.false_alarms,
            rates.unknown,
            rates.faulty,
            rates.exact
        );
    }
}
