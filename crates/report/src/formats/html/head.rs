//! The top of a record's part of the page: warnings, title, the verdict in one sentence, how the cases ended, findings and
//! tiles.

use std::fmt::Write as _;

use record::CaseLine;
use terms::{Named as _, Status};

use super::bar::bar;
use super::tiles::{Tile, tiles};
use crate::Run;
use crate::document::html::{html, inline, prose};
use crate::escape::{one_line, xml as escape};
use crate::page::{meta, status};
use crate::study::{Operation, banner};
use crate::words::findings::Finding;
use crate::words::verdict::{Tone, verdict};
use crate::words::{damage, interleaved, peers};

/// All of it.
pub(super) fn head(run: &Run, operations: &[Operation], found: &[Finding], heading: &str) -> String {
    let mut out = String::new();
    for warning in damage::banners(run).into_iter().chain(banner(run.cases.iter())) {
        let _ = write!(out, "<p class=\"banner\">{}</p>", prose(&warning));
    }
    let title = one_line(&run.title);
    let title = if title.is_empty() { "Report".to_owned() } else { title };
    let _ = write!(out, "<{heading}>{}</{heading}><p class=\"meta\">{}</p>", escape(&title), escape(&meta(run)));
    let verdict = verdict(run, operations, found);
    let class = match verdict.tone {
        Tone::Good => "verdict",
        Tone::Care => "verdict care",
        Tone::Bad => "verdict bad",
    };
    let rest = if verdict.rest.is_empty() { String::new() } else { format!(": {}", prose(&verdict.rest)) };
    let _ = write!(out, "<p class=\"{class}\"><strong>{}</strong>{rest}.</p>", escape(&verdict.word));
    out + &share(run, verdict.tone)
        + &plan(run)
        + &runtimes(operations)
        + &comparison(run)
        + &cards(found)
        + &glance(&tiles(run, operations))
}

/// How the runtimes compare, where the run measured both.
fn runtimes(operations: &[Operation]) -> String {
    let lines = peers::runtimes_of(operations);
    lines.iter().map(|line| format!("<p class=\"runtimes\">{}</p>", prose(line))).collect()
}

/// What an interleaved comparison found, case by case.
fn comparison(run: &Run) -> String {
    let blocks = interleaved::blocks(run);
    if blocks.is_empty() { String::new() } else { format!("<h2>Comparison</h2>{}", html(&blocks)) }
}

/// How the cases ended, as a bar and in words. The colour of what is all right is that of the verdict: a bar in green below a
/// warning would contradict it.
fn share(run: &Run, tone: Tone) -> String {
    if interleaved::verdict(run).is_some() {
        return format!("{}<p class=\"meta\">{}</p>", bar(|word| interleaved::number(run, word)), inline(&status(run)));
    }
    let all_ok = run.cases.iter().all(|case| case.status == Status::Ok && !case.lacks_trials());
    let ok = match tone {
        Tone::Good => "ok",
        Tone::Care => "ok care",
        Tone::Bad if all_ok => "ok bad",
        // The cases that are not ok have the colour.
        Tone::Bad => "ok quiet",
    };
    let total = run.cases.len().max(1) as f64;
    let (mut bar, mut begin) = (String::new(), 0.0);
    for (status, class) in
        [(Status::Ok, ok), (Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "undone")]
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
        skipped(run)
    )
}

/// What the plan says of itself: a case that was left out has no status.
fn plan(run: &Run) -> String {
    let notes = run.plan_notes.iter().map(|note| one_line(note)).filter(|note| !note.is_empty());
    notes.map(|note| format!("<p class=\"meta\">plan: {}</p>", prose(&note))).collect()
}

/// The most frequent reason of skipped cases.
fn skipped(run: &Run) -> String {
    let skipped = run.cases.iter().filter(|case| case.status == Status::Skipped);
    let reasons: Vec<&str> = skipped.filter_map(|case| case.reason.as_deref()).collect();
    let Some(first) = reasons.first() else { return String::new() };
    let more = if reasons.iter().any(|reason| reason != first) { ", and others" } else { "" };
    format!(" · {}", prose(&format!("{}: {first}{more}", Status::Skipped.name())))
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
            prose(&finding.title),
            prose(&finding.evidence),
            // The actions are ours and may hold code.
            prose(&finding.action)
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
            value(&tile.value),
            escape(&one_line(interval)),
            breakable(&tile.of)
        )
    };
    format!("<h2>At a glance</h2><dl class=\"tiles\">{}</dl>", tiles.iter().map(tile).collect::<String>())
}

/// Text that breaks inside names of options (`compute_only:size=sharded`), before it breaks inside their words.
fn breakable(text: &str) -> String {
    [':', '=', '_'].iter().fold(escape(&one_line(text)), |text, sign| text.replace(*sign, &format!("{sign}<wbr>")))
}

/// A number as large as the tile allows, and its unit smaller behind it.
fn value(text: &str) -> String {
    let text = one_line(text);
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} <small>{}</small>", escape(number), escape(unit)),
        None => escape(&text),
    }
}
