//! What limits the steps: the section of the page for what traces showed.

use std::fmt::Write as _;

use record::ExplainedFinding;

use super::{Data, figures, json, markdown};
use crate::Run;
use crate::escape::{one_line, xml};
use crate::explained::{Explanation, Named, of_run, saved};

fn escape(text: &str) -> String {
    xml(&one_line(text))
}

/// The section's body; empty where the record has nothing of traces.
pub(super) fn section(run: &Run, prefix: &str, data: &mut Data) -> String {
    let (cases, more) = of_run(run);
    let mut out: String = cases.iter().map(|case| of_case(case, prefix, data)).collect();
    out += &markdown::html(&more.unwrap_or_default());
    out
}

fn of_case(case: &Explanation, prefix: &str, data: &mut Data) -> String {
    let mut out = format!("<h3>{}</h3>", escape(&case.title));
    if !case.verdict.trim().is_empty() {
        let _ = write!(out, "<p class=\"verdict\">{}</p>", escape(case.verdict));
    }
    if !case.findings.is_empty() {
        let cards: String = case.findings.iter().map(card).collect();
        let _ = write!(out, "<div class=\"cards\">{cards}</div>");
    }
    out += &figures::figures(&case.charts, prefix, &mut data.charts);
    out += &case.tables.iter().map(|of| table(of, data)).collect::<String>();
    if !case.notes.is_empty() {
        let notes: String = case.notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
        let _ = write!(out, "<ul class=\"note\">{notes}</ul>");
    }
    out
}

fn card(of: &ExplainedFinding) -> String {
    let what = if of.what.trim().is_empty() { "Finding" } else { &of.what };
    let mut out = format!("<div class=\"card\"><h4>{}</h4>", escape(what));
    let confidence = (!of.confidence.trim().is_empty()).then(|| format!("confidence: {}", of.confidence));
    let told: Vec<String> =
        saved(of).map(|saved| format!("saves up to {saved}")).into_iter().chain(confidence).collect();
    for (class, text) in [("evidence", of.evidence.clone()), ("evidence", told.join(" · ")), ("", of.action.clone())] {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        if !text.trim().is_empty() {
            let _ = write!(out, "<p{class}>{}</p>", with_code(&text));
        }
    }
    out + "</div>"
}

/// Escaped text; what stands between two backticks is code. Nothing else is markup: the file may come from anybody.
fn with_code(text: &str) -> String {
    let text = one_line(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return xml(&text);
    }
    let shown = |(at, part): (usize, &&str)| match at % 2 {
        1 => format!("<code>{}</code>", xml(part)),
        _ => xml(part),
    };
    parts.iter().enumerate().map(shown).collect()
}

/// A table, and its values for the script, which copies them.
fn table(of: &Named, data: &mut Data) -> String {
    let more = of.more().map(|more| markdown::html(&more)).unwrap_or_default();
    let body = markdown::html(&of.markdown());
    let number = data.tables.len();
    data.tables.push(json::array(of.values().iter().map(|row| json::array(row.iter().map(|cell| json::text(cell))))));
    format!("<div data-table=\"{number}\"><h4>{}</h4>{body}{more}</div>", escape(&of.title()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stands_between_backticks_and_nothing_else_is_markup() {
        assert_eq!(with_code("run `a <b>` now"), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(with_code("one ` alone <i>"), "one ` alone &lt;i&gt;");
    }
}
