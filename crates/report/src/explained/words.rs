//! What traces showed, in words: the section of the Markdown report.

use record::ExplainedFinding;
use view::NamedChart;

use super::{Explanation, of_run};
use crate::Run;
use crate::escape::{markdown as escaped, one_line};
use crate::number::seconds;

/// The section's text; empty where the record has none. `pictures` makes the text of charts.
pub(crate) fn markdown(run: &Run, pictures: impl Fn(&[NamedChart]) -> String) -> String {
    let (cases, more) = of_run(run);
    let several = cases.len() > 1;
    let mut parts: Vec<String> = cases.iter().map(|case| of_case(case, several, &pictures)).collect();
    parts.extend(more);
    parts.join("\n\n")
}

fn of_case(case: &Explanation, several: bool, pictures: &impl Fn(&[NamedChart]) -> String) -> String {
    let title = escaped(&case.title);
    let mut parts = vec![if several { format!("### {title}") } else { title }];
    parts.push(escaped(case.verdict));
    parts.push(case.findings.iter().map(finding).collect::<Vec<_>>().join("\n"));
    parts.push(pictures(&case.charts));
    for table in &case.tables {
        parts.push(format!("{}:", escaped(&table.title())));
        parts.push(table.markdown().trim_end().to_owned());
        parts.extend(table.more());
    }
    parts.push(case.notes.iter().map(|note| format!("* Note: {}", escaped(note))).collect::<Vec<_>>().join("\n"));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn finding(of: &ExplainedFinding) -> String {
    let lines = [("Evidence", &of.evidence), ("Confidence", &of.confidence), ("What to do", &of.action)];
    let lines = lines.map(|(name, text)| (name, escaped(text)));
    let what = if of.what.trim().is_empty() { "Finding".to_owned() } else { escaped(&of.what) };
    let mut text = format!("* **{what}**");
    for (name, value) in lines.into_iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("\n  * {name}: {value}");
    }
    if let Some(saved) = saved(of) {
        text += &format!("\n  * Saves up to: {saved}");
    }
    text
}

/// `12 ms a step`, where it is known.
pub(crate) fn saved(of: &ExplainedFinding) -> Option<String> {
    let is_known = of.seconds.is_finite() && of.seconds > 0.0;
    is_known.then(|| one_line(&format!("{} a step", seconds(of.seconds))))
}
