//! What a fleet does in its time: what each node does alone, each two nodes together, and all of them.

pub mod lists;
mod measured;
mod records;
mod so_far;
mod taken;

use launch::external::{Coordinator, RankHost};
use measure::{APART, machine};
use record::{Plan, PlanErrors};
use terms::{Error, Seconds};

pub use measured::{Measurement, measure};
pub use records::{MeasuredFleet, of_records};
pub use so_far::Missing;
pub use taken::taken;

/// A part of what a fleet does.
struct FleetPart {
    name: &'static str,
    text: &'static str,
    /// Nodes work alone: nothing connects them, so that no node can take from the others what they measure here.
    apart: bool,
}

/// What a fleet measures on GPUs, where there are any: they tell the most.
const ON_GPUS: FleetPart = part("gpus.yaml", include_str!("../plans/fleet/gpus.yaml"), false);
/// What a fleet measures on processors.
const ON_CPUS: FleetPart = part("nodes.yaml", include_str!("../plans/fleet/nodes.yaml"), true);
/// What a fleet measures between nodes.
const NETWORK: FleetPart = part("network.yaml", include_str!("../plans/fleet/network.yaml"), false);
/// What it computes to find silent corruption.
const RESULTS: FleetPart = part("results.yaml", include_str!("../plans/fleet/results.yaml"), true);
const RESULTS_ON_GPUS: FleetPart = part("results-gpus.yaml", include_str!("../plans/fleet/results-gpus.yaml"), false);

const fn part(name: &'static str, text: &'static str, apart: bool) -> FleetPart {
    FleetPart { name, text, apart }
}

/// What starting and checking may take besides the time that results are computed for.
const AROUND_RESULTS_S: f64 = 60.0;
/// Ranks that do not answer for this share of the budget hang: less would take a busy host for a dead one.
const HANGS: f64 = 0.5;
/// But not before so many seconds.
const LEAST_HANG_S: f64 = 5.0;
/// A working set beyond the caches; and of budgets below so many seconds a smaller one, which takes less long to fill and check.
const MANY_BYTES: &str = "1GiB";
const FEW_BYTES: &str = "256MiB";
const SHORT_S: f64 = 120.0;

/// What a fleet does in its time.
pub struct Work {
    parts: Vec<FleetPart>,
    /// Cases of all parts.
    cases: usize,
    /// Seconds of sampling that all cases share.
    sampling_s: f64,
    /// Whether results are checked, and times do not matter.
    pub checks_results: bool,
    /// Seconds after which ranks that do not answer hang.
    hangs_s: f64,
    /// The working set of memory.
    bytes: &'static str,
    /// When the whole of it ends.
    pub budget: Seconds,
}

impl Work {
    /// Judges nodes within the budget, or looks for wrong results for so long.
    pub fn new(budget: Seconds, check_results: Option<Seconds>) -> Self {
        let gpus = machine::gpus() > 0;
        let first = |on_gpus| gpus.then_some(on_gpus).into_iter();
        let time = check_results.unwrap_or(budget).0;
        let (parts, budget, sampling_s): (Vec<FleetPart>, f64, f64) = match check_results {
            Some(_) => (first(RESULTS_ON_GPUS).chain([RESULTS]).collect(), time + AROUND_RESULTS_S, time),
            // Precision is not waited for: each case has its part, and the rest is for starting and checking.
            None => (first(ON_GPUS).chain([ON_CPUS, NETWORK]).collect(), time, 0.5 * time),
        };
        let cases = parts.iter().map(|part| part.text.matches("- {benchmark:").count()).sum::<usize>().max(1);
        let hangs_s = (HANGS * budget).max(LEAST_HANG_S);
        let checks_results = check_results.is_some();
        let bytes = if budget < SHORT_S { FEW_BYTES } else { MANY_BYTES };
        Self { parts, cases, sampling_s, checks_results, hangs_s, bytes, budget: Seconds(budget) }
    }

    /// Fields of all cases.
    fn fields(&self) -> Vec<(String, String)> {
        let field = |name: &str, value: String| (name.to_owned(), value);
        let mut fields = vec![
            field("max_seconds", format!("{:.3}s", self.sampling_s / self.cases as f64)),
            field("timeout", format!("{:.3}s", self.hangs_s)),
        ];
        if self.checks_results {
            fields.extend([field("target_precision", "0%".to_owned()), field("spacing", "0s".to_owned())]);
        }
        fields
    }

    /// A time that holds for one more hang.
    pub fn after_loss(&mut self) {
        self.budget.0 += self.hangs_s;
    }
}

/// The plan of a fleet for the ranks of a launcher.
///
/// # Errors
/// When it does not fit them.
pub fn plan(coordinator: &Coordinator, work: &Work) -> Result<Plan, PlanErrors> {
    let (threads, abouts, fields) = (threads(coordinator), benchmarks::abouts(), work.fields());
    let several = coordinator.hosts().len() > 1;
    let mut whole: Option<Plan> = None;
    for part in &work.parts {
        let apart = part.apart && several;
        let text = part.text.replace("THREADS", &threads.to_string()).replace("BYTES", work.bytes);
        let connected = if apart || !several { None } else { Some(connection(coordinator)) };
        let ranks = ("ranks".to_owned(), coordinator.size().to_string());
        let fields: Vec<(String, String)> =
            [ranks].into_iter().chain(connected).chain(fields.iter().cloned()).collect();
        let mut plan = record::plan::read(&text, part.name, &abouts, &fields)?;
        for case in &mut plan.cases {
            // One world for all that is connected: a launcher's MPI can be started once.
            case.world.insert("threads".to_owned(), threads.into());
            if apart {
                case.world.insert(APART.to_owned(), true.into());
            }
        }
        match &mut whole {
            Some(whole) => whole.cases.extend(plan.cases),
            None => whole = Some(plan),
        }
    }
    whole.ok_or_else(|| Error::new("there is nothing to measure").into())
}

/// The cores of a node divided among its ranks.
fn threads(coordinator: &Coordinator) -> usize {
    let of_rank = |host: &RankHost| host.cores.len() / host.ranks.len().max(1);
    coordinator.hosts().iter().map(of_rank).min().unwrap_or(1).max(1)
}

/// What connects hosts: a field and its value.
pub fn connection(coordinator: &Coordinator) -> (String, String) {
    let by = coordinator.started_by();
    let fits = |backend: &&dyn comm::Backend| backend.about().launched && backend.accepts(by).is_ok();
    match comm::backends().find(fits) {
        Some(backend) => ("backend".to_owned(), backend.about().name.to_owned()),
        None => ("runtime".to_owned(), "pytorch".to_owned()),
    }
}
