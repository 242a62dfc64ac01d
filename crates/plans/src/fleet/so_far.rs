//! What the records of a fleet have so far: cases that are open, and what has no result.

use std::collections::HashSet;
use std::path::Path;

use launch::external::Coordinator;
use record::{Case, Plan, Record, StoreError, read_run};
use terms::{Error, HostName, Status};

/// Nodes that may be lost one after another before the others give up.
pub(super) const MOST_LOSSES: usize = 3;

/// The cases of a plan that have no result yet, by their places in the plan of all nodes.
pub(super) struct Open {
    all: usize,
    /// Places of the cases of the latest record.
    asked: Vec<usize>,
    done: HashSet<usize>,
    failed: HashSet<usize>,
}

impl Open {
    /// All of so many cases are open.
    pub(super) fn new(all: usize) -> Self {
        Self { all, asked: (0..all).collect(), done: HashSet::new(), failed: HashSet::new() }
    }

    /// Takes in what a record has of the cases that were asked for.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub(super) fn take(&mut self, directory: &Path) -> Result<(), StoreError> {
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
    pub(super) fn keep(&mut self, plan: &mut Plan) {
        let needs_all = |case: &Case| benchmarks::backend_of(case).is_some_and(|backend| backend.about().launched);
        let cases = std::mem::take(&mut plan.cases).into_iter().enumerate();
        let kept = cases.filter(|(place, case)| !self.done.contains(place) && !needs_all(case));
        (self.asked, plan.cases) = kept.unzip();
    }

    /// Cases that neither have a result nor failed.
    pub(super) fn not_run(&self) -> usize {
        (0..self.all).filter(|place| !self.done.contains(place) && !self.failed.contains(place)).count()
    }
}

/// What the records of a fleet do not have.
#[derive(Default)]
pub struct Missing {
    /// Hosts of the launcher without any result, and why.
    pub hosts: Vec<(HostName, String)>,
    /// Hosts that the others went on without.
    pub lost: Vec<String>,
    /// The launcher connects its ranks, which it can do once and with all of them.
    pub is_connected_once: bool,
    /// Why they could not.
    pub others_failed: Option<String>,
    /// Cases that did not run.
    pub cases: usize,
}

impl Missing {
    /// What a reader should know of cases without a result.
    pub fn note(&self) -> Option<String> {
        if let Some(why) = &self.others_failed {
            return Some(format!("the other nodes could not continue without {}: {why}", self.lost.join(", ")));
        }
        let cases = view::number::count(self.cases, "case has", "cases have");
        match (self.cases, self.lost.as_slice()) {
            (0, _) => None,
            (_, lost) if lost.len() >= MOST_LOSSES => Some(format!(
                "{cases} no result: the measurement ended when {} were lost. Run it again without them.",
                lost.join(", ")
            )),
            (_, lost) if lost.is_empty() || !self.is_connected_once => {
                Some(format!("{cases} no result: use a longer --budget."))
            }
            (_, lost) => Some(format!(
                "{cases} no result: a launcher connects its processes only once, and {0} was among them. Run it again \
                 without {0} to measure the network of the others.",
                lost.join(", ")
            )),
        }
    }
}

/// What the record of a launcher's hosts does not have.
///
/// # Errors
/// When it cannot be read, or a host has no name that a list may hold.
pub(super) fn missing(coordinator: &Coordinator, directory: &Path) -> Result<Missing, Error> {
    let Record { file, .. } = read_run(directory)?;
    let known = |host: &str| file.machine.host == host || file.hosts.iter().any(|machine| machine.host == host);
    let gone = coordinator.hosts().iter().filter(|host| !known(&host.name));
    let named = |name: &str| Ok((HostName::parse(name)?, "it was started, and has no result".to_owned()));
    let hosts = gone.map(|host| named(&host.name)).collect::<Result<Vec<_>, Error>>()?;
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
        says("4 cases have no result: a launcher connects its processes only once, and n3", note(&["n3"], true, 4));
        // PyTorch's ranks are connected again, so that only time can have been missing.
        says("1 case has no result: use a longer --budget", note(&["n3"], false, 1));
        says("1 case has no result: use a longer --budget", note(&[], true, 1));
        let three = ["n3", "n5", "n9"];
        says("4 cases have no result: the measurement ended when n3, n5, n9 were lost", note(&three, false, 4));
        let failed =
            Missing { lost: vec!["n3".to_owned()], others_failed: Some("no space".to_owned()), ..Missing::default() };
        says("the other nodes could not continue without n3: no space", failed.note());
    }
}
