//! What differs between two runs apart from their times: versions, environment, machine, plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Run;
use super::run::plain;

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryDifference {
    /// What it is: `kernel`, `NCCL_ALGO`, `max_seconds`.
    pub name: String,
    /// Value in the run before; None where it had none.
    pub before: Option<String>,
    /// Value in the run after; None where it has none.
    pub after: Option<String>,
}

/// `kernel 6.1 -> 6.8`, `NCCL_ALGO set to Ring`, `NCCL_ALGO no longer set (Ring)`.
impl std::fmt::Display for HistoryDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, "{name} {before} -> {after}"),
            (None, Some(after)) => write!(f, "{name} set to {after}"),
            (Some(before), None) => write!(f, "{name} no longer set ({before})"),
            (None, None) => write!(f, "{name}"),
        }
    }
}

/// What differs between two runs: facts of the runs, then how these cases were sampled.
pub(super) fn between(before: &Run, after: &Run, ids: &[&str]) -> Vec<HistoryDifference> {
    let mut all = of_maps(&before.facts, &after.facts);
    let settings = |run: &Run| {
        let of: HashMap<&str, _> = run.cases.iter().map(|case| (&*case.id, &case.settings)).collect();
        let found = ids.iter().find_map(|id| of.get(id).copied())?;
        Some(found.iter().map(|(name, value)| (name.to_owned(), plain(value))).collect())
    };
    // A case that has another identity in one of the runs tells nothing of how it was sampled there.
    if let (Some(before), Some(after)) = (settings(before), settings(after)) {
        all.extend(of_maps(&before, &after));
    }
    all
}

fn of_maps(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<HistoryDifference> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let difference = |name: &String| HistoryDifference {
        name: name.clone(),
        before: before.get(name).cloned(),
        after: after.get(name).cloned(),
    };
    names.into_iter().filter(differs).map(difference).collect()
}
