//! What traces showed, in words: the section of the report.

use record::ExplainedFinding;

use super::{Explanation, of_run};
use crate::Run;
use crate::document::{Block, Item, Words, prose_list, strong_title};
use crate::escape::one_line;
use crate::number::seconds;

/// The section; empty where the record has nothing of traces.
pub(crate) fn blocks(run: &Run) -> Vec<Block> {
    let (cases, more) = of_run(run);
    let several = cases.len() > 1;
    cases.into_iter().flat_map(|case| of_case(case, several)).chain(more).collect()
}

fn of_case(case: Explanation, several: bool) -> Vec<Block> {
    let title = Words::from(case.title);
    let mut parts = vec![if several { Block::Heading(3, title) } else { Block::Paragraph(title) }];
    let verdict = Words::prose(case.verdict);
    parts.extend((!verdict.is_empty()).then_some(Block::Paragraph(verdict)));
    let findings: Vec<Item> = case.findings.iter().map(finding).collect();
    parts.extend((!findings.is_empty()).then_some(Block::List(findings)));
    parts.extend(case.charts.into_iter().map(|chart| Block::Figure(Box::new(chart))));
    for table in &case.tables {
        parts.push(Block::Paragraph(format!("{}:", table.title()).into()));
        parts.push(Block::Table(table.table()));
        parts.extend(table.more());
    }
    parts.extend(prose_list(case.notes.iter().map(|note| format!("Note: {note}"))));
    parts
}

fn finding(of: &ExplainedFinding) -> Item {
    let what = if of.what.trim().is_empty() { "Finding" } else { &of.what };
    let lines = [("Evidence", &of.evidence), ("Confidence", &of.confidence), ("What to do", &of.action)];
    let lines = lines.into_iter().filter(|(_, text)| !one_line(text).is_empty());
    let lines = lines.map(|(name, text)| Words::prose(&format!("{name}: {text}")));
    let saved = saved(of).map(|saved| Words::from(format!("Saves up to: {saved}")));
    Item { words: strong_title(what).into(), below: lines.chain(saved).collect() }
}

/// `12 ms a step`, where it is known.
pub(crate) fn saved(of: &ExplainedFinding) -> Option<String> {
    let is_known = of.seconds.is_finite() && of.seconds > 0.0;
    is_known.then(|| one_line(&format!("{} a step", seconds(of.seconds))))
}
