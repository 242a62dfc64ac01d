//! What becomes of a plan's cases on this machine: the same admission that a run makes, without running anything.

use std::path::Path;

use launch::survey::{Finding, State};
use record::{BackendState, Case, Plan};
use serde_json::{Value, json};
use suite::Host;
use terms::Bytes;

use crate::Failure;

/// What would happen.
pub(crate) struct Outlook {
    pub(crate) file: String,
    /// Cases of the plan.
    pub(crate) cases: usize,
    /// Those that would not run: each case's identity and name, and the reason.
    pub(crate) skipped: Vec<Skipped>,
}

pub(crate) struct Skipped {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Reads a plan, as `run` does.
pub(crate) fn load(file: &Path) -> Result<(String, Plan), Failure> {
    let mut plan = record::plan::load(file, &suite::abouts(), &[])?;
    suite::complete(&mut plan);
    Ok((file.display().to_string(), plan))
}

/// Asks for each case whether it would run. A backend that gives wrong answers runs nothing.
pub(super) fn outlook(file: String, plan: &Plan, host: &Host, backends: &[Finding]) -> Outlook {
    let torches = crate::session::torch_states(plan);
    let reason = |case: &Case| {
        if let Err(reason) = suite::admit(case, host) {
            return Some(reason);
        }
        if suite::is_pytorch(case) {
            return lacks(case, &torches);
        }
        let backend = case.text("backend").map(terms::normalize)?;
        let broken = backends.iter().find(|row| terms::normalize(&row.name) == backend)?;
        (broken.state == State::Misconfigured).then(|| format!("backend `{}` fails its known-answer test", broken.name))
    };
    Outlook::of(file, plan, reason)
}

/// What the case's Python lacks.
fn lacks(case: &Case, torches: &[BackendState]) -> Option<String> {
    let name = format!("pytorch/{}", case.text("backend")?);
    let own = |state: &&BackendState| state.name == name && state.library.as_deref() == case.text("python");
    let state = torches.iter().find(own).filter(|state| !state.ready)?;
    Some(format!("backend `{name}` is not ready: {}", state.why.as_deref().unwrap_or("no reason is known")))
}

/// What tells a case from others, for people: `collective all_reduce shm 4 ranks 64.0 MiB`.
fn name(case: &Case) -> String {
    let mut parts = vec![case.benchmark.clone()];
    parts.extend(
        ["op", "model", "strategy", "runtime", "backend"].iter().filter_map(|name| case.text(name)).map(str::to_owned),
    );
    let ranks = case.ranks();
    parts.push(format!("{ranks} {}", if ranks == 1 { "rank" } else { "ranks" }));
    parts.extend(case.whole("bytes").map(|bytes| Bytes(bytes).about()));
    parts.join(" ")
}

impl Outlook {
    /// Asks for each case, in the plan's order, why it would not run; None: it would.
    pub(crate) fn of(file: String, plan: &Plan, mut reason: impl FnMut(&Case) -> Option<String>) -> Self {
        let skipped = plan
            .cases
            .iter()
            .filter_map(|case| reason(case).map(|reason| Skipped { id: case.id.clone(), name: name(case), reason }));
        Self { file, cases: plan.cases.len(), skipped: skipped.collect() }
    }

    /// Reasons in the order in which they first occur, with the names of their cases.
    pub(crate) fn by_reason(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for skipped in &self.skipped {
            match reasons.iter_mut().find(|(reason, _)| *reason == skipped.reason) {
                Some((_, names)) => names.push(&skipped.name),
                None => reasons.push((&skipped.reason, vec![&skipped.name])),
            }
        }
        reasons
    }

    pub(crate) fn json(&self) -> Value {
        let skipped = |skipped: &Skipped| json!({ "id": skipped.id, "case": skipped.name, "reason": skipped.reason });
        json!({
            "file": self.file,
            "cases": self.cases,
            "run": self.cases - self.skipped.len(),
            "skipped": self.skipped.iter().map(skipped).collect::<Vec<_>>(),
        })
    }
}
