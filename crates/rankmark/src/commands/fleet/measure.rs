//! Measuring a fleet: what each node does alone, each two nodes together, and all of them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use launch::external::{Coordinator, RankHost};
use measure::{APART, machine};
use record::{Case, Plan, Record, read_run};
use terms::{HostName, Seconds, Status};

use super::Fleet;
use crate::Failure;
use crate::commands::measured::EXPLAIN;
use crate::options::{Output, RunOptions, Whole, budget};
use crate::screen;
use crate::session::{self, Entry, Request};

/// A part of what a fleet does.
struct Part {
    name: &'static str,
    text: &'static str,
    /// Nodes work alone: nothing connects them, so that no node can take from the others what they measure here.
    apart: bool,
}

/// What a fleet measures on GPUs, where there are any: they tell the most.
const ON_GPUS: Part = part("gpus.yaml", include_str!("../../../plans/fleet/gpus.yaml"), false);
/// What a fleet measures on processors.
const ON_CPUS: Part = part("nodes.yaml", include_str!("../../../plans/fleet/nodes.yaml"), true);
/// What a fleet measures between nodes.
const NETWORK: Part = part("network.yaml", include_str!("../../../plans/fleet/network.yaml"), false);
/// What it computes to find silent corruption.
const RESULTS: Part = part("results.yaml", include_str!("../../../plans/fleet/results.yaml"), true);
const RESULTS_ON_GPUS: Part = part("results-gpus.yaml", include_str!("../../../plans/fleet/results-gpus.yaml"), false);

const fn part(name: &'static str, text: &'static str, apart: bool) -> Part {
    Part { name, text, apart }
}

/// What starting and checking may take besides the time that results are computed for.
const AROUND_RESULTS_S: f64 = 60.0;
/// Ranks that do not answer for this share of the budget hang: less would take a busy host for a dead one.
const HANGS: f64 = 0.5;
/// But not before so many seconds.
const LEAST_HANG_S: f64 = 5.0;
/// Nodes that may be lost one after another before the others give up.
const MOST_LOSSES: usize = 3;

/// A working set beyond the caches; and of budgets below so many seconds a smaller one, which takes less long to fill and check.
const MANY_BYTES: &str = "1GiB";
const FEW_BYTES: &str = "256MiB";
const SHORT_S: f64 = 120.0;

/// What a fleet does in its time.
struct Work {
    parts: Vec<Part>,
    /// Cases of all parts.
    cases: usize,
    /// Seconds of sampling that all cases share.
    sampling_s: f64,
    checks_results: bool,
    /// Seconds after which ranks that do not answer hang.
    hangs_s: f64,
    /// The working set of memory.
    bytes: &'static str,
    budget: Seconds,
}

impl Work {
    fn new(given: &Fleet) -> Self {
        let gpus = machine::gpus() > 0;
        let first = |on_gpus| gpus.then_some(on_gpus).into_iter();
        let time = given.check_results.unwrap_or(given.budget).0;
        let (parts, budget, sampling_s): (Vec<Part>, f64, f64) = match given.check_results {
            Some(_) => (first(RESULTS_ON_GPUS).chain([RESULTS]).collect(), time + AROUND_RESULTS_S, time),
            // Precision is not waited for: each case has its part, and the rest is for starting and checking.
            None => (first(ON_GPUS).chain([ON_CPUS, NETWORK]).collect(), time, 0.5 * time),
        };
        let cases = parts.iter().map(|part| part.text.matches("- {benchmark:").count()).sum::<usize>().max(1);
        let hangs_s = (HANGS * budget).max(LEAST_HANG_S);
        let checks_results = given.check_results.is_some();
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
    fn after_loss(&mut self) {
        self.budget.0 += self.hangs_s;
    }
}

/// The record of a fleet that was measured now.
pub(super) struct Measurement {
    /// That of all nodes; those of the others lie in it, if a node was lost.
    pub(super) directory: PathBuf,
    /// What they do not have.
    pub(super) missing: Missing,
}

/// Where the record of those lies who went on after so many losses, in the folder of the first record.
fn folder_of_others(losses: usize) -> String {
    if losses == 1 { "others".to_owned() } else { format!("others-{losses}") }
}

/// A record of a fleet, then those of the nodes that went on after a loss.
pub(super) fn with_others(directory: PathBuf) -> Vec<PathBuf> {
    let others = (1..=MOST_LOSSES).map(|losses| directory.join(folder_of_others(losses)));
    let others: Vec<PathBuf> = others.take_while(|other| other.join(record::store::RUN_FILE).is_file()).collect();
    std::iter::once(directory).chain(others).collect()
}

/// Measures the nodes of the launcher. Once one is lost, the others go on without it, in a record of their own.
pub(super) fn measure(given: &Fleet, entry: Entry<'_>) -> Result<Measurement, Failure> {
    let Some(coordinator) = entry.coordinator else {
        return Err(Failure::new("a fleet has several nodes, and no launcher started this on any other")
            .hint("srun -N 8 --ntasks-per-node=1 rankmark fleet\nor mpirun, torchrun; records of nodes: rankmark fleet DIR..."));
    };
    let mut work = Work::new(given);
    let plan = plan(coordinator, &work)?;
    let mut open = Open::new(plan.cases.len());
    let directory = run((given, entry), coordinator, &work, plan, given.output_dir.clone())?;
    open.take(&directory)?;
    let mut missing = missing(coordinator, &directory)?;
    let mut directories = vec![directory];
    let mut others: Option<Coordinator> = None;
    while let Some(last) = directories.last().filter(|_| missing.lost.len() < MOST_LOSSES) {
        let lost = blamed(last)?;
        let Some(next) = others.as_ref().unwrap_or(coordinator).without(&lost) else { break };
        missing.lost.extend(lost);
        work.after_loss();
        let mut plan = self::plan(&next, &work)?;
        open.keep(&mut plan);
        if plan.cases.is_empty() {
            break;
        }
        screen::remark(&format!("{} lost: the others go on without it\n", missing.lost.join(", ")));
        let place = directories[0].join(folder_of_others(directories.len()));
        // What is known of all nodes is worth more than an error of the others.
        let directory = match run((given, entry), &next, &work, plan, Some(place)) {
            Ok(directory) => directory,
            Err(error) => {
                missing.others_failed = Some(error.on_one_line());
                break;
            }
        };
        open.take(&directory)?;
        directories.push(directory);
        others = Some(next);
    }
    missing.cases = open.not_run();
    missing.is_connected_once = connection(coordinator).0 == "backend";
    Ok(Measurement { directory: directories.swap_remove(0), missing })
}

/// Measures a plan with these ranks. Gives the record.
fn run(
    (given, entry): (&Fleet, Entry<'_>),
    coordinator: &Coordinator,
    work: &Work,
    plan: Plan,
    output_dir: Option<PathBuf>,
) -> Result<PathBuf, Failure> {
    let time = budget(Some(work.budget))?;
    coordinator.end_at(entry.begun + time.unwrap_or_default());
    let options = RunOptions {
        output: Output { output_dir, quiet: given.quiet, json: false, ..Output::default() },
        whole: Whole::default().with_budget(work.budget),
        has_plan: true,
        ..RunOptions::default()
    };
    let request = Request {
        options: &options,
        machine: machine::detect(),
        entry: Entry { coordinator: Some(coordinator), ..entry },
        into_folder: false,
        leaves_out: !work.checks_results,
        ends_on_loss: true,
        explain: Some(EXPLAIN),
        predictions: None,
    };
    let ended = session::measure(&request, Some(plan))?;
    ended.directory.ok_or_else(|| Failure::new("nothing was measured"))
}

fn plan(coordinator: &Coordinator, work: &Work) -> Result<Plan, Failure> {
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
    whole.ok_or_else(|| Failure::new("there is nothing to measure"))
}

/// The cores of a node divided among its ranks.
fn threads(coordinator: &Coordinator) -> usize {
    let of_rank = |host: &RankHost| host.cores.len() / host.ranks.len().max(1);
    coordinator.hosts().iter().map(of_rank).min().unwrap_or(1).max(1)
}

/// What connects hosts.
fn connection(coordinator: &Coordinator) -> (String, String) {
    let by = coordinator.started_by();
    let fits = |backend: &&dyn comm::Backend| backend.about().launched && backend.accepts(by).is_ok();
    match comm::backends().find(fits) {
        Some(backend) => ("backend".to_owned(), backend.about().name.to_owned()),
        None => ("runtime".to_owned(), "pytorch".to_owned()),
    }
}

/// The cases of a plan that have no result yet, by their places in the plan of all nodes.
struct Open {
    all: usize,
    /// Places of the cases of the latest record.
    asked: Vec<usize>,
    done: HashSet<usize>,
    failed: HashSet<usize>,
}

impl Open {
    fn new(all: usize) -> Self {
        Self { all, asked: (0..all).collect(), done: HashSet::new(), failed: HashSet::new() }
    }

    /// Takes in what a record has of the cases that were asked for.
    fn take(&mut self, directory: &Path) -> Result<(), Failure> {
        let Record { file, cases, .. } = read_run(directory)?;
        for (place, case) in self.asked.iter().zip(&file.plan.cases) {
            match cases.iter().find(|line| line.id == case.id).map(|line| line.status) {
                Some(Status::Ok | Status::Skipped) => self.done.insert(*place),
                Some(Status::Failed) => self.failed.insert(*place),
                _ => false,
            };
        }
        Ok(())
    }

    /// Leaves what has no result yet, and does not need all processes of the launcher, which are no longer there.
    fn keep(&mut self, plan: &mut Plan) {
        let needs_all = |case: &Case| benchmarks::backend_of(case).is_some_and(|backend| backend.about().launched);
        let cases = std::mem::take(&mut plan.cases).into_iter().enumerate();
        let kept = cases.filter(|(place, case)| !self.done.contains(place) && !needs_all(case));
        (self.asked, plan.cases) = kept.unzip();
    }

    /// Cases that neither have a result nor failed.
    fn not_run(&self) -> usize {
        (0..self.all).filter(|place| !self.done.contains(place) && !self.failed.contains(place)).count()
    }
}

/// Hosts that failed by this record.
fn blamed(directory: &PathBuf) -> Result<Vec<String>, Failure> {
    let nodes = super::of_records(std::slice::from_ref(directory))?.taken.nodes;
    let failed = nodes.into_iter().filter(|node| !node.failed.is_empty());
    Ok(failed.map(|node| node.host.to_string()).collect())
}

/// What the records of a fleet do not have.
#[derive(Default)]
pub(super) struct Missing {
    /// Hosts of the launcher without any result, and why.
    pub(super) hosts: Vec<(HostName, String)>,
    /// Hosts that the others went on without.
    pub(super) lost: Vec<String>,
    /// The launcher connects its ranks, which it can do once and with all of them.
    is_connected_once: bool,
    /// Why they could not.
    pub(super) others_failed: Option<String>,
    /// Cases that did not run.
    pub(super) cases: usize,
}

impl Missing {
    /// What a reader should know of cases without a result.
    pub(super) fn note(&self) -> Option<String> {
        if let Some(why) = &self.others_failed {
            return Some(format!("the others could not go on without {}: {why}", self.lost.join(", ")));
        }
        let cases = view::number::count(self.cases, "case has", "cases have");
        match (self.cases, self.lost.as_slice()) {
            (0, _) => None,
            (_, lost) if lost.is_empty() || !self.is_connected_once => {
                Some(format!("{cases} no result: a longer --budget leaves time for them."))
            }
            (_, lost) => Some(format!(
                "{cases} no result: the processes of a launcher can be connected once, and {0} was among them. Run it again \
                 without {0} to measure the network of the others.",
                lost.join(", ")
            )),
        }
    }
}

fn missing(coordinator: &Coordinator, directory: &Path) -> Result<Missing, Failure> {
    let Record { file, .. } = read_run(directory)?;
    let known = |host: &str| file.machine.host == host || file.hosts.iter().any(|machine| machine.host == host);
    let gone = coordinator.hosts().iter().filter(|host| !known(&host.name));
    let named = |name: &str| Ok((HostName::parse(name)?, "it was started, and has no result".to_owned()));
    let hosts = gone.map(|host| named(&host.name)).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Missing { hosts, ..Missing::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_why_cases_have_no_result() {
        let note = |lost: &[&str], is_connected_once, cases| {
            let lost = lost.iter().map(|host| (*host).to_owned()).collect();
            Missing { lost, is_connected_once, cases, ..Missing::default() }.note()
        };
        assert_eq!(note(&["n3"], true, 0), None);
        let says =
            |words: &str, note: Option<String>| assert!(note.as_ref().unwrap().contains(words), "{words}: {note:?}");
        says(
            "4 cases have no result: the processes of a launcher can be connected once, and n3",
            note(&["n3"], true, 4),
        );
        // PyTorch's ranks are connected again, so that only time can have been missing.
        says("1 case has no result: a longer --budget", note(&["n3"], false, 1));
        says("1 case has no result: a longer --budget", note(&[], true, 1));
        let failed =
            Missing { lost: vec!["n3".to_owned()], others_failed: Some("no space".to_owned()), ..Missing::default() };
        says("the others could not go on without n3: no space", failed.note());
    }
}
