//! Measuring a fleet: what each node does alone, each two nodes together, and all of them.

use std::path::{Path, PathBuf};

use launch::external::Coordinator;
use measure::machine;
use record::{About, Plan, Record, read_run};
use terms::{Seconds, Status};

use super::Fleet;
use crate::Failure;
use crate::commands::measured::EXPLAIN;
use crate::options::{Output, RunOptions, Whole, budget};
use crate::session::{self, Entry, Request};

/// Tests in which ranks exchange nothing.
pub(super) const LOCAL: [&str; 13] = [
    "copy",
    "scale",
    "add",
    "triad",
    "reduce_broadcast",
    "fma",
    "gemm",
    "storage_read",
    "host_to_device",
    "device_to_host",
    "host_both_ways",
    "device_copy",
    "host_latency",
];

/// What a fleet measures on processors: fields of a benchmark.
const ON_CPUS: [(&str, &[(&str, &str)]); 6] = [
    ("hardware", &[("test", "triad")]),
    ("hardware", &[("test", "gemm"), ("dtype", "f32")]),
    ("hardware", &[("test", "latency")]),
    ("hardware", &[("test", "bandwidth")]),
    ("collective", &[("op", "all_reduce"), ("bytes", "1KiB")]),
    ("collective", &[("op", "all_reduce"), ("bytes", "16MiB")]),
];

/// And on GPUs, where there are any.
const ON_GPUS: [(&str, &[(&str, &str)]); 3] = [
    ("hardware", &[("test", "device_copy"), ("device", "cuda")]),
    ("hardware", &[("test", "host_to_device"), ("device", "cuda")]),
    ("hardware", &[("test", "device_to_host"), ("device", "cuda")]),
];

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
    let mut whole: Option<Plan> = None;
    let on_gpus = if machine::gpus() > 0 { &ON_GPUS[..] } else { &[] };
    // Precision is not waited for: each case has its part, and the rest is for starting and checking.
    let each = budget.0 / (2 * (ON_CPUS.len() + on_gpus.len())) as f64;
    for (benchmark, fields) in ON_CPUS.iter().chain(on_gpus) {
        let about = about(benchmark)?;
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut pairs: Vec<(String, String)> = fields.iter().map(owned).collect();
        let is_local = fields.iter().any(|(name, value)| *name == "test" && ["triad", "gemm"].contains(value));
        pairs.extend(world.iter().cloned());
        pairs.extend(is_local.then(|| ("threads".to_owned(), threads.to_string())));
        pairs.push(("max_seconds".to_owned(), format!("{each:.3}s")));
        let mut plan = record::plan::from_flags(about, &pairs, &[])?;
        benchmarks::complete(&mut plan);
        // Of a test's sizes the largest: beyond the caches, and at the peak.
        plan.cases.drain(..plan.cases.len().saturating_sub(1));
        match &mut whole {
            Some(whole) => whole.cases.extend(plan.cases),
            None => whole = Some(plan),
        }
    }
    let mut plan = whole.ok_or_else(|| Failure::new("there is nothing to measure"))?;
    plan.experiment = "fleet".to_owned();
    // One world for all of it: a launcher's MPI can be started once.
    for case in &mut plan.cases {
        case.world.insert("threads".to_owned(), threads.into());
    }
    Ok(plan)
}

fn about(name: &str) -> Result<&'static About, Failure> {
    let all = benchmarks::abouts();
    all.into_iter()
        .find(|about| about.name == name)
        .ok_or_else(|| Failure::new(format!("there is no benchmark {name}")))
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
    pub(super) hosts: Vec<(String, String)>,
    /// Cases that did not run within the budget.
    pub(super) cases: usize,
}

pub(super) fn missing(entry: Entry<'_>, directory: &Path) -> Result<Missing, Failure> {
    let Some(coordinator) = entry.coordinator else { return Ok(Missing::default()) };
    let Record { file, cases, .. } = read_run(directory)?;
    let known = |host: &str| file.machine.host == host || file.hosts.iter().any(|machine| machine.host == host);
    let gone = coordinator.hosts().iter().filter(|host| !known(&host.name));
    let hosts = gone.map(|host| (host.name.clone(), "it was started, and has no result".to_owned())).collect();
    let planned = file.plan.cases.len();
    let ran = cases.iter().filter(|line| line.status != Status::NotRun).count();
    Ok(Missing { hosts, cases: planned.saturating_sub(ran) })
}
