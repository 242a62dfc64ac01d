//! Measuring a fleet: plans of its nodes are run as any other.

use std::path::PathBuf;

use launch::external::Coordinator;
use measure::machine;
use plans::fleet::{Measurement, Work};
use record::Plan;

use super::Fleet;
use crate::Failure;
use crate::commands::measured::EXPLAIN;
use crate::options::{Output, RunOptions, Whole, budget};
use crate::screen;
use crate::session::{self, Entry, SessionRequest};

/// Measures the nodes of the launcher.
pub(super) fn measure(given: &Fleet, entry: Entry<'_>) -> Result<Measurement, Failure> {
    let Some(coordinator) = entry.coordinator else {
        return Err(Failure::new("a fleet has several nodes, and no launcher started this on any other")
            .hint("srun -N 8 --ntasks-per-node=1 rankmark fleet\nor mpirun, torchrun; records of nodes: rankmark fleet DIR..."));
    };
    let work = Work::new(given.budget, given.check_results);
    let run = |ranks: &Coordinator, work: &Work, plan: Plan, place: Option<PathBuf>| {
        run((given, entry), ranks, work, plan, place.or_else(|| given.output_dir.clone()))
    };
    plans::fleet::measure(coordinator, work, run, Failure::on_one_line, &mut screen::remark)
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
