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

/// What a fleet measures on processors.
const ON_CPUS: &str = include_str!("../../../plans/fleet/cpus.yaml");
/// And on GPUs, where there are any.
const ON_GPUS: &str = include_str!("../../../plans/fleet/gpus.yaml");

/// Measures the nodes of the launcher, and gives the record.
pub(super) fn measure(given: &Fleet, entry: Entry<'_>) -> Result<PathBuf, Failure> {
    let Some(coordinator) = entry.coordinator else {
        return Err(Failure::new("a fleet has several nodes, and no launcher started this on any other")
            .hint("srun -N 8 --ntasks-per-node=1 rankmark fleet\nor mpirun, torchrun; records of nodes: rankmark fleet DIR..."));
    };
    let plan = plan(coordinator, given.budget)?;
    let options = RunOptions {
        output: Output { output_dir: given.output_dir.clone(), quiet: given.quiet, json: false, ..Output::default() },
        whole: Whole::default().with_budget(given.budget),
        has_plan: true,
        ..RunOptions::default()
    };
    budget(Some(given.budget))?;
    let request =
        Request { options: &options, machine: machine::detect(), entry, into_folder: false, explain: Some(EXPLAIN) };
    let ended = session::measure(&request, Some(plan))?;
    ended.directory.ok_or_else(|| Failure::new("nothing was measured"))
}

fn plan(coordinator: &Coordinator, budget: Seconds) -> Result<Plan, Failure> {
    let (world, threads) = world(coordinator);
    let abouts = benchmarks::abouts();
    let read = |text: &str, name: &str, fields: &[(String, String)]| record::plan::read(text, name, &abouts, fields);
    let texts: Vec<(&str, &str)> =
        [("cpus.yaml", ON_CPUS)].into_iter().chain((machine::gpus() > 0).then_some(("gpus.yaml", ON_GPUS))).collect();
    // Precision is not waited for: each case has its part, and the rest is for starting and checking.
    let number: usize = texts.iter().map(|(_, text)| text.matches("- benchmark:").count()).sum();
    let each = format!("{:.3}s", budget.0 / (2 * number.max(1)) as f64);
    let fields: Vec<(String, String)> = world.into_iter().chain([("max_seconds".to_owned(), each)]).collect();
    let mut whole: Option<Plan> = None;
    for (name, text) in texts {
        let text = text.replace("THREADS", &threads.to_string());
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
