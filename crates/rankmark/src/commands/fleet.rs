//! `rankmark fleet`: which nodes of a cluster are slow, and which links: measured now under a launcher, or from records.

mod measure;
mod text;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use diagnose::fleet::{self, Fleet as Judged, NodeVerdict, Taken, Topology};
use record::file::FileName;
use record::read_run;
use terms::Seconds;

use super::{Ended, Typed};
use crate::session::{Entry, signal_code};
use crate::{Failure, incomplete, screen};
use record::store::RESULTS;
use record::store::RecordFolders;

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
        let criteria = self.criteria.as_deref().map(read_learned).transpose()?;
        let topology = self.topology.as_deref().map(read_topology).transpose()?;
        let (MeasuredFleet { taken, notes }, missing, target) = match self.dir.is_empty() {
            true => {
                let measured = measure::measure(&self, entry)?;
                let target = measured.directory;
                (of_records(std::slice::from_ref(&target))?, measured.missing, target)
            }
            false => {
                (of_records(&crate::packed::all_opened(&self.dir)?)?, plans::fleet::Missing::default(), self.target()?)
            }
        };
        nothing_measured(&taken)?;
        let mut judged = match &criteria {
            Some(learned) => fleet::against(learned, &taken, &missing.hosts),
            None => fleet::fleet(&taken, topology.as_ref(), &missing.hosts),
        };
        judged.notes.extend(notes);
        // The note on the interrupted record says why it lacks cases.
        let interrupted = signal_code().filter(|_| missing.cases > 0);
        judged.notes.extend(missing.note().filter(|_| interrupted.is_none()));
        if judged.nodes.is_empty() {
            return Err(Failure::new("there is no node to judge").hint("name records of nodes: rankmark fleet DIR..."));
        }
        let written = write_files(&target, &judged)?;
        let document = report::fleet(&judged);
        document.write_page(&target.join(PAGE))?;
        if self.json {
            screen::print_json(&format!("{}\n", fleet::json(&judged)))?;
        } else if !self.quiet {
            let is_learned = judged.criteria.iter().any(|criterion| criterion.level.is_some());
            let next = (criteria.is_none() && is_learned).then(|| text::next(&target));
            let said = format!("{}\n{}", document.text(screen::width()), text::files(&target, &written));
            screen::print(&(said + &next.unwrap_or_default()))?;
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

/// Where cases failed for a reason that names no node, and none has a time, no node can be judged by it.
fn nothing_measured(taken: &Taken) -> Result<(), Failure> {
    let has_any = |node: &fleet::NodeRun| !node.measured.is_empty() || !node.bits.is_empty();
    let is_measured = !taken.tournaments.is_empty() || taken.nodes.iter().any(has_any);
    let is_blamed = taken.nodes.iter().any(|node| !node.failed.is_empty());
    match taken.unblamed.first() {
        Some(fault) if !is_measured && !is_blamed => {
            Err(Failure::new("no node is judged: nothing was measured").cause(view::one_line(&fault.why)))
        }
        _ => Ok(()),
    }
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

/// What records hold of nodes and links.
#[derive(Default)]
struct MeasuredFleet {
    taken: Taken,
    /// Which of them are incomplete.
    notes: Vec<String>,
}

/// What the nodes of these records took. A record that cannot be read is left out, with a warning.
fn of_records(named: &[PathBuf]) -> Result<MeasuredFleet, Failure> {
    let MeasuredFleet { taken: mut all, mut notes } = MeasuredFleet::default();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    for place in named {
        let found = incomplete::readable(RecordFolders::below(place));
        if found.is_empty() {
            read_run(place)?;
        }
        let is_named = found.len() < 2;
        // A fleet that lost a node goes on in a record within its record.
        let found = found.into_iter().flat_map(measure::with_others);
        for directory in found.filter(|directory| seen.insert(directory.clone())) {
            let name = directory.display().to_string();
            let taken = read_run(&directory).map_err(terms::Error::from).and_then(|record| {
                let refused = |error: terms::Error| terms::Error { what: format!("{name}: {}", error.what), ..error };
                notes.extend(record.banner().map(|banner| format!("{name}: {banner}")));
                plans::fleet::taken(&name, &directory, &record).map_err(refused)
            });
            match taken {
                Ok(taken) => all.add(taken),
                Err(error) if is_named => return Err(error.into()),
                Err(error) => {
                    let why = view::one_line(&error.sentence());
                    screen::remark(&format!("warning: {why}; it is left out\n"));
                }
            }
        }
    }
    Ok(MeasuredFleet { taken: all, notes })
}

/// Writes the lists of hosts and what the fleet learned; gives the files that are not empty, each with what it is for.
fn write_files(folder: &Path, judged: &Judged) -> Result<Vec<(PathBuf, &'static str)>, Failure> {
    let mut written = Vec::new();
    for fleet::FleetFile { name, text, what } in fleet::files(judged) {
        let path = folder.join(name);
        let name = FileName::literal(name);
        record::file::replace(folder, &name.clone().into(), &name.temporary(), text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}", path.display())).cause(error))?;
        if !text.is_empty() {
            written.push((path, what));
        }
    }
    Ok(written)
}

/// Reads what nodes are judged by from the fleet.json of a fleet.
fn read_learned(path: &Path) -> Result<Judged, Failure> {
    // A fleet of ten thousand nodes has less.
    const LARGEST: u64 = 256 << 20;
    let name = path.display();
    let hint = "`rankmark fleet` writes it next to its lists of hosts";
    let unread = |cause: String| Failure::new(format!("{name} is not what a fleet learned")).cause(cause).hint(hint);
    let file = record::file::open_named(path)
        .map_err(|error| Failure::new(format!("cannot read {name}")).cause(error).hint(hint))?;
    if file.metadata().is_ok_and(|about| about.len() > LARGEST) {
        return Err(unread(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(|error| unread(error.to_string()))?;
    fleet::read_learned(&text).map_err(unread)
}

/// A file with the switches of nodes, at most so large.
const LARGEST_TOPOLOGY: u64 = 16 << 20;

fn read_topology(path: &Path) -> Result<Topology, Failure> {
    let unread = |cause: String| Failure::new(format!("cannot read {}", path.display())).cause(cause);
    let file = record::file::open_named(path).map_err(|error| unread(error.to_string()))?;
    let mut text = String::new();
    file.take(LARGEST_TOPOLOGY).read_to_string(&mut text).map_err(|error| unread(error.to_string()))?;
    Ok(Topology::parse(&text)
        .map_err(|error| terms::Error { what: format!("{}: {}", path.display(), error.what), ..error })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_measurement_is_no_success() {
        assert_eq!((code(&Judged::default(), None), code(&Judged::default(), Some(143))), (0, 143));
    }
}
