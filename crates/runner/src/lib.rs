//! How a plan becomes a record: which cases can run here, in which order and in which rank processes, the rounds over them,
//! and what the whole run says at its end. Of a benchmark it knows the trait (`benchmarks::Benchmark`), never which one it
//! is.

mod admission;
mod bounds;
mod driver;
pub mod earlier;
mod in_process;
mod interleave;
mod lines;
mod links;
pub mod load;
mod named;
mod opened;
mod order;
pub mod restart;
mod roofline;
mod run;
mod sides;
mod states;
mod threads;
mod trial;
mod worlds;

use benchmarks::TrialCost;
use measure::Settings;
use record::{About, Case};

pub use admission::{Admission, admit, memory_of};
pub use bounds::Bounds;
pub use driver::Setup;
pub use interleave::{Matched, PairObserver, PairSetup, interleave};
pub use named::{order_seed, profiles};
pub use opened::{OpenRecord, cut_short, keep_ranks};
pub use run::{EqualRuns, GoesOnWithout, Observer, PlanSetup, run};
pub use sides::{LoadPlan, RefuseWord, SideSettings, Sides};
pub use states::look_at_states;
pub use threads::ThreadWorld;
pub use trial::trial;

/// The case as the record of an interleaved comparison keeps it for side 0 (A) or 1 (B).
pub fn of_side(case: &Case, side: usize) -> Case {
    record::of_side(case, side, &about(case))
}

/// Whether two plans are of the same cases, though one of them may have earlier names of fields.
pub fn are_same(cases: &[Case], others: &[Case]) -> bool {
    let is_same = |(case, other): (&Case, &Case)| case == other || case.is_same(other, &about(case));
    cases.len() == others.len() && cases.iter().zip(others).all(is_same)
}

fn about(case: &Case) -> Option<&'static About> {
    benchmarks::benchmark(&case.benchmark).map(|benchmark| benchmark.about())
}

/// How a case is sampled, with what its benchmark knows of the time of a sample.
fn settings_of(case: &Case, cost: TrialCost) -> Settings {
    Settings { sample_s: cost.sample_s + cost.around_s, ..Settings::from_case(case) }
}
