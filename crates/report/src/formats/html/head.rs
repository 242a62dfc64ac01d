//! The top of a record's part of the page: warnings, title, the verdict in one sentence, how the cases ended, findings and
//! tiles.

use std::fmt::Write as _;

use record::{CaseLine, Caveat, RunEnd};
use terms::{Named as _, Status};

use super::findings::{Finding, findings};
use super::tiles::{Tile, tiles};
use crate::document::Words;
use crate::document::html::inline;
use crate::escape::{one_line, xml as escape};
use crate::number::{count, list, percent};
use crate::page::status;
use crate::study::{Operation, banner};
use crate::{Run, words::damage, words::facts};

/// All of it.
pub(super) fn head(run: &Run, operations: &[Operation], heading: &str) -> String {
    let found = findings(run, operations);
    let mut out = String::new();
    for warning in damage::banners(run).into_iter().chain(banner(run.cases.iter())) {
        let _ = write!(out, "<p class=\"banner\">{}</p>", escape(&warning));
    }
    let title = one_line(&run.title);
    let title = if title.is_empty() { "Report".to_owned() } else { title };
    let _ = write!(out, "<{heading}>{}</{heading}><p class=\"meta\">{}</p>", escape(&title), escape(&meta(run)));
    let verdict = verdict(run, operations, &found);
    let class = if verdict.good { "verdict" } else { "verdict bad" };
    let rest = if verdict.rest.is_empty() { String::new() } else { format!(": {}", escape(&verdict.rest)) };
    let _ = write!(out, "<p class=\"{class}\"><strong>{}</strong>{rest}.</p>", escape(&verdict.word));
    out + &share(run) + &plan(run) + &cards(&found) + &glance(&tiles(run, operations))
}

/// Date, machine, program, launcher and tags, in a line.
fn meta(run: &Run) -> String {
    let by = run.started_by.as_ref().map(|by| format!("started by {by}")).unwrap_or_default();
    let tags = if run.labels.tags.is_empty() { String::new() } else { format!("tags {}", run.labels.tags.join(", ")) };
    let parts = [run.started.clone(), run.machine.clone(), by, run.program.clone(), tags];
    let parts: Vec<String> = parts.iter().map(|part| one_line(part)).filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// What the run comes to.
struct Verdict {
    good: bool,
    word: String,
    rest: String,
}

/// Right results and a sound machine are healthy; then what limits it, where the data show it.
fn verdict(run: &Run, operations: &[Operation], findings: &[Finding]) -> Verdict {
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

/// How the cases ended, as a bar and in words.
fn share(run: &Run) -> String {
    let total = run.cases.len().max(1) as f64;
    let (mut bar, mut begin) = (String::new(), 0.0);
    for (status, class) in
        [(Status::Ok, "ok"), (Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "open")]
    {
        let status_of = |case: &CaseLine| if case.lacks_trials() { Status::NotRun } else { case.status };
        let width = run.cases.iter().filter(|case| status_of(case) == status).count() as f64 / total * 1000.0;
        if width > 0.0 {
            let _ = write!(bar, "<rect class=\"{class}\" x=\"{begin:.1}\" width=\"{width:.1}\" height=\"6\"/>");
            begin += width;
        }
    }
    let words = inline(&status(run));
    format!(
        "<svg class=\"share\" viewBox=\"0 0 1000 6\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{bar}</svg><p class=\"meta\">{words}{}</p>",
        escape(&skipped(run))
    )
}

/// What the plan says of itself: a case that was left out has no status.
fn plan(run: &Run) -> String {
    let notes = run.plan_notes.iter().map(|note| one_line(note)).filter(|note| !note.is_empty());
    notes.map(|note| format!("<p class=\"meta\">plan: {}</p>", escape(&note))).collect()
}

/// The most frequent reason of skipped cases.
fn skipped(run: &Run) -> String {
    let skipped = run.cases.iter().filter(|case| case.status == Status::Skipped);
    let reasons: Vec<&str> = skipped.filter_map(|case| case.reason.as_deref()).collect();
    let Some(first) = reasons.first() else { return String::new() };
    let more = if reasons.iter().any(|reason| reason != first) { ", and others" } else { "" };
    format!(" · {}: {}{more}", Status::Skipped.name(), one_line(first))
}

fn cards(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let card = |finding: &Finding| {
        let command = if finding.command.is_empty() {
            String::new()
        } else {
            format!("<pre tabindex=\"0\"><code>{}</code></pre>", escape(&finding.command))
        };
        format!(
            "<div class=\"card\"><h3>{}</h3><p class=\"evidence\">{}</p><p>{}</p>{command}</div>",
            escape(&finding.title),
            escape(&finding.evidence),
            // The actions are ours and may hold code.
            inline(&Words::prose(&finding.action))
        )
    };
    format!("<h2>What to do</h2><div class=\"cards\">{}</div>", findings.iter().map(card).collect::<String>())
}

fn glance(tiles: &[Tile]) -> String {
    if tiles.is_empty() {
        return String::new();
    }
    let tile = |tile: &Tile| {
        let interval = if tile.interval.is_empty() { "no interval" } else { &tile.interval };
        format!(
            "<div class=\"tile\"><dt>{}</dt><dd class=\"value\">{}</dd><dd>{}</dd><dd class=\"of\">{}</dd></div>",
            escape(&one_line(&tile.name)),
            escape(&one_line(&tile.value)),
            escape(&one_line(interval)),
            escape(&one_line(&tile.of))
        )
    };
    format!("<h2>At a glance</h2><dl class=\"tiles\">{}</dl>", tiles.iter().map(tile).collect::<String>())
}
