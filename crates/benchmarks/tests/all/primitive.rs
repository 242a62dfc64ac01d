//! Matrix primitives: every implementation gives every element of the known product, and what goes wrong is seen.

use std::sync::Arc;

use comm::{Call, Communicator, Result, Shape, Ticket, Wait};
use device::{Queue, Region};
use record::{Case, CaseLine, Plan};
use terms::{Collective, Space, Status};
use trace::Clock;

use crate::worlds::{Wrap, Wrapped};
use crate::{plans, skip};

pub(crate) fn plan(entry: &str) -> Plan {
    let trials = if entry.contains("trials:") { "" } else { "trials: 1, " };
    let sampling = format!("{trials}warmup: 0, iters: 3, limits: false");
    let text = format!("experiment: test\ncases:\n  - {{benchmark: primitive, {sampling}, {entry}}}\n");
    let plan = record::plan::read(&text, "test.yaml", &benchmarks::abouts(), &[]);
    let mut plan = plan.unwrap_or_else(|errors| panic!("{errors}"));
    benchmarks::complete(&mut plan);
    plan
}

/// Runs every way of an entry; all are right or, where the backend gives no view of peers' memory, skipped.
pub(crate) fn all_right(entry: &str, skipped: usize) -> Vec<CaseLine> {
    let lines = plans::run(&plan(entry)).lines;
    for line in &lines {
        let what = (&line.parameters, &line.reason, &line.wrong_elements);
        assert!(matches!(line.status, Status::Ok | Status::Skipped), "{what:?}");
        assert!(line.status == Status::Skipped || line.wrong == Some(0), "{what:?}");
    }
    let reasons: Vec<&str> = lines.iter().filter_map(|line| line.reason.as_deref()).collect();
    assert_eq!(reasons.len(), skipped, "{reasons:?}");
    lines
}

#[test]
fn every_way_gives_the_product() {
    let numbers = if skip::heavy("primitives on one to three ranks") { &[1, 2, 3][..] } else { &[3] };
    for (primitive, k) in [("tp_columnwise", 24), ("tp_rowwise", 24), ("dp_all_reduce", 300), ("ep_all_to_all", 40)] {
        for ranks in numbers {
            let entry = format!("primitive: {primitive}, m: 144, n: 10, k: {k}, ranks: {ranks}, backend: shm");
            let lines = all_right(&entry, 0);
            assert!(lines.len() >= 5, "{entry}");
        }
    }
}

#[test]
fn every_element_type_gives_the_product() {
    let primitives = ["tp_columnwise", "tp_rowwise", "dp_all_reduce", "ep_all_to_all"];
    let few = if skip::heavy("every primitive in every element type") { primitives.len() } else { 1 };
    for dtype in ["f64", "bf16", "f16"] {
        for primitive in &primitives[..few] {
            all_right(&format!("primitive: {primitive}, m: 96, n: 33, k: 700, dtype: {dtype}, ranks: 2"), 0);
        }
    }
}

#[test]
fn tokens_may_be_skewed_and_few() {
    for m in [6, 96, 300] {
        all_right(&format!("primitive: ep_all_to_all, m: {m}, n: 7, k: 16, tokens: skewed, ranks: 3"), 0);
    }
}

#[test]
fn attention_is_that_of_plain_f64() {
    for ranks in [1, 2, 3] {
        all_right(&format!("primitive: cp_ring, m: 600, n: 4, k: 16, ranks: {ranks}, threads: {ranks}"), 0);
    }
}

#[test]
fn without_a_view_of_peers_memory_fused_is_skipped_with_the_reason() {
    for (entry, why) in [
        ("pace_bandwidth: 1GB/s", "a paced link would not slow it down"),
        ("backend: reference", "cannot access each other's memory"),
    ] {
        let lines = all_right(&format!("primitive: tp_rowwise, m: 64, n: 8, k: 16, ranks: 2, {entry}"), 2);
        for skipped in lines.iter().filter(|line| line.status == Status::Skipped) {
            assert!(skipped.parameters["implementation"].as_str().unwrap().starts_with("fused"));
            assert!(skipped.reason.as_deref().unwrap().contains(why), "{skipped:?}");
        }
    }
}

#[test]
fn the_four_times_stand_beside_each_overlapped_case() {
    let lines = all_right("primitive: tp_columnwise, m: 256, n: 16, k: 64, ranks: 2, trials: 3", 0);
    let line_of = |text: &str| lines.iter().find(|line| line.parameters["implementation"] == text).unwrap();
    let median = |line: &CaseLine| line.time_s.as_ref().unwrap().median;
    for (order, size) in [("AG_before", "unsharded"), ("AG_after", "sharded")] {
        let sequential = line_of(&format!("sequential:order={order}"));
        let overlap = sequential.metrics["overlap"].clone();
        assert_eq!(overlap["compute_s"], median(line_of(&format!("compute_only:size={size}"))), "{order}");
        assert_eq!(overlap["communication_s"], median(line_of(&format!("communication_only:order={order}"))));
        assert_eq!(overlap["audit"]["differ"], serde_json::json!([]), "{overlap}");
        assert!(overlap.get("speedup").is_none(), "over itself");
    }
    let own = line_of("pipelined:order=AG_before,algorithm=ring_p2p");
    let ring = &own.metrics["overlap"];
    assert!(ring["sequential_s"].is_number() && ring["speedup"].as_f64().is_some(), "{ring}");
    let [product, exchange] = ["compute_only:size=unsharded", "communication_only:order=AG_before"].map(line_of);
    let light =
        |round: usize| product.trial_median_s[round].max(exchange.trial_median_s[round]) / own.trial_median_s[round];
    let mut light = [0, 1, 2].map(light);
    light.sort_by(f64::total_cmp);
    assert!((ring["speed_of_light"].as_f64().unwrap() / light[1] - 1.0).abs() < 1e-12, "{ring}");
}

/// A communicator that leaves out what moves data.
struct Silent(Box<dyn Communicator>);

impl Silent {
    fn is_silent(call: &Call) -> bool {
        !(call.op == Collective::Barrier || (call.op == Collective::Broadcast && call.output.len() == 8))
    }
}

impl Communicator for Silent {
    fn shape(&self) -> &Shape {
        self.0.shape()
    }
    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.0.alloc(bytes, space)
    }
    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        if group.iter().all(Self::is_silent) {
            return Ok(Ticket { number: 0, done: true });
        }
        self.0.start(group, after)
    }
    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        self.0.finish(ticket, how)
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        self.0.split(color, key)
    }
    fn clock(&self) -> Clock {
        self.0.clock()
    }
    fn run(&mut self, call: &Call) -> Result<()> {
        if Self::is_silent(call) { Ok(()) } else { self.0.run(call) }
    }
}

fn cases(primitive: &str, more: &str) -> Vec<Case> {
    let communicates = |case: &Case| {
        let text = case.text("implementation").unwrap_or_default();
        !text.starts_with("compute_only") && !text.starts_with("fused")
    };
    let entry = format!("primitive: {primitive}, m: 64, n: 16, k: 32, ranks: 2, backend: shm{more}");
    plan(&entry).cases.into_iter().filter(communicates).collect()
}

#[test]
fn a_missing_exchange_is_seen_in_every_implementation() {
    let routed = ("ep_all_to_all", ", experts: 4, top_k: 2");
    let plain = ["tp_columnwise", "tp_rowwise", "dp_all_reduce", "cp_ring", "ep_all_to_all"].map(|name| (name, ""));
    for (primitive, more) in plain.into_iter().chain([routed]) {
        for case in cases(primitive, more) {
            let wrap: Wrap = Arc::new(|_, inner| Box::new(Silent(inner)));
            let mut world = Wrapped::start("shm", 2, wrap);
            let (_, line) = world.trial(&case);
            let text = case.text("implementation");
            assert!(line.wrong.is_some_and(|wrong| wrong > 0), "{primitive} {text:?}: {line:?}");
            assert!(!line.wrong_elements.is_empty(), "{primitive} {text:?}");
        }
    }
}
