//! Prints how long the analysis of a million spans takes: `cargo run --release -p rankmark-diagnose --example profile_time`.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

#[path = "../tests/all/profile/simulation.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod simulation;

use diagnose::profile::{Settings, analyse};
use simulation::Scenario;
use trace::timeline::{Kind, NO_CALL, Span, Timeline};

fn main() {
    println!("| trace | ranks | spans | time, the best of three |");
    println!("|---|---|---|---|");
    // Seven spans of a rank in a step.
    time("many steps", &Scenario::equal(8, 17_857, 0.02).timeline(1));
    let mut kernels = Scenario::equal(8, 200, 0.02).timeline(1);
    add_kernels(&mut kernels, 8, 125);
    time("many kernels", &kernels);
}

fn time(what: &str, timeline: &Timeline) {
    let spans: usize = timeline.ranks.iter().map(|rank| rank.spans.len()).sum();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begin = Instant::now();
        let analysis = analyse(timeline, &Settings::default());
        best = best.min(begin.elapsed().as_secs_f64());
        std::hint::black_box(analysis);
    }
    println!("| {what} | {} | {spans} | {best:.3} s |", timeline.ranks.len());
}

/// Kernels of these names in each forward, backward, optimizer and input span, one after the other.
fn add_kernels(timeline: &mut Timeline, names: usize, each: i64) {
    let names: Vec<_> = (0..names).map(|name| timeline.names.intern(&format!("kernel {name}"))).collect();
    for rank in &mut timeline.ranks {
        let phases: Vec<Span> = rank.spans.iter().filter(|span| !matches!(span.kind, Kind::Step)).copied().collect();
        for span in phases {
            let length = span.duration_ns() / each;
            for place in 0..each {
                let begin_ns = span.begin_ns + place * length;
                let name = names[place as usize % names.len()];
                let (end_ns, kind) = (begin_ns + length * 9 / 10, Kind::Kernel);
                rank.spans.push(Span { begin_ns, end_ns, kind, queue: 7, name, number: 0, collective: NO_CALL });
            }
        }
        rank.sort();
    }
}
