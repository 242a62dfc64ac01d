//! What a run comes to, in one sentence.

use record::{CaseLine, Caveat, ExplainedCase, RunEnd};
use terms::Status;

use super::facts;
use super::findings::Finding;
use crate::Run;
use crate::escape::one_line;
use crate::number::{count, list, percent};
use crate::study::Operation;

/// What the run comes to.
pub(crate) struct Verdict {
    /// Nothing has to be done.
    pub(crate) good: bool,
    /// In a few words.
    pub(crate) word: String,
    /// What it follows from; may be empty.
    pub(crate) rest: String,
}

/// Right results and a sound machine are healthy; then what limits it, where the data show it.
pub(crate) fn verdict(run: &Run, operations: &[Operation], findings: &[Finding]) -> Verdict {
    let number = |holds: &dyn Fn(&CaseLine) -> bool| run.cases.iter().filter(|case| holds(case)).count();
    let wrong = number(&|case| case.wrong.unwrap_or(0) > 0);
    let failed = number(&|case| case.status == Status::Failed)
        - number(&|case| case.status == Status::Failed && case.wrong.unwrap_or(0) > 0);
    let open = number(&|case| case.status == Status::NotRun);
    let lacking = number(&CaseLine::lacks_trials);
    let missed = number(&|case| !case.gates_missed.is_empty());
    let timed = number(&|case| case.time_s.is_some());
    let cases = |number: usize| count(number, "case", "cases");
    let mut troubles: Vec<String> = Vec::new();
    for (number, what) in [
        (wrong, "gave wrong results"),
        (failed, "failed"),
        (open, "did not run"),
        (lacking, "did not make all trials"),
        (missed, "missed a gate"),
    ] {
        if number > 0 {
            troubles.push(format!("{} {what}", cases(number)));
        }
    }
    if run.end == RunEnd::Killed {
        troubles.push("the record has no end".to_owned());
    }
    if let Some(job) = explained_job(run) {
        // What limited a job that failed is said of the steps until then.
        let good = troubles.is_empty() && job.findings.is_empty();
        return Verdict { good, word: one_line(job.verdict.trim().trim_end_matches('.')), rest: troubles.join("; ") };
    }
    let limit = limited(operations);
    if run.cases.is_empty() || timed == 0 && troubles.is_empty() {
        let rest = if run.cases.is_empty() { "the record has no case" } else { "every case was skipped" };
        return Verdict { good: false, word: "Nothing was measured".into(), rest: rest.into() };
    }
    if !troubles.is_empty() {
        let word = match () {
            () if wrong > 0 => "Not usable as it is",
            () if failed > 0 => "Not complete",
            () if run.end == RunEnd::Killed => "Killed before its end",
            () if open + lacking > 0 => "Interrupted",
            () => "Below what was asked for",
        };
        troubles.extend(limit);
        return Verdict { good: false, word: word.into(), rest: troubles.join("; ") };
    }
    let all_checked = run.cases.iter().filter(|case| case.status == Status::Ok).all(|case| case.wrong == Some(0));
    let slow = findings.iter().find(|finding| finding.title.starts_with("Rank ") || finding.title.ends_with("is slow"));
    let scales = !findings.iter().any(|finding| finding.title.ends_with("of ideal"));
    let is_noise = |title: &str| title.contains("are disturbed") || title.contains("had several speeds");
    let disturbed = findings.iter().any(|finding| is_noise(&finding.title));
    let (good, word) = match () {
        () if run.cases.iter().all(|case| case.simulated) => (true, "Simulated, not measured"),
        () if slow.is_some() => (false, "A part of the machine is slow"),
        () if !scales => (false, "Scaling is below good"),
        // Right results of a machine that others use are no reason to go on.
        () if all_checked && disturbed => (false, "Results are right, times are disturbed"),
        () if all_checked => (true, "Healthy"),
        () if run.cases.iter().all(|case| case.caveats.contains(&Caveat::Imported)) => {
            (true, "Measured by another program, and not checked here")
        }
        () => (false, "Measured, but not every result was checked"),
    };
    let right = (all_checked && !disturbed).then(|| "every result is right".to_owned());
    let rest: Vec<String> = slow.map(|finding| finding.title.clone()).into_iter().chain(limit).chain(right).collect();
    Verdict { good, word: word.into(), rest: rest.join("; ") }
}

/// What limits the run: memory bandwidth, or how it scales.
fn limited(operations: &[Operation]) -> Vec<String> {
    let bound = |operation: &&Operation| {
        operation
            .configurations
            .iter()
            .any(|c| matches!(facts::limit(c), Some(facts::Limit::Bound { shares: [_, high], .. }) if high <= 1.1))
    };
    let names: Vec<&str> = operations.iter().filter(bound).map(|operation| operation.name.as_str()).collect();
    let bound = (!names.is_empty()).then(|| {
        let more = names.len().saturating_sub(3);
        let mut shown: Vec<String> = names.iter().take(3).map(|name| one_line(name)).collect();
        shown.extend((more > 0).then(|| format!("{more} more")));
        let verb = if names.len() == 1 { "is" } else { "are" };
        format!("{} {verb} bound by memory bandwidth at large sizes", list(&shown))
    });
    let efficiency = |case: &CaseLine| view::number_at(case, "scaling.efficiency");
    let scaled = operations.iter().flat_map(Operation::points).filter(|point| efficiency(point.case).is_some());
    let most = scaled.max_by(|a, b| {
        let key = |case: &CaseLine| (case.ranks, -efficiency(case).unwrap_or(0.0));
        let (a, b) = (key(a.case), key(b.case));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let scaling = most.and_then(|point| {
        let word = view::value_at(point.case, "scaling.word").map(|word| format!(" ({})", view::plain(&word)));
        let reached = percent(efficiency(point.case)?);
        Some(format!("{} reach {reached} of ideal{}", crate::study::ranks(point.case.ranks), word.unwrap_or_default()))
    });
    bound.into_iter().chain(scaling).collect()
}

/// What the traces of a job showed, where they are all that the record has: nobody checked results, and no other case ran.
pub(crate) fn explained_job(run: &Run) -> Option<&ExplainedCase> {
    let [line] = run.cases.as_slice() else { return None };
    let [of] = run.explained.as_ref()?.cases.as_slice() else { return None };
    let is_all = of.case == line.id && line.wrong.is_none() && !line.simulated && !of.verdict.trim().is_empty();
    is_all.then_some(of)
}
