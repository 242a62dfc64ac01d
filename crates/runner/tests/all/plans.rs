//! Plans in, records out: a whole run in a directory of its own.

use std::collections::HashSet;
use std::time::Duration;

use benchmarks::Host;
use measure::{Starter, Verdict, World, WorldSpec};
use record::{Case, CaseLine, CaseSamples, Machine, Plan, PlanErrors, RunFile, Store, Tool};
use runner::{Observer, PlanSetup, Setup, ThreadWorld};

/// A case of the flags `--NAME value`, as the plan check lets it through.
pub(crate) fn case(flags: &[(&str, &str)]) -> Result<Case, PlanErrors> {
    let mut plan = record::plan::from_flags(benchmarks::abouts()[0], flags, &[])?;
    assert_eq!(plan.cases.len(), 1, "one value a flag");
    Ok(plan.cases.remove(0))
}

/// The cases of a plan of one entry: one trial each, unless the entry says more or asks for noise.
/// The interval of noise takes several trials: six span eight seconds.
pub(crate) fn plan(entry: &str) -> Plan {
    let says = ["trials:", "launches:", "noise:"].iter().any(|name| entry.contains(name));
    let one = if says { "" } else { "trials: 1, " };
    let text = format!("experiment: test\ncases:\n  - {{benchmark: collective, {one}{entry}}}\n");
    record::plan::read(&text, "test.yaml", &benchmarks::abouts(), &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Ranks of any backend as threads of the test.
pub(crate) struct Threads;

impl Starter for Threads {
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict> {
        Ok(Box::new(ThreadWorld::start(spec, Duration::from_secs(60), || None)?))
    }
}

/// What a run left, all of it read back from disk but `order`.
pub(crate) struct Outcome {
    /// The last line of each case, in the order in which they ended.
    pub(crate) lines: Vec<CaseLine>,
    /// Lines of `cases.jsonl`, rewritten ones included.
    pub(crate) written: Vec<CaseLine>,
    /// `samples.jsonl`.
    pub(crate) samples: Vec<CaseSamples>,
    /// Identity and round, as cases were visited.
    pub(crate) order: Vec<(String, u32)>,
    /// The seed of the order, as the record has it.
    pub(crate) seed: Option<u64>,
    /// The correlation of neighbouring trials, as the record has it.
    pub(crate) correlation: Option<f64>,
}

#[derive(Default)]
struct Order(Vec<(String, u32)>);

impl Observer for Order {
    fn begins(&mut self, case: &Case, _number: usize, _total: usize, round: u32) {
        self.0.push((case.id.clone(), round));
    }
    fn progress(&mut self, elapsed_s: f64, max_s: f64) {
        assert!(elapsed_s >= 0.0 && max_s >= 0.0);
    }
    fn updates(&mut self, _line: &CaseLine) {}
    fn rounds(&mut self, _made: u32, _open: usize) {}
    fn ends(&mut self, line: &CaseLine) {
        assert!(self.0.iter().any(|(id, _)| *id == line.id) || line.reason.is_some());
    }
}

/// A host of two cores.
pub(crate) const HOST: Host =
    Host { spread: None, cores: 2, available_memory: || None, virtualised: false, launched: None };

/// Runs the plan on that host.
pub(crate) fn run(plan: &Plan) -> Outcome {
    run_with(plan, &mut Threads, HOST)
}

/// Runs the plan in this starter's worlds.
pub(crate) fn run_with(plan: &Plan, starter: &mut dyn Starter, host: Host) -> Outcome {
    run_seeded(plan, starter, host, 1)
}

/// As [`run_with`], in the order that this seed gives.
pub(crate) fn run_seeded(plan: &Plan, starter: &mut dyn Starter, host: Host, seed: u64) -> Outcome {
    run_after(&[], plan, starter, (host, seed), None)
}

/// Runs the plan within a budget: cases that do not fit are left out.
pub(crate) fn run_within(plan: &Plan, starter: &mut dyn Starter, at: (Host, u64), budget: Option<Duration>) -> Outcome {
    run_after(&[], plan, starter, at, budget)
}

/// As [`run_within`], with lines that an earlier run left in the record.
pub(crate) fn run_after(
    before: &[record::CaseLine],
    plan: &Plan,
    starter: &mut dyn Starter,
    (host, seed): (Host, u64),
    budget: Option<Duration>,
) -> Outcome {
    let directory = tempfile::tempdir().expect("a directory");
    let tool = Tool { name: "test".to_owned(), version: "0".to_owned() };
    let mut file =
        RunFile::new(tool, jiff::Timestamp::UNIX_EPOCH, Machine::default(), plan.clone(), &benchmarks::abouts());
    let mut store = Store::create(directory.path(), &file).expect("a record");
    let mut order = Order::default();
    let deadline = budget.map(|budget| std::time::Instant::now() + budget);
    let bounds = runner::Bounds::default();
    let whole = Setup { store: &mut store, file: &mut file, host, bounds, seed, deadline, interrupted: || None };
    let done = HashSet::new();
    let states = measure::StatesAsked::default();
    let planned = PlanSetup {
        plan,
        done: &done,
        before,
        starter,
        device_sensors: None,
        leaves_out: budget.is_some(),
        ends_without: None,
        states,
        equal_runs: &|_, lines| vec![Vec::new(); lines.len()],
        observer: &mut order,
    };
    let lines = runner::run(whole, planned).expect("the record can be written");
    drop(store);
    let kept = record::read_run(directory.path()).expect("the record can be read");
    let stands = |line: &&record::CaseLine| lines.iter().all(|own| own.id != line.id);
    assert_eq!(kept.cases.len(), lines.len() + before.iter().filter(stands).count());
    for line in &lines {
        assert!(kept.cases.contains(line), "the line on disk is the line that was shown");
    }
    Outcome {
        written: jsonl(&directory.path().join("cases.jsonl")),
        samples: jsonl(&directory.path().join("samples.jsonl")),
        order: order.0,
        seed: file.rounds.as_ref().map(|rounds| rounds.seed),
        correlation: file.rounds.and_then(|rounds| rounds.correlation),
        lines,
    }
}

fn jsonl<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect()
}
