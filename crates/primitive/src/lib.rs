//! The benchmark `primitive`: a product of matrices, or attention, with the collective that a parallel model needs for it, by
//! several implementations. Formulas: docs/how-to/primitives.md.

mod about;
mod attention;
mod crossover;
mod declared;
mod exchange;
mod experts;
mod fields;
mod gathering;
mod gpus;
mod implementation;
mod implementations;
mod machine;
mod on_gpu;
mod pattern;
mod product;
mod relations;
mod resolve;
mod rotating;
mod routed;
mod show;
mod site;
mod sum;
mod task;
mod tolerance;
mod torch;
mod view;
mod words;

#[cfg(test)]
#[path = "../../../tests/facts.rs"]
mod facts;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

use std::sync::Arc;

use comm::Communicator;
use contract::{Benchmark, Measured, ParsedCase, Prepared, RankContext, Relations, TrialCost, Work};
use measure::{Failure, WrongReport};
use record::{About, Case, CaseLine};
use serde_json::{Map, Value};
use terms::{Collective, Named as _, Space};

use self::declared::{
    BALANCEDNESS, CONDITIONS, EXPERT_IMBALANCE, MAX_VIO, ORDER, RANK_IMBALANCE, TFLOPS, TFLOPS_PER_RANK, VARIANT,
};
pub use self::fields::MATMUL;
pub use self::gpus::resolve;
use self::implementation::{CallStep, Implementation};
use self::resolve::resolved;
use self::rotating::Rotating;
use self::site::Site;
use self::task::{Options, Scheme, Task};
pub use self::torch::add_recipe;
pub use self::words::{Products, primitives};

/// The benchmark `primitive`.
pub struct PrimitiveBenchmark;

/// The values of a case, read once.
struct PrimitiveCase {
    case: Case,
    implementation: &'static Implementation,
    options: Options,
    /// Rank 0's part.
    task: Task,
    /// By how many experts calls one after the other displace the routing.
    turns: Vec<usize>,
    /// Nanoseconds before each call of a chain.
    compute_ns: u64,
}

/// Round rate of a core, in operations a second. It decides only the estimate that a run prints, and when a rank that computes
/// counts as stalled.
const ROUND_FLOPS: f64 = 50e9;

/// A case on one rank.
struct PreparedPrimitive {
    site: Site,
    step: Box<dyn CallStep>,
    /// Whether a call multiplies at all.
    computes: bool,
    /// Nanoseconds before each call of a chain.
    compute_ns: u64,
    /// What it is timed with: the clock, and the barrier before each sample.
    timed_with: [(&'static str, &'static str); 2],
}

/// What this rank times calls with.
fn timed_with(site: &Site, context: &RankContext) -> [(&'static str, &'static str); 2] {
    let barrier = match context.comm.path(&site.barrier()) {
        "" => "the backend's own",
        path => path,
    };
    [("clock", context.clock.name()), ("barrier", barrier)]
}

/// Allocates and fills what a task needs.
fn prepared(
    task: Task,
    (implementation, options, compute_ns): (&Implementation, &Options, u64),
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let reaches = implementation.name == implementations::fused::VARIANT.name;
    let mut site = Site::new(task, context, reaches)?;
    let step = implementation.prepare(&site, options, context)?;
    site.expect_chunks(step.chunks());
    let computes = implementations::multiplies(implementation.name);
    let timed_with = timed_with(&site, context);
    let mut prepared = PreparedPrimitive { site, step, computes, compute_ns, timed_with };
    prepared.refill();
    Ok(Box::new(prepared))
}

impl Benchmark for PrimitiveBenchmark {
    fn about(&self) -> &'static About {
        &about::ABOUT
    }

    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure> {
        let fields = fields::PrimitiveFields::of(case)?;
        let (implementation, options, task) = resolved(case, &fields)?;
        Ok(Box::new(PrimitiveCase {
            case: case.clone(),
            implementation,
            options,
            task,
            turns: routed::turns(case, &fields)?,
            compute_ns: contract::fields::chain_compute_ns(fields.compute_s),
        }))
    }

    fn complete(&self, plan: &mut record::Plan) {
        about::complete(plan);
    }

    fn relations<'a>(&self, all: &[&'a CaseLine]) -> Relations<'a> {
        let compared = relations::PrimitiveBaselines::from_lines(all);
        Box::new(move |line| relations::for_case(line, &compared))
    }

    fn view(&self) -> Option<&'static dyn ::view::View> {
        Some(&view::PrimitiveView)
    }
}

/// Seconds that the ranks of a case compute in a call, where they keep `wanted` of a host's cores busy: about.
fn call_s(task: &Task, wanted: usize, cores: usize) -> f64 {
    if task.means.space == Space::Cuda {
        return 0.0;
    }
    // Threads that share a core take turns.
    let turns = (wanted as f64 / cores.max(1) as f64).max(1.0);
    task.flops() / (ROUND_FLOPS * task.threads as f64) * turns
}

impl ParsedCase for PrimitiveCase {
    fn case(&self) -> &Case {
        &self.case
    }

    fn memory(&self) -> u64 {
        if self.task.means.space == Space::Cuda { 0 } else { self.working_set() }
    }

    fn working_set(&self) -> u64 {
        // Each load that calls go through has its own buffers.
        let times = (self.turns.len() as u64).saturating_mul(self.case.ranks().into());
        self.task.bytes().saturating_add(self.task.listed_bytes()).saturating_mul(times)
    }

    fn operation(&self) -> (Collective, u64) {
        self.task.operation()
    }

    fn sent(&self) -> f64 {
        if self.implementation.name == implementations::compute_only::VARIANT.name {
            return 0.0;
        }
        let (op, bytes) = self.task.operation();
        let bytes = self.task.moved(self.implementation.name).map_or(bytes as f64, |bytes| bytes as f64);
        op.bus_factor(self.task.ranks as u32) * bytes
    }

    fn prepare(&self, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
        let rank = if self.task.ranks == 1 { 0 } else { context.rank as usize };
        let task = Task { rank, ..self.task.clone() };
        let how = (self.implementation, &self.options, self.compute_ns);
        let mut of_turn = |by: usize| {
            let routing = Arc::new(task.routing.displaced(by));
            prepared(Task { routing, ..task.clone() }, how, context)
        };
        match self.turns.as_slice() {
            [_] => prepared(task, how, context),
            turns => {
                let turns = turns.iter().map(|by| of_turn(*by)).collect::<Result<_, Failure>>()?;
                Ok(Box::new(Rotating::new(turns)))
            }
        }
    }

    fn trial_cost(&self) -> TrialCost {
        let cores = measure::machine::allowed_cpus().len();
        TrialCost { sample_s: call_s(&self.task, self.cores_wanted(), cores), ..TrialCost::default() }
    }

    fn metrics(&self, measured: &Measured<'_>) -> Map<String, Value> {
        let Self { case, implementation, options, task, .. } = self;
        let mut metrics = Map::new();
        let seconds = measured.times.median;
        if implementations::multiplies(implementation.name) {
            let rate = |operations: f64| operations / seconds / 1e12;
            TFLOPS.put(&mut metrics, rate(task.whole_flops()));
            TFLOPS_PER_RANK.put(&mut metrics, rate(task.flops()));
        }
        VARIANT.put(&mut metrics, show::variant(implementation.name, options));
        ORDER.put(&mut metrics, show::order(task.scheme).to_owned());
        if task.scheme == Scheme::Exchange {
            let [ranks, experts] = task.routing.imbalance();
            RANK_IMBALANCE.put(&mut metrics, ranks);
            EXPERT_IMBALANCE.put(&mut metrics, experts);
            MAX_VIO.put(&mut metrics, experts - 1.0);
            BALANCEDNESS.put(&mut metrics, 1.0 / ranks);
        }
        let ranks = measured.trials.last().map_or(&[][..], |trial| &trial.details[..]);
        if let Some(mut conditions) = relations::of_ranks(ranks) {
            conditions.insert("warmup".to_owned(), case.warmup().map_or("adaptive".into(), Value::from));
            conditions.insert("mode".to_owned(), case.mode().name().into());
            CONDITIONS.put(&mut metrics, conditions);
        }
        metrics
    }
}

impl Prepared for PreparedPrimitive {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.site.fork()?;
        self.step.run(&mut self.site, comm)?;
        self.site.join()
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.site.drain(comm)
    }

    fn compute_ns(&self) -> u64 {
        self.compute_ns
    }

    fn refill(&mut self) {
        self.site.refill(self.step.given());
    }

    fn check(&mut self, _comm: &mut dyn Communicator, _calls: u64) -> Result<WrongReport, Failure> {
        let mut report = WrongReport::default();
        self.step.leaves().iter().try_for_each(|left| self.site.compare(*left, &mut report))?;
        Ok(report)
    }

    fn work(&self) -> Work {
        let task = &self.site.task;
        let (flops, traffic_bytes) = if self.computes { (task.flops(), task.traffic_bytes()) } else { (0.0, 0) };
        Work { flops, traffic_bytes, messages: 1, max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.step.path(comm)
    }

    fn details(&mut self) -> Map<String, Value> {
        let mut details = self.site.conditions();
        details.extend(self.timed_with.map(|(name, what)| (name.to_owned(), what.into())));
        details
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_the_work_of_a_rank_and_take_turns_on_few_cores() {
        let task = |threads: &str| {
            let flags = [("implementation", "sequential"), ("threads", threads)];
            let case = record::plan::from_flags(&about::ABOUT, &flags, &[]).unwrap().cases.remove(0);
            resolve::task(&case, &fields::PrimitiveFields::of(&case).unwrap()).unwrap()
        };
        let (one, four) = (task("1"), task("4"));
        assert_eq!(call_s(&one, 2, 8), one.flops() / ROUND_FLOPS);
        assert_eq!(call_s(&four, 8, 8) * 4.0, call_s(&one, 2, 8));
        assert_eq!(call_s(&four, 8, 2), call_s(&one, 2, 2), "the cores are as many");
    }
}
