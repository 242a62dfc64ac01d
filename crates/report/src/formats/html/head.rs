//! The top of a record's part of the page: warnings, title, the verdict in one sentence, how the cases ended, findings and
//! tiles.

use record::CaseLine;
use terms::{Named as _, Status};

use super::bar::{bar, shares};
use super::tiles::{Tile, tiles};
use crate::Run;
use crate::document::Tone;
use crate::document::html::{elements, heading, inline, prose};
use crate::escape::one_line;
use crate::markup::{Html, html};
use crate::page::{meta, status};
use crate::study::{Operation, banner};
use crate::words::findings::Finding;
use crate::words::verdict::verdict;
use crate::words::{damage, interleaved, peers, predicted};

/// The head of a page, with a title of this level.
pub(super) fn head(run: &Run, operations: &[Operation], found: &[Finding], level: u8) -> Html {
    let mut out = Html::new();
    for warning in damage::banners(run).into_iter().chain(banner(run.cases.iter())) {
        html!(out => "<p class=\"banner\">{}</p>", prose(&warning));
    }
    let title = one_line(&run.title);
    let title = if title.is_empty() { "Report" } else { &title };
    html!(out => "{}<p class=\"meta\">{}</p>", heading(level, &html!("{}", title)), meta(run));
    let verdict = verdict(run, operations, found);
    let class = match verdict.tone {
        Tone::Plain | Tone::Good => "verdict",
        Tone::Care => "verdict care",
        Tone::Bad => "verdict bad",
    };
    let rest = (!verdict.rest.is_empty()).then(|| html!(": {}", prose(&verdict.rest)));
    html!(out => "<p class=\"{}\"><strong>{}</strong>{}.</p>", class, verdict.word, rest);
    out += share(run, verdict.tone);
    out += plan(run);
    out += runtimes(operations);
    out += comparison(run);
    out += predictions(run);
    out += cards(found);
    out += glance(&tiles(run, operations));
    out
}

/// How the runtimes compare, where the run measured both.
fn runtimes(operations: &[Operation]) -> Html {
    let lines = peers::runtimes_of(operations);
    lines.iter().map(|line| html!("<p class=\"runtimes\">{}</p>", prose(line))).collect()
}

/// What was predicted of the cases, beside what was measured.
fn predictions(run: &Run) -> Html {
    let blocks = predicted::blocks(run);
    if blocks.is_empty() { Html::new() } else { html!("<h2>{}</h2>{}", predicted::TITLE, elements(&blocks)) }
}

/// What an interleaved comparison found, case by case.
fn comparison(run: &Run) -> Html {
    let blocks = interleaved::blocks(run);
    if blocks.is_empty() { Html::new() } else { html!("<h2>Comparison</h2>{}", elements(&blocks)) }
}

/// How the cases ended, as a bar and in words. The colour of what is all right is that of the verdict: a bar in green below a
/// warning would contradict it.
fn share(run: &Run, tone: Tone) -> Html {
    if interleaved::verdict(run).is_some() {
        let bar = bar(|word| interleaved::count_verdict(run, word));
        return html!("{}<p class=\"meta\">{}</p>", bar, inline(&status(run)));
    }
    let all_ok = run.cases.iter().all(|case| case.status == Status::Ok && !case.lacks_trials());
    let ok = match tone {
        Tone::Plain | Tone::Good => "ok",
        Tone::Care => "ok care",
        Tone::Bad if all_ok => "ok bad",
        // The cases that are not ok have the colour.
        Tone::Bad => "ok quiet",
    };
    let parts =
        [(Status::Ok, ok), (Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "undone")];
    let status_of = |case: &CaseLine| if case.lacks_trials() { Status::NotRun } else { case.status };
    let number = |status: Status| run.cases.iter().filter(|case| status_of(case) == status).count();
    let bar = shares(&parts.map(|(status, class)| (class, number(status))));
    html!("{}<p class=\"meta\">{}{}</p>", bar, inline(&status(run)), skipped(run))
}

/// What the plan says of itself: a case that was left out has no status.
fn plan(run: &Run) -> Html {
    let notes = run.plan_notes.iter().map(|note| one_line(note)).filter(|note| !note.is_empty());
    notes.map(|note| html!("<p class=\"meta\">plan: {}</p>", prose(&note))).collect()
}

/// The most frequent reason of skipped cases.
fn skipped(run: &Run) -> Option<Html> {
    let skipped = run.cases.iter().filter(|case| case.status == Status::Skipped);
    let reasons: Vec<&str> = skipped.filter_map(|case| case.reason.as_deref()).collect();
    let first = reasons.first()?;
    let more = if reasons.iter().any(|reason| reason != first) { ", and others" } else { "" };
    Some(html!(" · {}", prose(&format!("{}: {first}{more}", Status::Skipped.name()))))
}

fn cards(findings: &[Finding]) -> Html {
    if findings.is_empty() {
        return Html::new();
    }
    let card = |finding: &Finding| {
        let is_said = !finding.command.is_empty();
        html!(
            "<div class=\"card\"><h3>{}</h3><p class=\"evidence\">{}</p><p>{}</p>{}</div>",
            prose(&finding.title),
            prose(&finding.evidence),
            // The actions are ours and may hold code.
            prose(&finding.action),
            is_said.then(|| html!("<pre tabindex=\"0\"><code>{}</code></pre>", finding.command))
        )
    };
    html!("<h2>What to do</h2><div class=\"cards\">{}</div>", findings.iter().map(card).collect::<Html>())
}

fn glance(tiles: &[Tile]) -> Html {
    if tiles.is_empty() {
        return Html::new();
    }
    let tile = |tile: &Tile| {
        let interval = if tile.interval.is_empty() { "no interval" } else { &tile.interval };
        html!(
            "<div class=\"tile\"><dt>{}</dt><dd class=\"value\">{}</dd><dd>{}</dd><dd class=\"of\">{}</dd></div>",
            one_line(&tile.name),
            value(&tile.value),
            one_line(interval),
            breakable(&tile.of)
        )
    };
    html!("<h2>At a glance</h2><dl class=\"tiles\">{}</dl>", tiles.iter().map(tile).collect::<Html>())
}

/// Text that breaks inside names of options (`compute_only:size=sharded`), before it breaks inside their words.
fn breakable(text: &str) -> Html {
    let text = one_line(text);
    let parts = text.split_inclusive([':', '=', '_']).map(|part| match part.ends_with([':', '=', '_']) {
        true => html!("{}<wbr>", part),
        false => html!("{}", part),
    });
    parts.collect()
}

/// A number as large as the tile allows, and its unit smaller behind it.
fn value(text: &str) -> Html {
    let text = one_line(text);
    match text.split_once(' ') {
        Some((number, unit)) => html!("{} <small>{}</small>", number, unit),
        None => html!("{}", text),
    }
}
