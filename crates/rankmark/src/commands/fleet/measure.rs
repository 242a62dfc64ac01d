//! Measuring a fleet: what each node does alone, each two nodes together, and all of them.

use std::path::{Path, PathBuf};

use launch::external::Coordinator;
use measure::machine;
use record::{Plan, Record, read_run};
use terms::{HostName, Seconds, Status};

use super::Fleet;
use crate::Failure;
use crate::commands::measured::EXPLAIN;
use crate::options::{Output, RunOptions, Whole, budget};
use crate::session::{self, Entry, Request};

/// What a fleet measures on GPUs, where there are any: they tell the most.
const ON_GPUS: (&str, &str) = ("gpus.yaml", include_str!("../../../plans/fleet/gpus.yaml"));
/// What a fleet measures on processors.
const ON_CPUS: (&str, &str) = ("cpus.yaml", include_str!("../../../plans/fleet/cpus.yaml"));
/// What it computes to find silent corruption.
const RESULTS: (&str, &str) = ("results.yaml", include_str!("../../../plans/fleet/results.yaml"));
const RESULTS_ON_GPUS: (&str, &str) = ("results-gpus.yaml", include_str!("../../../plans/fleet/results-gpus.yaml"));

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
struct Work {
    texts: Vec<(&'static str, &'static str)>,
    /// Fields of all cases.
    fields: Vec<(String, String)>,
    budget: Seconds,
}

impl Work {
    fn new(given: &Fleet) -> Self {
        let gpus = machine::gpus() > 0;
        let texts = |on_gpus, on_cpus| gpus.then_some(on_gpus).into_iter().chain([on_cpus]).collect::<Vec<_>>();
        let field = |name: &str, value: String| (name.to_owned(), value);
        let (texts, budget, share) = match given.check_results {
            Some(_) => (texts(RESULTS_ON_GPUS, RESULTS), AROUND_RESULTS_S, 1.0),
            // Precision is not waited for: each case has its part, and the rest is for starting and checking.
            None => (texts(ON_GPUS, ON_CPUS), 0.0, 0.5),
        };
        let time = given.check_results.unwrap_or(given.budget).0;
        let budget = Seconds(time + budget);
        let number: usize = texts.iter().map(|(_, text)| text.matches("- {benchmark:").count()).sum();
        let hangs = (HANGS * budget.0).max(LEAST_HANG_S);
        let mut fields = vec![
            field("max_seconds", format!("{:.3}s", share * time / number.max(1) as f64)),
            field("timeout", format!("{hangs:.3}s")),
        ];
        if given.check_results.is_some() {
            fields.extend([field("target_precision", "0%".to_owned()), field("spacing", "0s".to_owned())]);
        }
        Self { texts, fields, budget }
    }
}

/// Measures the nodes of the launcher, and gives the record.
pub(super) fn measure(given: &Fleet, entry: Entry<'_>) -> Result<PathBuf, Failure> {
    let Some(coordinator) = entry.coordinator else {
        return Err(Failure::new("a fleet has several nodes, and no launcher started this on any other")
            .hint("srun -N 8 --ntasks-per-node=1 rankmark fleet\nor mpirun, torchrun; records of nodes: rankmark fleet DIR..."));
    };
    let work = Work::new(given);
    let time = budget(Some(work.budget))?;
    coordinator.end_at(entry.begun + time.unwrap_or_default());
    let plan = plan(coordinator, &work)?;
    let options = RunOptions {
        output: Output { output_dir: given.output_dir.clone(), quiet: given.quiet, json: false, ..Output::default() },
        whole: Whole::default().with_budget(work.budget),
        has_plan: true,
        ..RunOptions::default()
    };
    let leaves_out = given.check_results.is_none();
    let (machine, explain) = (machine::detect(), Some(EXPLAIN));
    let request = Request { options: &options, machine, entry, into_folder: false, leaves_out, explain };
    let ended = session::measure(&request, Some(plan))?;
    ended.directory.ok_or_else(|| Failure::new("nothing was measured"))
}

fn plan(coordinator: &Coordinator, work: &Work) -> Result<Plan, Failure> {
    let (world, threads) = world(coordinator);
    let abouts = benchmarks::abouts();
    let read = |text: &str, name: &str, fields: &[(String, String)]| record::plan::read(text, name, &abouts, fields);
    let fields: Vec<(String, String)> = world.into_iter().chain(work.fields.iter().cloned()).collect();
    let mut whole: Option<Plan> = None;
    for (name, text) in &work.texts {
        let bytes = if work.budget.0 < SHORT_S { FEW_BYTES } else { MANY_BYTES };
        let text = text.replace("THREADS", &threads.to_string()).replace("BYTES", bytes);
        let plan = read(&text, name, &fields)?;
        match &mut whole {
            Some(whole) => whole.cases.extend(plan.cases),
            None => whole = Some(plan),
        }
    }
    let mut plan = whole.ok_or_else(|| Failure::new("there is nothing to measure"))?;
    // One world for all of it: a launcher's MPI can be started once.
    for case in &mut plan.cases {
        case.world.insert("threads".to_owned(), threads.into());
    }
    Ok(plan)
}

/// All ranks of the launcher, the cores of a node divided among its ranks, and what connects hosts.
fn world(coordinator: &Coordinator) -> (Vec<(String, String)>, usize) {
    let hosts = coordinator.hosts();
    let threads = hosts.iter().map(|host| host.cores.len() / host.ranks.len().max(1)).min().unwrap_or(1).max(1);
    let mut world = vec![("ranks".to_owned(), coordinator.size().to_string())];
    if hosts.len() > 1 {
        let by = coordinator.started_by();
        let fits = |backend: &&dyn comm::Backend| backend.about().launched && backend.accepts(by).is_ok();
        world.push(match comm::backends().find(fits) {
            Some(backend) => ("backend".to_owned(), backend.about().name.to_owned()),
            None => ("runtime".to_owned(), "pytorch".to_owned()),
        });
    }
    (world, threads)
}

/// What the record of a fleet does not have.
#[derive(Default)]
pub(super) struct Missing {
    /// Hosts of the launcher without any result, and why.
    pub(super) hosts: Vec<(HostName, String)>,
    /// Cases that did not run within the budget.
    pub(super) cases: usize,
}

pub(super) fn missing(entry: Entry<'_>, directory: &Path) -> Result<Missing, Failure> {
    let Some(coordinator) = entry.coordinator else { return Ok(Missing::default()) };
    let Record { file, cases, .. } = read_run(directory)?;
    let known = |host: &str| file.machine.host == host || file.hosts.iter().any(|machine| machine.host == host);
    let gone = coordinator.hosts().iter().filter(|host| !known(&host.name));
    let named = |name: &str| Ok((HostName::parse(name)?, "it was started, and has no result".to_owned()));
    let hosts = gone.map(|host| named(&host.name)).collect::<Result<Vec<_>, Failure>>()?;
    let planned = file.plan.cases.len();
    let ran = cases.iter().filter(|line| line.status != Status::NotRun).count();
    Ok(Missing { hosts, cases: planned.saturating_sub(ran) })
}
