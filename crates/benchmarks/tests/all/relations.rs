//! The relations between lines of a run take work in proportion to the lines. Work is counted as memory that is
//! asked for, which is the same on a busy machine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use record::{Case, CaseLine, TimeSummary};
use serde_json::{Value, json};
use terms::Status;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that this thread has asked for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A line of a case with these parameters that took this time in each of six rounds.
fn line(benchmark: &str, parameters: Value, time: f64) -> CaseLine {
    let case = json!({"id": parameters.to_string(), "benchmark": benchmark, "parameters": parameters, "settings": {},
        "world": {}, "caveats": [], "bytes_requested": null, "skip": null});
    let case: Case = serde_json::from_value(case).unwrap();
    let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
    line.time_s = Some(TimeSummary { median: time, ..TimeSummary::default() });
    (line.trial_round, line.trial_median_s) = ((0..6).collect(), vec![time; 6]);
    line
}

/// A model with this seed on one rank and on two, with overlap and without, and without communication.
fn trained(seed: usize) -> Vec<CaseLine> {
    let one = |ranks: u32, overlap: bool, communicate: bool| {
        let parameters =
            json!({"model": "mlp", "ranks": ranks, "overlap": overlap, "communicate": communicate, "seed": seed});
        let mut line = line("training", parameters, 0.1 + 0.01 * f64::from(u8::from(!overlap)));
        line.metrics.insert("samples_per_s".to_owned(), (f64::from(ranks) / 0.1).into());
        line
    };
    vec![one(1, true, true), one(2, true, true), one(2, false, true), one(2, false, false)]
}

/// A primitive of this size, by four implementations.
fn primitives(size: usize) -> Vec<CaseLine> {
    let one = |(implementation, order): (&str, &str)| {
        let mut line = line("primitive", json!({"implementation": implementation, "m": size}), 1.0);
        line.metrics.insert("order".to_owned(), order.into());
        line
    };
    let ways = [
        ("compute_only:size=unsharded", ""),
        ("communication_only:order=AG_before", "AG_before"),
        ("sequential:order=AG_before", "AG_before"),
        ("fused:order=AG_before", "AG_before"),
    ];
    ways.map(one).to_vec()
}

/// A product of matrices and a copy, as `hardware` measures them.
fn machine(number: usize) -> Vec<CaseLine> {
    let one = |test: &str, kind: &str, bytes: u64| {
        let mut line = line("hardware", json!({"test": test, "size": 512, "threads": 1, "seed": number}), 1.0);
        let rate = 1e9 + number as f64;
        line.metrics.insert(
            "ceiling".to_owned(),
            json!({"kind": kind, "name": test, "rate": rate, "threads": 1, "bytes": bytes, "dtype": "f32"}),
        );
        line
    };
    vec![one("gemm", "compute", 3 << 20), one("copy", "memory", 1 << 20)]
}

/// Bytes that are asked for to relate all lines, and what the last line but `back` says.
fn cost(lines: &[CaseLine], back: usize) -> (usize, Value) {
    let benchmark = benchmarks::benchmark(&lines[0].benchmark).unwrap();
    let all: Vec<&CaseLine> = lines.iter().collect();
    let before = ASKED.get();
    let relations = benchmark.relations(&all);
    let mut values: Vec<Value> = lines.iter().map(|line| relations(line).into()).collect();
    (ASKED.get() - before, values.swap_remove(lines.len() - 1 - back))
}

#[test]
fn the_work_of_relations_grows_with_the_lines_and_not_with_their_square() {
    type Make = fn(usize) -> Vec<CaseLine>;
    for (make, back, name) in
        [(trained as Make, 2, "overlapped"), (primitives as Make, 0, "overlap"), (machine as Make, 1, "roofline")]
    {
        let lines = |number: usize| (0..number).flat_map(make).collect::<Vec<_>>();
        let ((few, _), (many, last)) = (cost(&lines(10), back), cost(&lines(80), back));
        assert!(last.get(name).is_some(), "{last}");
        assert!(many < 12 * few, "{name}: 8 times as many lines take {many} bytes instead of {few}");
    }
}
