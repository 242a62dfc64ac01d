//! What becomes of a plan's cases on this machine: the same admission that a run makes, without running anything.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use benchmarks::Host;
use record::{BackendState, Case, Plan};
use runner::Admission;
use serde_json::{Value, json};
use survey::{Finding, State};
use terms::Bytes;

use crate::trust;

/// The group of the rows that the survey has of backends.
pub const BACKENDS: &str = "backends";

/// What would happen.
pub struct Outlook {
    /// The plan's file.
    pub file: String,
    /// Cases of the plan.
    pub cases: usize,
    /// Cases that would not run: each case's identity and name, and the reason.
    pub skipped: Vec<Skipped>,
    /// Cases that nothing can be said about without running what the plan names.
    pub not_looked_at: Vec<Skipped>,
    /// What the plan says of itself: what another tool's configuration became, and what was left out of it.
    pub notes: Vec<String>,
}

/// What may be run to say more of a plan.
pub struct Trust<'a> {
    /// Whatever the plan names.
    pub whole: bool,
    /// This Python, which the user named.
    pub python: Option<&'a Path>,
}

/// A case that would not run.
pub struct Skipped {
    /// The identity of the case.
    pub id: String,
    /// What tells it from the plan's others.
    pub name: String,
    /// Why it would not run.
    pub reason: String,
}

/// Asks for each case whether it would run. A backend that gives wrong answers runs nothing.
pub fn outlook(
    file: String,
    plan: &Plan,
    host: &Host,
    rows: &[Finding],
    trust: &Trust<'_>,
    torch_states: impl Fn(&Plan) -> Vec<BackendState>,
) -> Outlook {
    let found = |library: &str| rows.iter().any(|row| row.library.as_deref() == Some(Path::new(library)));
    let refusal = |case: &Case| {
        // A case that is skipped whatever this machine has needs no look.
        if trust.whole || case.skip.is_some() { None } else { trust::refusal(case, trust.python, found) }
    };
    let not_looked_at = list(plan, refusal);
    let looked_at = match not_looked_at.as_slice() {
        [] => Cow::Borrowed(plan),
        refused => {
            let refused: HashSet<&str> = refused.iter().map(|skipped| skipped.id.as_str()).collect();
            let mut others = plan.clone();
            others.cases.retain(|case| !refused.contains(case.id.as_str()));
            Cow::Owned(others)
        }
    };
    let torches = torch_states(&looked_at);
    let mut admission = Admission::new(host);
    let reason = |case: &Case| {
        if let Err(reason) = admission.admit(case) {
            return Some(reason);
        }
        if benchmarks::is_pytorch(case) {
            return lacks(case, &torches);
        }
        let row = row_of(case, rows)?;
        match row.state {
            State::Misconfigured => Some(format!("{} fails its known-answer test", said(row))),
            State::Missing => Some(format!("{} is not ready: {}", said(row), row.found)),
            State::Ready | State::Slow => None,
        }
    };
    Outlook { cases: plan.cases.len(), not_looked_at, ..Outlook::new(file, &looked_at, reason) }
}

/// What was found of the library that the case names; else of its backend.
fn row_of<'a>(case: &Case, rows: &'a [Finding]) -> Option<&'a Finding> {
    if let Some(library) = benchmarks::library_of(case) {
        return rows.iter().find(|row| row.library.as_deref() == Some(Path::new(library)));
    }
    let backend = case.backend().map(terms::normalize)?;
    rows.iter().find(|row| row.group == BACKENDS && terms::normalize(&row.name) == backend)
}

fn said(row: &Finding) -> String {
    format!("{} `{}`", if row.group == BACKENDS { "backend" } else { "library" }, row.name)
}

/// What is missing in the case's Python.
fn lacks(case: &Case, torches: &[BackendState]) -> Option<String> {
    let name = format!("pytorch/{}", case.backend()?);
    let own = |state: &&BackendState| state.name == name && state.library.as_deref() == benchmarks::library_of(case);
    let state = torches.iter().find(own).filter(|state| !state.ready)?;
    Some(format!("backend `{name}` is not ready: {}", state.why.as_deref().unwrap_or("no reason is known")))
}

/// What tells a case from the plan's others, for people: `collective all_reduce shm 4 ranks 64.0 MiB`. Its subject and its
/// backend are named always.
fn name(case: &Case, varying: &HashSet<(&str, &str)>) -> String {
    let mut parts = vec![case.benchmark.clone()];
    let words = case.parameters.iter().enumerate().filter_map(|(place, (name, value))| {
        let word = value.as_str()?;
        let tells = place == 0 || case.backend() == Some(word) || varying.contains(&(case.benchmark.as_str(), name));
        tells.then(|| word.to_owned())
    });
    parts.extend(words);
    let ranks = case.ranks();
    parts.push(format!("{ranks} {}", if ranks == 1 { "rank" } else { "ranks" }));
    parts.extend(case.bytes().map(|bytes| Bytes(bytes).about()));
    parts.join(" ")
}

/// Fields that do not have one value in all cases of their benchmark: each with the benchmark.
fn varying(plan: &Plan) -> HashSet<(&str, &str)> {
    let mut first: HashMap<&str, &Case> = HashMap::new();
    let mut found = HashSet::new();
    for case in &plan.cases {
        let first = first.entry(&case.benchmark).or_insert(case);
        let names = case.parameters.keys().chain(first.parameters.keys());
        let differs = |name: &&str| case.parameters.get(name) != first.parameters.get(name);
        found.extend(names.filter(differs).map(|name| (case.benchmark.as_str(), name)));
    }
    found
}

impl Outlook {
    /// Asks for each case, in the plan's order, why it would not run; None: it would.
    pub fn new(file: String, plan: &Plan, reason: impl FnMut(&Case) -> Option<String>) -> Self {
        let (cases, notes) = (plan.cases.len(), plan.notes.clone());
        Self { file, cases, skipped: list(plan, reason), not_looked_at: Vec::new(), notes }
    }

    /// Cases that would run.
    pub fn runs(&self) -> usize {
        self.cases - self.skipped.len() - self.not_looked_at.len()
    }

    /// Reasons of cases that would not run, see [`by_reason`].
    pub fn by_reason(&self) -> Vec<(&str, Vec<&str>)> {
        by_reason(&self.skipped)
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "file": self.file,
            "cases": self.cases,
            "run": self.runs(),
            "skipped": self.skipped.iter().map(Skipped::json).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Skipped {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "id": self.id, "case": self.name, "reason": self.reason })
    }
}

/// Cases for which there is a reason, in the plan's order.
fn list(plan: &Plan, mut reason: impl FnMut(&Case) -> Option<String>) -> Vec<Skipped> {
    let varying = varying(plan);
    let skipped = plan.cases.iter().filter_map(|case| Some((case, reason(case)?)));
    skipped.map(|(case, reason)| Skipped { id: case.id.clone(), name: name(case, &varying), reason }).collect()
}

/// Reasons in the order in which they first occur, with the names of their cases.
pub fn by_reason(cases: &[Skipped]) -> Vec<(&str, Vec<&str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for case in cases {
        let place = *places.entry(&case.reason).or_insert(reasons.len());
        if place == reasons.len() {
            reasons.push((&case.reason, Vec::new()));
        }
        reasons[place].1.push(&case.name);
    }
    reasons
}
