//! `rankmark fleet`: which nodes of a cluster are slow, and which links: measured now under a launcher, or from records.

mod measure;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use diagnose::fleet::{Fleet as Judged, NodeVerdict};
use plans::fleet::{Missing, lists, of_records};
use record::store::RESULTS;
use terms::Seconds;

use super::{Ended, Typed};
use crate::session::{Entry, signal_code};
use crate::{Failure, packed, screen};

/// The file of the page.
const PAGE: &str = "fleet.html";

const EXAMPLES: &str = "\
Examples:
  srun -N 64 --ntasks-per-node=1 rankmark fleet --budget 5min   measures and judges 64 nodes
  srun -N 64 --ntasks-per-node=1 rankmark fleet --check-results 10min   looks for nodes that compute wrong results
  rankmark fleet results/nodes                                judges records of single nodes
  rankmark fleet --criteria fleet.json results/node07         one node, by what a fleet learned

Exit status: 0 all nodes and links are good, 1 a node failed, or a node or link is slow, 3 cannot tell, 2 not possible.
Of healthy fleets, at most 1 in 100 has any node or link called slow. docs/appendix/fleets.md says what that rests on.";

/// Judges the nodes of a cluster by their peers: good, slow, failed; lists of hosts for the scheduler
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Fleet {
    /// records of nodes, or folders of them (default: measures the nodes that a launcher started this on)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, num_args = 0..)]
    dir: Vec<PathBuf>,
    /// how long to measure
    #[arg(long, value_name = "TIME", default_value = "5min", conflicts_with = "dir")]
    budget: Seconds,
    /// looks for silent corruption instead of slow nodes, for so long: the same work on every node must leave the same bits
    #[arg(long, value_name = "TIME", conflicts_with_all = ["dir", "budget", "criteria", "topology"])]
    check_results: Option<Seconds>,
    /// judges by what a fleet learned, and not by peers: the fleet.json that it wrote
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    criteria: Option<PathBuf>,
    /// which nodes share a switch, as Slurm's topology.conf says it (default: racks are found from the times of messages)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "criteria")]
    topology: Option<PathBuf>,
    /// where the lists, the page and the record go (default: results/TIME-fleet)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// prints the verdicts as one JSON object
    #[arg(long)]
    json: bool,
    /// prints errors only
    #[arg(long, short)]
    quiet: bool,
}

impl Typed for Fleet {
    const NAME: &'static str = "fleet";

    fn run(self, entry: Entry<'_>) -> Ended {
        let criteria = self.criteria.as_deref().map(lists::read_learned).transpose()?;
        let topology = self.topology.as_deref().map(lists::read_topology).transpose()?;
        let (found, missing, target) = match self.dir.is_empty() {
            true => {
                let measured = measure::measure(&self, entry)?;
                let target = measured.directory;
                let mut found = of_records(std::slice::from_ref(&target), &mut screen::remark)?;
                found.notes.extend(measured.links);
                (found, measured.missing, target)
            }
            false => {
                let found = of_records(&packed::all_opened(&self.dir)?, &mut screen::remark)?;
                (found, Missing::default(), self.target()?)
            }
        };
        let interrupted = signal_code().filter(|_| missing.cases > 0);
        let judged = found.judged(criteria.as_ref(), topology.as_ref(), &missing, interrupted.is_some())?;
        let written = lists::write(&target, &judged)?;
        let document = report::fleet(&judged);
        let page = target.join(PAGE);
        document.write_page(&page)?;
        if self.json {
            screen::print_json(&format!("{}\n", diagnose::fleet::json(&judged)))?;
        } else if !self.quiet {
            let is_learned = judged.criteria.iter().any(|criterion| criterion.level.is_some());
            let next = if criteria.is_none() && is_learned { next(&target) } else { String::new() };
            let text = document.text(screen::width());
            screen::print(&format!("{text}\n{written}{:<9}{}\n{next}", "page", page.display()))?;
        }
        Ok(code(&judged, interrupted))
    }
}

impl Fleet {
    /// Where the files of a fleet that was not measured now go.
    fn target(&self) -> Result<PathBuf, Failure> {
        match &self.output_dir {
            Some(directory) => Ok(directory.clone()),
            None => Ok(record::fresh_directory(Path::new(RESULTS), jiff::Timestamp::now(), "fleet")?),
        }
    }
}

/// What to type next.
fn next(folder: &Path) -> String {
    let file = folder.join("fleet.json").display().to_string();
    screen::next(&["rankmark", "fleet", "--criteria", &file, "results/NODE"], "judges one more node by this fleet")
}

/// Fit for the prolog of a scheduler: 0 runs the job, anything else does not. `interrupted`: the code of a signal before all cases
/// had run, of which nobody may think that they are good.
fn code(judged: &Judged, interrupted: Option<u8>) -> u8 {
    if let Some(code) = interrupted {
        return code;
    }
    match () {
        () if !judged.failures.is_empty() => 1,
        () if judged.count(NodeVerdict::Failed) + judged.count(NodeVerdict::Slow) + judged.links.len() > 0 => 1,
        () if judged.count(NodeVerdict::CannotTell) > 0 || judged.is_blind_to_links() => 3,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_measurement_is_no_success() {
        assert_eq!((code(&Judged::default(), None), code(&Judged::default(), Some(143))), (0, 143));
    }
}
