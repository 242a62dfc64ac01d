//! Which records are of the same run: copies of a folder, a packed record next to its origin, a copy that was made while the run
//! went on.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};
use terms::Status;

use crate::{CaseLine, Record, RunEnd};

/// What tells the run of a record from other runs. Copies of a record have the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIdentity {
    /// The run's identity; empty in records of earlier versions, and where the run file is damaged.
    id: String,
    started: String,
    host: String,
    /// Digest of the figures of an imported record, empty for others: one import makes several records at the same time.
    figures: String,
    /// How much the record holds: whether its run ended, and its cases with all trials. Of copies, the one with the most counts.
    holds: (usize, bool),
}

impl RunIdentity {
    /// Whether both are of the same run.
    pub fn is_same(&self, other: &Self) -> bool {
        let by_id = !self.id.is_empty() && !other.id.is_empty();
        let is_same_run = match by_id {
            true => self.id == other.id,
            // Two runs of a host hardly begin at the same nanosecond.
            false => !self.started.is_empty() && self.host == other.host,
        };
        is_same_run && (&self.started, &self.figures) == (&other.started, &other.figures)
    }
}

impl Record {
    /// The digest of an imported record's figures, which tells it from others of the same date; None of a measured one.
    pub(crate) fn imported_figures(&self) -> Option<String> {
        self.file.imported.as_ref().map(|_| figures(&self.cases))
    }

    /// What tells its run from other runs.
    pub fn identity(&self) -> RunIdentity {
        let is_whole = |line: &&CaseLine| line.status == Status::Ok && !line.lacks_trials();
        let has_ended = match self.end {
            RunEnd::Ended => true,
            RunEnd::Interrupted(_) | RunEnd::Killed | RunEnd::Running | RunEnd::Unknown | RunEnd::Part => false,
        };
        RunIdentity {
            id: self.file.id.clone(),
            started: self.file.started.clone(),
            host: self.file.machine.host.clone(),
            figures: self.imported_figures().unwrap_or_default(),
            holds: (self.cases.iter().filter(is_whole).count(), has_ended),
        }
    }
}

fn figures(lines: &[CaseLine]) -> String {
    let mut digest = Sha256::new();
    for line in lines {
        digest.update(&line.id);
        digest.update(line.time_s.as_ref().map_or(0.0, |time| time.median).to_bits().to_le_bytes());
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For each record the place of the one that it is a copy of; None for the one that counts: it holds the most, and is the first
/// of those that hold as much.
pub fn copies(records: &[&RunIdentity]) -> Vec<Option<usize>> {
    // The same run began at the same time.
    let mut by_start: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        by_start.entry(&record.started).or_default().push(at);
    }
    let mut found = vec![None; records.len()];
    for mut group in by_start.into_values() {
        group.sort_by_key(|at| (std::cmp::Reverse(records[*at].holds), *at));
        let mut counted: Vec<usize> = Vec::new();
        for at in group {
            match counted.iter().find(|other| records[**other].is_same(records[at])) {
                Some(other) => found[at] = Some(*other),
                None => counted.push(at),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, started: &str, holds: usize) -> RunIdentity {
        let (id, started) = (id.to_owned(), started.to_owned());
        RunIdentity { id, started, host: "a".to_owned(), holds: (holds, true), ..RunIdentity::default() }
    }

    #[test]
    fn of_copies_the_fullest_counts() {
        let runs = [run("1", "t", 2), run("2", "t", 9), run("1", "t", 5), run("1", "t", 5), run("3", "u", 1)];
        let all: Vec<&RunIdentity> = runs.iter().collect();
        assert_eq!(copies(&all), [Some(2), None, None, Some(2), None]);
    }

    #[test]
    fn without_an_identity_time_and_host_tell() {
        let damaged = run("", "t", 0);
        assert!(damaged.is_same(&run("1", "t", 0)) && !damaged.is_same(&run("1", "u", 0)));
        assert!(!damaged.is_same(&RunIdentity { host: "b".to_owned(), ..run("", "t", 0) }));
        assert!(!run("", "", 0).is_same(&run("", "", 0)), "nothing is known of either");
        // Records of one import.
        assert!(!run("1", "t", 0).is_same(&RunIdentity { figures: "x".to_owned(), ..run("1", "t", 0) }));
    }
}
