//! What limits the steps: the section of the page for what traces showed.

use std::fmt::Write as _;

use record::ExplainedFinding;

use super::{Data, figures, json};
use crate::Run;
use crate::document::Block;
use crate::document::html::{html, prose};
use crate::escape::{one_line, xml};
use crate::words::explained::{Explanation, Named, of_run, saved};

fn escape(text: &str) -> String {
    xml(&one_line(text))
}

/// The section's body; empty where the record has nothing of traces.
pub(super) fn section(run: &Run, prefix: &str, data: &mut Data) -> String {
    let (cases, more) = of_run(run);
    let out: String = cases.iter().map(|case| of_case(case, prefix, data)).collect();
    out + &html(more.as_slice())
}

fn of_case(case: &Explanation, prefix: &str, data: &mut Data) -> String {
    let mut out = format!("<h3>{}</h3>", escape(&case.title));
    if !case.verdict.trim().is_empty() {
        let _ = write!(out, "<p class=\"verdict\">{}</p>", prose(case.verdict));
    }
    if !case.findings.is_empty() {
        let cards: String = case.findings.iter().map(card).collect();
        let _ = write!(out, "<div class=\"cards\">{cards}</div>");
    }
    out += &figures::figures(&case.charts, prefix, &mut data.charts);
    out += &case.tables.iter().map(|of| table(of, data)).collect::<String>();
    if !case.notes.is_empty() {
        let notes: String = case.notes.iter().map(|note| format!("<li>{}</li>", prose(note))).collect();
        let _ = write!(out, "<ul class=\"note\">{notes}</ul>");
    }
    out
}

fn card(of: &ExplainedFinding) -> String {
    let what = if of.what.trim().is_empty() { "Finding" } else { &of.what };
    let mut out = format!("<div class=\"card\"><h4>{}</h4>", prose(what));
    let confidence = (!of.confidence.trim().is_empty()).then(|| format!("confidence: {}", of.confidence));
    let parts: Vec<String> =
        saved(of).map(|saved| format!("saves up to {saved}")).into_iter().chain(confidence).collect();
    for (class, text) in [("evidence", of.evidence.clone()), ("evidence", parts.join(" · ")), ("", of.action.clone())]
    {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        if !text.trim().is_empty() {
            let _ = write!(out, "<p{class}>{}</p>", prose(&text));
        }
    }
    out + "</div>"
}

/// A table, and its values for the script, which copies them.
fn table(of: &Named, data: &mut Data) -> String {
    let more = html(of.more().as_slice());
    let body = html(&[Block::Table(of.table())]);
    let number = data.tables.len();
    data.tables.push(json::array(of.values().iter().map(|row| json::array(row.iter().map(|cell| json::text(cell))))));
    format!("<div data-table=\"{number}\"><h4>{}</h4>{body}{more}</div>", escape(&of.title()))
}
