//! The table of benchmarks, and the rank's side of any of them. Never decides what runs when, and never writes a record
//! (`runner`).
//!
//! A new benchmark is one module of a family's crate, or a new family, and one line in [`BENCHMARKS`].

use std::sync::OnceLock;

mod interference;
mod midway;
mod modelled;
mod rank;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;

use collective::{CollectiveBenchmark, StartupBenchmark};
use hardware::{HardwareBenchmark, KernelBenchmark};
use interference::InterferenceBenchmark;
use primitive::PrimitiveBenchmark;
use training::{MemoryBenchmark, TrainingBenchmark};

pub use contract::{
    Benchmark, Gate, Host, Joining, Launched, Measured, ParsedCase, Prepared, RankContext, Relations, Spread, Study,
    TrialCost, Work,
};
pub use contract::{Common, Execution, Sampling, World, fields};
pub use contract::{backend_of, cores_wanted, is_in_process, is_on_gpus, is_pytorch, is_simulated, pace_of};
pub use modelled::{ModelledWorld, is_modelled};
pub use primitive::primitives;
pub use rank::{RankWork, open_rank};
pub use training::{ModelLine, models, parameters, recipe, strategies};

/// Every benchmark, in the order in which help lists them.
pub static BENCHMARKS: &[&dyn Benchmark] = &[
    &CollectiveBenchmark,
    &PrimitiveBenchmark,
    &TrainingBenchmark,
    &MemoryBenchmark,
    &HardwareBenchmark,
    &KernelBenchmark,
    &StartupBenchmark,
    &InterferenceBenchmark,
];

static ADDED: OnceLock<&'static [&'static dyn Benchmark]> = OnceLock::new();

/// Adds benchmarks to the table, once, before anything reads it: for programs that bring their own.
pub fn add(benchmarks: &'static [&'static dyn Benchmark]) {
    let _ = ADDED.set(benchmarks);
}

/// The table, and what was added to it.
pub fn all() -> impl Iterator<Item = &'static dyn Benchmark> {
    BENCHMARKS.iter().chain(ADDED.get().copied().unwrap_or_default()).copied()
}

/// Lets each benchmark of the table complete a plan, as [`Benchmark::complete`].
pub fn complete(plan: &mut record::Plan) {
    all().for_each(|benchmark| benchmark.complete(plan));
}

/// Whether the figures of a case are computed on this host: nothing is measured.
pub fn is_computed(case: &dyn ParsedCase, host: &Host) -> bool {
    is_simulated(case.case()) || case.is_planned(host)
}

/// Reads the values of a case, as its benchmark does.
///
/// # Errors
/// Why it cannot be read; for a case that is skipped, why it is skipped.
pub fn parse(case: &record::Case) -> Result<Box<dyn ParsedCase>, measure::Failure> {
    let unknown = || measure::Failure::new(format!("there is no benchmark `{}`", case.benchmark));
    let parsed = benchmark(&case.benchmark).ok_or_else(unknown).and_then(|benchmark| benchmark.parse(case));
    parsed.map_err(|refused| case.skip.as_ref().map_or(refused, measure::Failure::new))
}

/// Time that trials of a case take beyond their sampling time: none if it cannot be read, because a run then skips it.
pub fn trial_cost(case: &record::Case) -> TrialCost {
    parse(case).map(|parsed| parsed.trial_cost()).unwrap_or_default()
}

/// The benchmark of this name.
pub fn benchmark(name: &str) -> Option<&'static dyn Benchmark> {
    let wanted = terms::normalize(name);
    all().find(|benchmark| benchmark.about().name == wanted)
}

/// What benchmarks add to their declarations, for reports.
pub const VIEWS: view::Views = view::Views(|name| benchmark(name)?.view());

/// What every benchmark declares, for plan checking.
pub fn abouts() -> Vec<&'static record::About> {
    all().map(|benchmark| benchmark.about()).collect()
}

/// The code that the case names for its ranks to load: a library of its backend, or a Python.
pub fn library_of(case: &record::Case) -> Option<&str> {
    let about = benchmark(&case.benchmark)?.about();
    // What multiplies is the benchmark's own affair.
    let is_of_backend = |name: &str| !contract::runtime::PRODUCTS.contains(&name);
    let mut libraries = about.all_fields().filter(|field| field.loads && is_of_backend(field.name));
    libraries.find_map(|field| case.value_of(field)?.as_str())
}
