//! The head of a report, and facts about the run.

use record::Caveat;
use record::found::{SENSORS, Sensors};
use terms::{Named as _, Status};

use crate::Run;
use crate::document::{Block, Item, Words, bullets, code, strong, strong_title};
use crate::escape::one_line;
use crate::number::{NONE, count};
use crate::study::{Operation, banner};
use crate::words::findings::Finding;
use crate::words::verdict::{RunVerdict, verdict};
use crate::words::{damage, imported, labels, peers};

pub(super) fn head(run: &Run, operations: &[Operation], found: &[Finding]) -> Vec<Block> {
    let title = Words::from(run.title.as_str());
    let mut blocks = vec![Block::Heading(1, if title.is_empty() { "Report".into() } else { title })];
    blocks.extend(warnings(run));
    let meta = Words::from(meta(run));
    blocks.extend((!meta.is_empty()).then_some(Block::Paragraph(meta)));
    blocks.push(Block::Paragraph(verdict_line(&verdict(run, operations, found))));
    blocks.push(Block::Paragraph(status(run)));
    blocks.extend(run.plan_notes.iter().map(|note| Block::Paragraph(Words::prose(note).behind("Plan: "))));
    blocks.extend(peers::runtimes_of(operations).iter().map(|line| Block::Paragraph(Words::prose(line))));
    blocks
}

/// Date, machine, program, launcher and tags, in a line.
pub(crate) fn meta(run: &Run) -> String {
    let by = run.started_by.as_ref().map(|by| format!("started by {by}")).unwrap_or_default();
    let tags = if run.labels.tags.is_empty() { String::new() } else { format!("tags {}", run.labels.tags.join(", ")) };
    let parts = [run.started.clone(), run.machine.clone(), by, run.program.clone(), tags];
    let parts: Vec<String> = parts.iter().map(|part| one_line(part)).filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// What else is known of the run and its machine.
pub(super) fn facts(run: &Run) -> Vec<Block> {
    let text = |name, value: &str| (name, Words::prose(value));
    let mut facts = vec![
        text("Machine", &run.machine),
        text("Sensors", &sensors(run)),
        text("Limits", &run.profiles.join("; ")),
        text("Merged from", &run.merged.join("; ")),
        text("Imported", &imported::line(run)),
        text("Record", &run.notes.join("; ")),
    ];
    facts.extend(labels::facts(&run.labels).map(|(name, value)| text(name, &value)));
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    bullets(facts.map(|(name, value)| value.behind(&format!("{name}: "))))
}

/// The verdict as a line.
pub(crate) fn verdict_line(verdict: &RunVerdict) -> Words {
    let rest = if verdict.rest.is_empty() { String::new() } else { format!(": {}", verdict.rest) };
    Words::prose(&format!("{}{rest}.", strong(&verdict.word)))
}

/// What to do, the most important first.
pub(crate) fn to_do(found: &[Finding]) -> Vec<Block> {
    let item = |of: &Finding| {
        let command = (!of.command.is_empty()).then(|| Words::from(code(&of.command)));
        let below = [Words::prose(&of.evidence), Words::prose(&of.action)];
        let below = below.into_iter().chain(command).filter(|words| !words.is_empty()).collect();
        Item { words: strong_title(&of.title).into(), below }
    };
    let items: Vec<Item> = found.iter().map(item).collect();
    if items.is_empty() { Vec::new() } else { vec![Block::List(items)] }
}

/// What no reader may miss.
pub(crate) fn warnings(run: &Run) -> impl Iterator<Item = Block> {
    let all = damage::banners(run).into_iter().chain(banner(run.cases.iter()));
    all.map(|warning| Block::Warning(strong_title(&warning).into()))
}

/// What the machine's sensors showed while cases ran: the hottest, the slowest clock, medians of power and utilization.
pub(crate) fn sensors(run: &Run) -> String {
    let looks: Vec<Sensors> = run.cases.iter().filter_map(|case| SENSORS.of(case)).collect();
    let median = |of: fn(&Sensors) -> Option<f64>| {
        let values: Vec<f64> = looks.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| stats::median(&values))
    };
    let hottest = looks.iter().filter_map(|look| look.temperature_c).max_by(f64::total_cmp);
    let slowest = looks.iter().filter_map(|look| look.clock_mhz).min_by(f64::total_cmp);
    let parts = [
        hottest.map(|degrees| format!("up to {degrees:.0} °C")),
        slowest.map(|mhz| format!("slowest core at {mhz:.0} MHz")),
        median(|look| look.power_w).map(|watts| format!("{watts:.0} W")),
        median(|look| look.utilization).map(|share| format!("{} of all cores busy", crate::number::percent(share))),
    ];
    parts.into_iter().flatten().chain(device_sensors(&looks)).collect::<Vec<_>>().join(", ")
}

/// What sensors say of the devices that ranks worked on: how many, the hottest, the slowest clock, and what held clocks down.
fn device_sensors(looks: &[Sensors]) -> Option<String> {
    let looks = || looks.iter().flat_map(|look| &look.devices);
    let devices: std::collections::BTreeSet<u32> = looks().map(|look| look.device).collect();
    let hottest = looks().filter_map(|look| look.temperature_c).max_by(f64::total_cmp);
    let slowest = looks().filter_map(|look| look.clock_mhz).min_by(f64::total_cmp);
    let held: std::collections::BTreeSet<&str> = looks().flat_map(|look| &look.held_by).map(String::as_str).collect();
    let held: Vec<&str> = held.into_iter().collect();
    let parts = [
        hottest.map(|degrees| format!("up to {degrees:.0} °C")),
        slowest.map(|mhz| format!("slowest clock {mhz:.0} MHz")),
        (!held.is_empty()).then(|| format!("limited by {}", held.join(", "))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}: {}", count(devices.len(), "device", "devices"), parts.join(", ")))
}

/// `12 cases: 11 ok (wrong 0 in each), 1 failed`.
pub(crate) fn status(run: &Run) -> Words {
    let of = |status: Status| run.cases.iter().filter(move |case| case.status == status && !case.lacks_trials());
    let mut parts = Vec::new();
    for (status, word) in
        [(Status::Ok, "ok"), (Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "not run")]
    {
        let number = of(status).count();
        if number == 0 {
            continue;
        }
        // Only a check that ran may be quoted.
        let checked = status == Status::Ok && of(status).all(|case| case.wrong == Some(0));
        parts.push(format!("{number} {word}{}", if checked { " (`wrong` 0 in each)" } else { "" }));
    }
    let preliminary = run.cases.iter().filter(|case| case.lacks_trials()).count();
    parts.extend((preliminary > 0).then(|| format!("{preliminary} {}", Caveat::Preliminary.name())));
    let parts = if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") };
    Words::prose(&format!("{}: {parts}", count(run.cases.len(), "case", "cases")))
}
