//! What limits the steps: the section of the page for what traces showed.

use record::ExplainedFinding;

use super::{Data, figures, json};
use crate::Run;
use crate::document::Block;
use crate::document::html::{elements, prose};
use crate::escape::one_line;
use crate::markup::{Html, html};
use crate::words::explained::{Explanation, Named, of_run, saved};

/// The section's body; empty where the record has nothing of traces.
pub(super) fn section(run: &Run, prefix: &str, data: &mut Data) -> Html {
    let (cases, more) = of_run(run);
    let mut out: Html = cases.iter().map(|case| of_case(case, prefix, data)).collect();
    out += elements(more.as_slice());
    out
}

fn of_case(case: &Explanation, prefix: &str, data: &mut Data) -> Html {
    let mut out = html!("<h3>{}</h3>", one_line(&case.title));
    if !case.verdict.trim().is_empty() {
        html!(out => "<p class=\"verdict\">{}</p>", prose(case.verdict));
    }
    if !case.findings.is_empty() {
        html!(out => "<div class=\"cards\">{}</div>", case.findings.iter().map(card).collect::<Html>());
    }
    out += figures::figures(&case.charts, prefix, &mut data.charts);
    out += case.tables.iter().map(|of| table(of, data)).collect::<Html>();
    if !case.notes.is_empty() {
        let notes: Html = case.notes.iter().map(|note| html!("<li>{}</li>", prose(note))).collect();
        html!(out => "<ul class=\"note\">{}</ul>", notes);
    }
    out
}

fn card(of: &ExplainedFinding) -> Html {
    let what = if of.what.trim().is_empty() { "Finding" } else { &of.what };
    let mut out = html!("<div class=\"card\"><h4>{}</h4>", prose(what));
    let confidence = (!of.confidence.trim().is_empty()).then(|| format!("confidence: {}", of.confidence));
    let parts: Vec<String> =
        saved(of).map(|saved| format!("saves up to {saved}")).into_iter().chain(confidence).collect();
    for text in [of.evidence.clone(), parts.join(" · ")].iter().filter(|text| !text.trim().is_empty()) {
        html!(out => "<p class=\"evidence\">{}</p>", prose(text));
    }
    if !of.action.trim().is_empty() {
        html!(out => "<p>{}</p>", prose(&of.action));
    }
    out.literal("</div>");
    out
}

/// A table, and its values for the script, which copies them.
fn table(of: &Named, data: &mut Data) -> Html {
    let number = data.tables.len();
    data.tables.push(json::array(of.values().iter().map(|row| json::array(row.iter().map(|cell| json::text(cell))))));
    html!(
        "<div data-table=\"{}\"><h4>{}</h4>{}{}</div>",
        number,
        one_line(&of.title()),
        elements(&[Block::Table(of.table())]),
        elements(of.more().as_slice())
    )
}
