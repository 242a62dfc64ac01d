//! Benchmarks: one module each, and the table of them. Also the rank's side of any benchmark, worlds in threads, and
//! the loop that takes a plan to a record.
//!
//! A new benchmark is one module and one line in [`BENCHMARKS`].

mod admission;
mod benchmark;
mod collective;
pub mod fields;
mod gate;
mod midway;
mod order;
mod rank;
mod run;
mod runtime;
mod threads;
mod training;
mod trial;
mod worlds;

pub use admission::{Host, Spread, admit, cores_wanted, is_in_process, is_pytorch, is_simulated};
pub use benchmark::{Benchmark, Measured, Prepared, RankContext, Study, Work};
pub use collective::CollectiveBenchmark;
pub use gate::Gate;
pub use rank::{RankWork, open_rank};
pub use run::{Observer, Setup, run};
pub use threads::ThreadWorld;
pub use training::{MemoryBenchmark, ModelLine, TrainingBenchmark, models};
pub use trial::trial;

/// Every benchmark, in the order in which help lists them.
pub static BENCHMARKS: &[&dyn Benchmark] = &[&CollectiveBenchmark, &TrainingBenchmark, &MemoryBenchmark];

/// Completes a plan: adds cases that others are held against, and brings those before them. The same plan gives the same
/// cases.
pub fn complete(plan: &mut record::Plan) {
    training::complete(plan);
}

/// The benchmark of this name.
pub fn benchmark(name: &str) -> Option<&'static dyn Benchmark> {
    let wanted = terms::normalize(name);
    BENCHMARKS.iter().copied().find(|benchmark| benchmark.about().name == wanted)
}

/// What every benchmark declares, for plan checking.
pub fn abouts() -> Vec<&'static record::About> {
    BENCHMARKS.iter().map(|benchmark| benchmark.about()).collect()
}
