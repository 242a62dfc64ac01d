//! Measuring a fleet: what each node does alone, each two nodes together, and all of them.

use std::path::PathBuf;

use launch::external::Coordinator;
use measure::machine;
use plans::fleet::{Missing, Open, Work, connection, missing};
use record::Plan;

use super::Fleet;
use crate::Failure;
use crate::commands::measured::EXPLAIN;
use crate::options::{Output, RunOptions, Whole, budget};
use crate::screen;
use crate::session::{self, Entry, SessionRequest};

/// Nodes that may be lost one after another before the others give up.
const MOST_LOSSES: usize = 3;

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
    let mut work = Work::new(given.budget, given.check_results);
    let plan = plans::fleet::plan(coordinator, &work)?;
    let mut open = Open::new(plan.cases.len());
    let directory = run((given, entry), coordinator, &work, plan, given.output_dir.clone())?;
    open.take(&directory)?;
    let mut missing = missing(coordinator, &directory)?;
    let mut directories = vec![directory];
    let mut others: Option<Coordinator> = None;
    while let Some(last) = directories.last().filter(|_| missing.lost.len() < MOST_LOSSES) {
        let lost = blamed(last)?;
        let ranks = others.as_ref().unwrap_or(coordinator);
        let Some(next) = ranks.without(&lost) else {
            if !lost.is_empty() && ranks.hosts().len() > 1 {
                missing.others_failed = Some(why_not_without(&lost, &ranks.hosts()[0].name));
                missing.lost.extend(lost);
            }
            break;
        };
        missing.lost.extend(lost);
        work.after_loss();
        let mut plan = plans::fleet::plan(&next, &work)?;
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

/// Why the others do not go on without these hosts, and what to type. `leading`: the host of rank 0.
fn why_not_without(lost: &[String], leading: &str) -> String {
    let why = if lost.iter().any(|host| host == leading) {
        format!("{leading} has rank 0, which leads the measurement")
    } else {
        "too few hosts are left".to_owned()
    };
    format!("{why}. Measure the others in a new run (srun --exclude={})", lost.join(","))
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
    let request = SessionRequest {
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

/// Hosts that failed by this record.
fn blamed(directory: &PathBuf) -> Result<Vec<String>, Failure> {
    let nodes = super::of_records(std::slice::from_ref(directory))?.taken.nodes;
    let failed = nodes.into_iter().filter(|node| !node.failed.is_empty());
    Ok(failed.map(|node| node.host.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_host_of_rank_0_is_left_out_of_the_next_run() {
        let lost = ["n1".to_owned()];
        assert_eq!(
            why_not_without(&lost, "n1"),
            "n1 has rank 0, which leads the measurement. Measure the others in a new run (srun --exclude=n1)"
        );
        assert!(why_not_without(&lost, "n0").starts_with("too few hosts are left. "));
    }
}
