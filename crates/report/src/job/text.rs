//! An explanation as a person reads it in a terminal.

use diagnose::profile::{Analysis, DifferenceOf, FindingKind, ProfileDifference, ProfileFinding, Waterfall as Losses};
use terms::text::sentence;
use terms::{Bytes, Seconds};
use view::number::{NONE, percent};

use super::kept::{evidence, first_sentences, recording};
use super::step_parts::StepParts;
use super::{Explanation, Target, calls, kernel};
use crate::document::{Advice, Bars, Block, Column, Document, Table, TableRow, Tone, Words};
use crate::words::traffic;

/// A mean that is so far from the median is shown beside it: some steps take much longer than the others.
const UNEVEN: f64 = 0.05;
/// Findings that are shown; the record has all.
const FINDINGS: usize = 3;
/// Ranks with a bar.
const BARS: usize = 64;
/// Operations that are listed.
const OPERATIONS: usize = 8;

/// What limits the steps, and what to do about it.
pub fn explained(one: &Explanation, target: Target) -> Document {
    let analysis = &one.analysis;
    let line = |text: String| Block::Paragraph(text.into());
    let mut blocks = vec![Block::Heading(2, format!("profile {}", one.title).into()), line(header(one))];
    blocks.extend(recording(one).map(line));
    blocks.extend(bars(analysis));
    let hangs = one.hangs.iter().skip(1).map(|hang| sentence(hang));
    let said: Vec<String> = first_sentences(one).into_iter().chain(hangs).collect();
    blocks.extend(said.iter().enumerate().map(|(at, text)| match at {
        0 => Block::Verdict(Tone::Plain, Words::prose(text)),
        _ => Block::Paragraph(Words::prose(text)),
    }));
    let findings: Vec<&ProfileFinding> = analysis.findings.iter().filter(|finding| belongs(finding, target)).collect();
    blocks.extend(findings.iter().take(FINDINGS).enumerate().map(|(at, finding)| advice(at + 1, finding)));
    if let Some(more) = findings.len().checked_sub(FINDINGS).filter(|more| *more > 0) {
        let more = view::number::count(more, "more finding is", "more findings are");
        blocks.push(line(format!("{more} in the report")));
    }
    if target.shows(Target::SyncStalls) || target.shows(Target::Overlap) {
        blocks.extend(communication(analysis));
        blocks.extend(calls::blocks(analysis));
    }
    blocks.extend(one.waterfall.iter().flat_map(losses_of));
    blocks.extend(one.notes.iter().chain(&analysis.notes).map(|note| Block::Note(Words::prose(note))));
    Document { title: one.title.clone(), blocks }
}

fn advice(number: usize, finding: &ProfileFinding) -> Block {
    Block::Advice(Advice {
        number,
        what: Words::prose(&sentence(&finding.what)),
        evidence: format!("{}; confidence {}", evidence(finding), finding.confidence.word).into(),
        action: Words::prose(&finding.advice),
    })
}

fn header(one: &Explanation) -> String {
    let steps = &one.analysis.steps;
    let numbers = match steps.numbers.as_slice() {
        [] => String::new(),
        [one] => format!(" (number {one})"),
        [first, .., last] => format!(" (between {first} and {last})"),
    };
    let time = match (steps.step.mean.map(|_| steps.mean_s()), steps.step.median) {
        (Some(mean), Some(median)) if (mean / median - 1.0).abs() >= UNEVEN => {
            format!(", a step takes {} on average and {} in the median", Seconds(mean), Seconds(median))
        }
        (Some(mean), _) => format!(", a step takes {}", Seconds(mean)),
        _ => String::new(),
    };
    let world = one.analysis.world.filter(|world| *world != one.ranks);
    let of = world.map_or(String::new(), |world| format!(" of {world}"));
    let ranks = view::study::ranks(one.ranks);
    let number = match steps.numbers.len() {
        0 => "no steps".to_owned(),
        number => view::number::count(number, "step", "steps"),
    };
    format!("{ranks}{of}, {number}{numbers}{time}; traced by {}", one.analysis.source)
}

/// A bar for each rank: a letter for each part, as long as its time.
fn bars(analysis: &Analysis) -> Option<Block> {
    let ranks = &analysis.steps.ranks;
    if ranks.iter().all(|rank| rank.total.median.is_none()) {
        return None;
    }
    let parts = StepParts::from_analysis(analysis);
    let rows = ranks.iter().take(BARS);
    let rows = rows.map(|rank| (rank.rank.to_string(), Seconds(rank.total.mean()).to_string(), parts.seconds(rank)));
    Some(Block::Bars(Bars {
        titles: ["rank", "mean step", "where its time goes"],
        kinds: parts.kinds().to_vec(),
        rows: rows.collect(),
        more: ranks.len().saturating_sub(BARS),
    }))
}

fn communication(analysis: &Analysis) -> Vec<Block> {
    let operations = &analysis.collectives.operations;
    if operations.is_empty() {
        return Vec::new();
    }
    let overlapped = analysis.overlap.overlapped_share;
    let overlapped = overlapped.map_or(String::new(), |share| format!(", {} of it overlapped", percent(share)));
    let (comm, exposed) = (analysis.overlap.comm_s.mean(), analysis.overlap.exposed_s.mean());
    let head = format!("communication takes {} of a step{overlapped}; {} delay it", Seconds(comm), Seconds(exposed));
    let words = ["operation", "communicator"].map(|title| Column::left(title).wraps(16, 12));
    let numbers = ["calls", "bytes", "time", "transfer", "wait"].map(Column::right);
    let mut table = Table::new(words.into_iter().chain(numbers));
    let shown = |seconds: Option<f64>| seconds.map_or(NONE.to_owned(), |seconds| Seconds(seconds).to_string());
    for one in operations.iter().take(OPERATIONS) {
        let series = |series: &Option<diagnose::profile::Series>| shown(series.as_ref().and_then(|series| series.mean));
        table.row([
            one.operation.clone(),
            one.group.clone(),
            traffic::calls(one.calls_per_step),
            one.bytes_per_step.map_or(NONE.to_owned(), |bytes| Bytes(bytes as u64).about().to_string()),
            shown(one.time_s.mean),
            series(&one.transfer_s),
            series(&one.wait_s),
        ]);
    }
    let more = operations.len().saturating_sub(OPERATIONS);
    let more = if more > 0 {
        format!("... {} more; ", more + analysis.collectives.operations_left_out)
    } else {
        String::new()
    };
    let below = format!("{more}per step, means over ranks and steps");
    vec![Block::Heading(4, head.into()), Block::Table(table), Block::Paragraph(below.into())]
}

/// What scaling loses, by cause.
fn losses_of(losses: &Losses) -> Vec<Block> {
    let Some(base) = losses.base_ranks else { return Vec::new() };
    let head = format!("scaling from {}, as shares of a step", view::study::ranks(base));
    let mut blocks = vec![Block::Heading(4, head.into())];
    for bar in &losses.bars {
        let head = format!("{} ranks: efficiency {}, lost {}", bar.ranks, percent(bar.efficiency), percent(bar.loss));
        let mut table = Table::new([Column::left("cause"), Column::right("share"), Column::right("step without it")]);
        let terms = bar.terms.iter().map(|term| (term.cause.name(), term.share, term.without));
        for (cause, share, without) in terms.chain([("unexplained", bar.unexplained, None)]) {
            let without = without.map_or(NONE.to_owned(), |without| Seconds(without.step_s).to_string());
            table.row([cause.to_owned(), percent(share), without]);
        }
        blocks.extend([Block::Paragraph(head.into()), Block::Table(table)]);
    }
    blocks
}

/// What got slower between two traces.
pub fn differences(before: &Analysis, after: &Analysis, found: &[ProfileDifference]) -> Document {
    let step = |analysis: &Analysis| Seconds(analysis.steps.step.median.unwrap_or(0.0));
    let words = [Column::left("per step").wraps(40, 24), Column::left("part")];
    let numbers = ["before", "after", "change"].map(Column::right);
    let mut table = Table::new(words.into_iter().chain(numbers).chain([Column::left("").optional()]));
    // Most kernels of a large job are alike: their rows would hide the others.
    let is_shown = |one: &&ProfileDifference| {
        one.change_s != 0.0 && (one.part != DifferenceOf::Kernel || one.certain || !one.is_judged)
    };
    let (shown, alike) = found.iter().partition::<Vec<_>, _>(is_shown);
    for one in shown {
        let sign = if one.change_s > 0.0 { "+" } else { "-" };
        let sure = match (one.before_s > 0.0, one.after_s > 0.0, one.certain, one.is_judged) {
            (false, ..) => "new",
            (_, false, ..) => "gone",
            (_, _, true, _) => "",
            (_, _, false, true) => "within noise",
            (_, _, false, false) => "too few steps",
        };
        let name = if one.part == DifferenceOf::Kernel { kernel::short(&one.name) } else { one.name.clone() };
        let [old, new] = [one.before_s, one.after_s].map(|time| Seconds(time).to_string());
        let change = format!("{sign}{}", Seconds(one.change_s.abs()));
        table.push(TableRow::new([name, one.part.name().to_owned(), old, new, change, sure.to_owned()]));
    }
    let head = format!("a median step takes {} before and {} after", step(before), step(after));
    let rest = match alike.iter().filter(|one| one.part == DifferenceOf::Kernel).count() {
        0 => None,
        1 => Some("1 kernel takes as long as before, or differs within noise".to_owned()),
        alike => Some(format!("{alike} kernels take as long as before, or differ within noise")),
    };
    let rest = rest.map(|rest| Block::Paragraph(rest.into()));
    let blocks = [Block::Heading(4, head.into()), Block::Table(table)].into_iter().chain(rest).collect();
    Document { title: "Two traces".to_owned(), blocks }
}

fn belongs(finding: &ProfileFinding, target: Target) -> bool {
    let part = match finding.kind {
        FindingKind::Straggler
        | FindingKind::BusyMachine
        | FindingKind::RotatingDelays
        | FindingKind::Waits
        | FindingKind::Pauses
        | FindingKind::PipelineBubble => Target::SyncStalls,
        FindingKind::InputBound => Target::Input,
        FindingKind::ExposedCommunication
        | FindingKind::SmallMessages
        | FindingKind::HostBoundDevice
        | FindingKind::SlowExchange => Target::Overlap,
    };
    target.shows(part)
}

#[cfg(test)]
mod tests {
    use diagnose::profile::{Collectives, OperationTotals, Series};

    use super::*;

    #[test]
    fn calls_of_some_steps_alone_are_not_none() {
        let one = |calls_per_step| OperationTotals {
            operation: "all_reduce".to_owned(),
            group: "0".to_owned(),
            calls_per_step,
            bytes_per_step: None,
            time_s: Series::new(vec![1e-3]),
            transfer_s: None,
            wait_s: None,
            arrival_wait_s: None,
        };
        let collectives = Collectives { operations: vec![one(0.25), one(12.0)], ..Collectives::default() };
        let blocks = communication(&Analysis { collectives, ..Analysis::default() });
        let table = blocks.iter().find_map(|block| if let Block::Table(table) = block { Some(table) } else { None });
        let calls: Vec<String> = table.unwrap().rows().map(|cells| cells[2].plain()).collect();
        assert_eq!(calls, ["0.25", "12"], "a step in four accumulates no gradients");
    }
}
