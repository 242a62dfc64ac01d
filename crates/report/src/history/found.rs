//! The histories that the records of some folders make together.

use std::path::PathBuf;

use diagnose::history::{History, LeftOut, histories};
use record::Declared;
use terms::Error;

use super::NamedHistory;
use super::names::case_names;
use super::read::read_history;

/// The histories of some records, and the records that are part of none.
pub struct Histories {
    /// The folders, as they were named.
    pub title: String,
    /// A history of each machine.
    pub machines: Vec<NamedHistory>,
    /// The other records.
    pub left_out: Vec<LeftOut>,
}

impl Histories {
    /// The histories of the records in these folders, whose benchmarks declare this.
    ///
    /// # Errors
    /// A folder that is not there, and folders without a record.
    pub fn read(folders: &[PathBuf], any_host: bool, declared: &[Declared]) -> Result<Self, Error> {
        let title = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ");
        let (runs, left_out) = read_history(folders, any_host)?;
        if runs.is_empty() && left_out.is_empty() {
            let hint = "runs make `results`; `rankmark history DIR` names another folder";
            return Err(Error::new(format!("there is no record in {title}")).hint(hint));
        }
        let named = |history: History| NamedHistory { names: case_names(&history, declared), history };
        Ok(Self { title, machines: histories(runs).into_iter().map(named).collect(), left_out })
    }

    /// Leaves the machines with this text in their name.
    ///
    /// # Errors
    /// When there is none.
    pub fn keep(&mut self, wanted: &str) -> Result<(), Error> {
        let names: Vec<String> = self.machines.iter().map(|machine| machine.history.machine.clone()).collect();
        let wanted_low = wanted.to_lowercase();
        self.machines.retain(|machine| machine.history.machine.to_lowercase().contains(&wanted_low));
        if self.machines.is_empty() {
            let hint = format!("valid values are parts of: {}", names.join(" | "));
            return Err(Error::new(format!("no machine of these records has `{wanted}` in its name")).hint(hint));
        }
        Ok(())
    }

    /// The run to look at next, of the machine with the latest one: the directory of the one to compare it with, its own, and
    /// what that tells.
    pub fn to_look_at(&self) -> Option<(Option<&str>, &str, &'static str)> {
        let histories = self.machines.iter().map(|machine| &machine.history);
        let history = histories.max_by_key(|history| history.runs.last().map(|run| run.started))?;
        let directory = |run: usize| history.runs[run].directory.as_str();
        Some(match pair(history) {
            Some(([before, after], does)) => (Some(directory(before)), directory(after), does),
            None => (None, directory(history.runs.len() - 1), "tables and charts of this run"),
        })
    }
}

/// The runs around the last change; else the latest run and the one before it that has a case in common.
fn pair(history: &History) -> Option<([usize; 2], &'static str)> {
    if let Some(change) = history.changes.last() {
        return Some(([change.before, change.run], "the runs around the last change"));
    }
    let last = history.runs.len().checked_sub(1)?;
    let before = history.series.iter().filter_map(|series| match series.points.as_slice() {
        [.., before, point] if point.run == last => Some(before.run),
        _ => None,
    });
    Some(([before.max()?, last], "the latest run and the one before it"))
}
