//! What the records of a fleet hold of its nodes and links, and what becomes of these.

use std::collections::BTreeSet;
use std::path::PathBuf;

use diagnose::fleet::{self, Fleet, NodeRun, Taken, Topology};
use record::read_run;
use record::store::{RUN_FILE, RecordFolders};
use terms::Error;

use super::so_far::{MOST_LOSSES, Missing};

/// What records hold of nodes and links.
#[derive(Default)]
pub struct MeasuredFleet {
    /// What the nodes took.
    pub taken: Taken,
    /// What a reader should know: which records are incomplete.
    pub notes: Vec<String>,
}

impl MeasuredFleet {
    /// Judges the nodes by their peers, or by what a fleet learned.
    ///
    /// # Errors
    /// When there is no node that anything is known of.
    pub fn judged(
        self,
        learned: Option<&Fleet>,
        topology: Option<&Topology>,
        missing: &Missing,
        is_interrupted: bool,
    ) -> Result<Fleet, Error> {
        refuse_nothing_measured(&self.taken)?;
        let mut judged = match learned {
            Some(learned) => fleet::against(learned, &self.taken, &missing.hosts),
            None => fleet::fleet(&self.taken, topology, &missing.hosts),
        };
        judged.notes.extend(self.notes);
        // The note on the interrupted record says why it lacks cases.
        judged.notes.extend(missing.note().filter(|_| !is_interrupted));
        if judged.nodes.is_empty() {
            return Err(Error::new("there is no node to judge").hint("name records of nodes: rankmark fleet DIR..."));
        }
        Ok(judged)
    }
}

/// Where cases failed for a reason that names no node, and none has a time, no node can be judged by it.
fn refuse_nothing_measured(taken: &Taken) -> Result<(), Error> {
    let has_any = |node: &NodeRun| !node.measured.is_empty() || !node.bits.is_empty();
    let is_measured = !taken.tournaments.is_empty() || taken.nodes.iter().any(has_any);
    let is_blamed = taken.nodes.iter().any(|node| !node.failed.is_empty());
    match taken.unblamed.first() {
        Some(fault) if !is_measured && !is_blamed => {
            Err(Error::new("no node is judged: nothing was measured").cause(view::one_line(&fault.why)))
        }
        _ => Ok(()),
    }
}

/// What the nodes of these records took. A record that cannot be read is left out; `remark` gets a line that says so.
///
/// # Errors
/// When there is no record, or the only one cannot be read.
pub fn of_records(named: &[PathBuf], remark: &mut dyn FnMut(&str)) -> Result<MeasuredFleet, Error> {
    let mut warn = |text: &str| remark(&format!("warning: {text}\n"));
    let mut all = MeasuredFleet::default();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    for place in named {
        let found = RecordFolders::below(place).readable(&mut warn);
        if found.is_empty() {
            read_run(place)?;
        }
        let is_named = found.len() < 2;
        // A fleet that lost a node goes on in a record within its record.
        let found = found.into_iter().flat_map(with_others);
        for directory in found.filter(|directory| seen.insert(directory.clone())) {
            let name = directory.display().to_string();
            let taken = read_run(&directory).map_err(Error::from).and_then(|record| {
                let refused = |error: Error| Error { what: format!("{name}: {}", error.what), ..error };
                all.notes.extend(record.banner().map(|banner| format!("{name}: {banner}")));
                super::taken(&name, &directory, &record).map_err(refused)
            });
            match taken {
                Ok(taken) => all.taken.add(taken),
                Err(error) if is_named => return Err(error),
                Err(error) => warn(&format!("{}; it is left out", view::one_line(&error.sentence()))),
            }
        }
    }
    Ok(all)
}

/// Where the record of those lies who went on after so many losses, in the folder of the first record.
pub(super) fn folder_of_others(losses: usize) -> String {
    if losses == 1 { "others".to_owned() } else { format!("others-{losses}") }
}

/// A record of a fleet, then those of the nodes that went on after a loss.
fn with_others(directory: PathBuf) -> Vec<PathBuf> {
    let others = (1..=MOST_LOSSES).map(|losses| directory.join(folder_of_others(losses)));
    let others: Vec<PathBuf> = others.take_while(|other| other.join(RUN_FILE).is_file()).collect();
    std::iter::once(directory).chain(others).collect()
}
