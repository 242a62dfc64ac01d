//! What a run comes to, in one sentence.

use record::{CaseLine, Caveat, RunEnd};
use terms::Status;

use super::explained::explained_job;
use super::findings::{self, Finding, FindingTopic};
use super::results::{is_planned, shows_time};
use super::{facts, interleaved};
use crate::Run;
use crate::document::Tone;
use crate::escape::one_line;
use crate::number::{count, list};
use crate::study::Operation;

/// How the verdict of a comparison is drawn.
pub(crate) fn tone_of(verdict: &str) -> Tone {
    match verdict {
        "worse" => Tone::Bad,
        "better" | "same" => Tone::Good,
        _ => Tone::Care,
    }
}

/// What the run comes to.
pub(crate) struct RunVerdict {
    pub(crate) tone: Tone,
    /// In a few words.
    pub(crate) word: String,
    /// What it follows from; may be empty.
    pub(crate) rest: String,
}

/// The verdict of a run's page as a sentence.
pub fn verdict_sentence(run: &Run) -> String {
    let operations = crate::study::operations(&run.cases, &run.benchmarks);
    let found = verdict(run, &operations, &super::findings::findings(run, &operations));
    let rest = if found.rest.is_empty() { String::new() } else { format!(": {}", found.rest) };
    format!("{}{rest}.", found.word)
}

/// Right results and a sound machine are healthy; then what limits it, where the data show it.
pub(crate) fn verdict(run: &Run, operations: &[Operation], findings: &[Finding]) -> RunVerdict {
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
    // In few words what became of a run that did not come to its end.
    let (end, unfinished) = match run.end {
        RunEnd::Ended => (None, "Interrupted"),
        RunEnd::Interrupted(_) => (run.end.phrase(), "Interrupted"),
        RunEnd::Killed => (Some("the record has no end".to_owned()), "Killed before its end"),
        RunEnd::Running => (Some("the run is not over".to_owned()), "Still running"),
        RunEnd::Unknown => (run.end.phrase(), "Not known to have ended"),
        RunEnd::Part => (run.end.phrase(), "Not complete"),
    };
    troubles.extend(end);
    let cut = run.imported.iter().any(|of| of.cut);
    if cut {
        troubles.push("the imported file has no end: its run was stopped, or the file was cut off".to_owned());
    }
    if let Some(job) = explained_job(run) {
        // What limited a job that failed is said of the steps until then.
        let tone = match troubles.is_empty() {
            true if job.findings.is_empty() => Tone::Good,
            // What is small or an estimate alone is worth reading, and no alarm.
            true if !super::findings::loses_time(run, job) => Tone::Care,
            _ => Tone::Bad,
        };
        return RunVerdict {
            tone,
            word: one_line(job.verdict.trim().trim_end_matches('.')),
            rest: troubles.join("; "),
        };
    }
    // What limits two sides is not what their comparison found.
    let compared = interleaved::verdict(run);
    let limit = compared.as_ref().map(|(_, rest)| rest.clone()).or_else(|| limited(run, operations));
    let planned = run.cases.iter().filter(|case| is_planned(case)).count();
    if planned > 0 && timed == 0 && troubles.is_empty() {
        let rest = "all figures are computed from the plan";
        return RunVerdict { tone: Tone::Good, word: "Planned, not measured".into(), rest: rest.into() };
    }
    if run.cases.is_empty() || timed == 0 && troubles.is_empty() {
        let rest = if run.cases.is_empty() { "the record has no case" } else { "every case was skipped" };
        return RunVerdict { tone: Tone::Bad, word: "Nothing was measured".into(), rest: rest.into() };
    }
    if !troubles.is_empty() {
        let word = match () {
            () if wrong > 0 => "Not usable as it is",
            () if failed > 0 => "Not complete",
            () if run.end.phrase().is_some() || open + lacking > 0 || cut => unfinished,
            () => "Below what was asked for",
        };
        troubles.extend(limit);
        return RunVerdict { tone: Tone::Bad, word: word.into(), rest: troubles.join("; ") };
    }
    if let Some((word, rest)) = compared {
        return RunVerdict { tone: tone_of(word), word: interleaved::title_of(word), rest };
    }
    let all_checked = run.cases.iter().filter(|case| case.status == Status::Ok).all(|case| case.wrong == Some(0));
    let all_imported = run.cases.iter().all(|case| case.caveats.contains(&Caveat::Imported));
    let first = |kind: FindingTopic| findings.iter().find(|finding| finding.kind == kind);
    let (slow, steps) = (first(FindingTopic::Slow), first(FindingTopic::Steps));
    let (below, scaling) = (first(FindingTopic::Below), first(FindingTopic::Scaling));
    let (disturbed, uncertain) = (first(FindingTopic::Disturbed), first(FindingTopic::Uncertain));
    let untimed = !all_imported && !run.cases.iter().any(|case| shows_time(run, case));
    let (tone, word) = match () {
        () if run.cases.iter().all(|case| case.simulated) => (Tone::Good, "Simulated, not measured"),
        // What follows is said of the fault, and not of the machine.
        () if run.cases.iter().any(|case| case.caveats.contains(&Caveat::Injected)) => {
            (Tone::Care, "Measured with an injected fault")
        }
        () if all_checked && untimed => (Tone::Good, "Results are right"),
        // Right results of a machine that others use are no reason to go on, and no evidence for what follows.
        () if all_checked && disturbed.is_some() => (Tone::Care, "Results are right, times are disturbed"),
        () if all_checked && uncertain.is_some() => (Tone::Care, "Results are right, times are uncertain"),
        () if slow.is_some() => (Tone::Bad, "A part of the machine is slow"),
        () if below.is_some() => (Tone::Care, "Below what this hardware gives"),
        () if scaling.is_some() => (Tone::Care, "Scaling is below good"),
        () if steps.is_some() => (Tone::Care, "Steps lose time"),
        // Of its machine nothing was seen.
        () if all_imported && all_checked => (Tone::Good, "Measured by another program, which found no wrong result"),
        () if all_imported => (Tone::Care, "Measured by another program, and no result was checked"),
        () if all_checked => (Tone::Good, "Healthy"),
        () => (Tone::Care, "Measured, but not every result was checked"),
    };
    let in_part = run.cases.iter().any(|case| case.caveats.contains(&Caveat::PartlyChecked));
    let right = if in_part { "every compared result is right" } else { "every result is right" };
    let right =
        (all_checked && !all_imported && !untimed && disturbed.or(uncertain).is_none()).then(|| right.to_owned());
    // How it scales stands in its finding; that several limits hold is said of all.
    // In the order of the findings, which is that of what is lost.
    let is_named = |finding: &&Finding| match finding.kind {
        FindingTopic::Disturbed => disturbed == Some(finding),
        FindingTopic::Uncertain => disturbed.is_none() && uncertain == Some(finding),
        FindingTopic::Slow => slow == Some(finding),
        FindingTopic::Below | FindingTopic::Scaling | FindingTopic::Steps => true,
        _ => false,
    };
    let named =
        findings.iter().filter(is_named).map(|finding| within(finding.in_full.as_ref().unwrap_or(&finding.title)));
    let limit = limit.into_iter().filter(|_| disturbed.or(uncertain).is_none());
    let said = untimed.then(|| answer(run, operations)).flatten();
    let rest: Vec<String> = named.chain(said).chain(limit).chain(right).collect();
    RunVerdict { tone, word: word.into(), rest: rest.join("; ") }
}

/// What the first section found last, such as the largest batch that fits.
fn answer(run: &Run, operations: &[Operation]) -> Option<String> {
    let first = operations.first()?;
    let found = run.views.for_section(first)?.findings(first)?;
    Some(within(one_line(&found.last()?.text).trim_end_matches('.')))
}

/// A title as a part of a sentence.
fn within(title: &str) -> String {
    match title.split_once(' ') {
        Some((word @ ("The" | "Rank" | "Ranks" | "Whether" | "No"), rest)) => {
            format!("{} {rest}", word.to_lowercase())
        }
        _ => title.to_owned(),
    }
}

/// What limits the run: bandwidth of memory or of caches.
fn limited(run: &Run, operations: &[Operation]) -> Option<String> {
    // The finding below names the same.
    let bound = |operation: &Operation| Some((operation.name.clone(), findings::limits::bound(run, operation)?.of));
    let all: Vec<(String, facts::BytesFrom)> = operations.iter().filter_map(bound).collect();
    let (_, first) = all.first()?;
    // What is true of some alone is said in the sentences below.
    let of = if all.iter().all(|(_, of)| of == first) { *first } else { facts::BytesFrom::Unknown };
    let more = all.len().saturating_sub(3);
    let mut shown: Vec<String> = all.iter().take(3).map(|(name, _)| one_line(name)).collect();
    shown.extend((more > 0).then(|| format!("{more} more")));
    let verb = if all.len() == 1 { "is" } else { "are" };
    Some(format!("{} {verb} {} at large sizes", list(&shown), of.bound()))
}
