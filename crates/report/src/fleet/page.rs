//! The page's HTML. All text from data is escaped here.

use std::fmt::Write as _;

use super::{FleetPage, FleetRow, FleetTone};
use crate::document::html::prose;
use crate::escape::{one_line, xml};
use crate::index::CSS;

/// What the page has beyond the style sheet of index pages.
const MAP: &str = "
.verdict{font-size:19px;border-bottom:4px solid var(--better);padding-bottom:6px;margin:8px 0 12px}
.verdict.unknown{border-color:#b8860b}.verdict.slow,.verdict.failed{border-color:var(--worse)}
.map{display:grid;grid-template-columns:repeat(auto-fill,minmax(84px,1fr));gap:4px;margin:8px 0}
.map div{border:1px solid var(--line);border-left:4px solid var(--better);background:var(--card);border-radius:4px;
padding:3px 6px;font-size:12px;overflow:hidden;min-height:38px}
.map div b{display:block;font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.map .unknown{border-left-color:#b8860b}.map .slow,.map .failed{border-left-color:var(--worse);background:var(--warn);
color:var(--warn-ink)}
.map .failed{border-left-width:12px}
td.slow,td.failed{color:var(--worse);font-weight:600}td.unknown{color:var(--quiet)}
@media print{.map div{break-inside:avoid}}
";

fn text(from: &str) -> String {
    xml(&one_line(from))
}

const fn class(tone: FleetTone) -> &'static str {
    match tone {
        FleetTone::Good => "good",
        FleetTone::Unknown => "unknown",
        FleetTone::Slow => "slow",
        FleetTone::Failed => "failed",
    }
}

pub(super) fn page(of: &FleetPage) -> String {
    let css = format!("{CSS}{MAP}");
    let title = text(&of.title);
    let mut out = String::with_capacity(64 * 1024);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{title} - Rankmark</title>\n\
         <style>{css}</style>\n</head>\n<body>\n<header><h1>{title}</h1></header>\n<main>\n\
         <p class=\"verdict {}\">{}</p>\n",
        crate::policy::policy(&css, &[]),
        class(of.tone),
        text(&of.sentence)
    );
    if !of.actions.is_empty() {
        let items: String = of.actions.iter().map(|action| format!("<li>{}</li>", prose(action))).collect();
        let _ = writeln!(out, "<h2>What to do</h2>\n<ul>{items}</ul>");
    }
    map(&mut out, of);
    if !of.links.is_empty() {
        out.push_str("<h2>Slow links</h2>\n");
        table(&mut out, &["nodes", "exchange", "times as long:"], &of.links, 1);
    }
    out.push_str("<h2>What nodes were judged by</h2>\n");
    let heads = ["work", "kind of node", "nodes:", "healthy time:", "healthy spread:", "slow from:"];
    table(&mut out, &heads, &of.criteria, usize::MAX);
    let notes: String = of.notes.iter().map(|note| format!("<p class=\"quiet\">{}</p>", prose(note))).collect();
    out.push_str(&notes);
    out.push_str(
        "<h2>Nodes</h2>\n<p class=\"quiet\">A ratio is the time over that of healthy nodes of the same kind.</p>\n",
    );
    let columns: Vec<String> = of.columns.iter().map(|column| format!("{column}:")).collect();
    let heads: Vec<&str> = ["node", "verdict", "why"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    table(&mut out, &heads, &of.nodes, 1);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn map(out: &mut String, of: &FleetPage) {
    out.push_str("<h2>Map of the nodes</h2>\n<div class=\"map\">\n");
    for cell in &of.cells {
        let _ = writeln!(
            out,
            "<div class=\"{}\" title=\"{}\"><b>{}</b>{}</div>",
            class(cell.tone),
            text(&format!("{}: {}", cell.name, cell.tip)),
            text(&cell.name),
            text(&cell.figure)
        );
    }
    out.push_str("</div>\n");
}

/// A table in a frame that scrolls. A title that ends in a colon stands over numbers; the cell at `verdict` has the row's colour.
fn table(out: &mut String, heads: &[&str], rows: &[FleetRow], verdict: usize) {
    let head: String = heads
        .iter()
        .map(|title| match title.strip_suffix(':') {
            Some(title) => format!("<th scope=\"col\" class=\"number\">{}</th>", text(title)),
            None => format!("<th scope=\"col\">{}</th>", text(title)),
        })
        .collect();
    let _ = writeln!(out, "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.cells.iter().enumerate() {
            let class = match heads.get(at) {
                _ if at == verdict => class(row.tone),
                Some(title) if title.ends_with(':') => "number",
                Some(&"why") => "long",
                _ => "",
            };
            let _ = write!(out, "<td class=\"{class}\">{}</td>", text(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::FleetCell;
    use super::*;

    #[test]
    fn text_from_data_is_escaped_and_nothing_is_loaded() {
        let bad = "<script>\"&'".to_owned();
        let row = FleetRow { tone: FleetTone::Slow, cells: vec![bad.clone(); 3] };
        let of = FleetPage {
            title: bad.clone(),
            sentence: bad.clone(),
            tone: FleetTone::Failed,
            actions: vec![bad.clone()],
            cells: vec![FleetCell { tone: FleetTone::Slow, name: bad.clone(), figure: bad.clone(), tip: bad.clone() }],
            columns: vec![bad.clone()],
            nodes: vec![row.clone()],
            criteria: vec![row.clone()],
            links: vec![row],
            notes: vec![bad],
        };
        let html = page(&of);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
        assert!(!MAP.contains("url(") && !MAP.contains("@import"));
    }
}
