//! The page's HTML.

use super::{FleetPage, FleetRow, FleetTone};
use crate::document::html::prose;
use crate::escape::one_line as text;
use crate::index::CSS;
use crate::markup::{Css, Html, Literal, Page, html};

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

const fn class(tone: FleetTone) -> &'static str {
    match tone {
        FleetTone::Good => "good",
        FleetTone::Unknown => "unknown",
        FleetTone::Slow => "slow",
        FleetTone::Failed => "failed",
    }
}

pub(super) fn page(of: &FleetPage) -> Html {
    let mut style = Css::from(Literal(CSS));
    style.literal(MAP);
    let title = text(&of.title);
    let mut out = html!("<header><h1>{}</h1></header>\n<main>\n", title);
    html!(out => "<p class=\"verdict {}\">{}</p>\n", class(of.tone), text(&of.sentence));
    if !of.actions.is_empty() {
        let items: Html = of.actions.iter().map(|action| html!("<li>{}</li>", prose(action))).collect();
        html!(out => "<h2>What to do</h2>\n<ul>{}</ul>\n", items);
    }
    map(&mut out, of);
    if !of.links.is_empty() {
        out.literal("<h2>Slow links</h2>\n");
        table(&mut out, &["nodes", "exchange", "times as long:"], &of.links, 1);
    }
    out.literal("<h2>What nodes were judged by</h2>\n");
    let heads = ["work", "kind of node", "nodes:", "healthy time:", "healthy spread:", "slow from:"];
    table(&mut out, &heads, &of.criteria, usize::MAX);
    for note in &of.notes {
        html!(out => "<p class=\"quiet\">{}</p>", prose(note));
    }
    out.literal(
        "<h2>Nodes</h2>\n<p class=\"quiet\">A ratio is the time over that of healthy nodes of the same kind.</p>\n",
    );
    let columns: Vec<String> = of.columns.iter().map(|column| format!("{column}:")).collect();
    let heads: Vec<&str> = ["node", "verdict", "why"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    table(&mut out, &heads, &of.nodes, 1);
    out.literal("</main>\n");
    Page { title: &format!("{title} - Rankmark"), style, body: out, script: None }.write()
}

fn map(out: &mut Html, of: &FleetPage) {
    out.literal("<h2>Map of the nodes</h2>\n<div class=\"map\">\n");
    for cell in &of.cells {
        html!(
            out => "<div class=\"{}\" title=\"{}\"><b>{}</b>{}</div>\n",
            class(cell.tone),
            text(&format!("{}: {}", cell.name, cell.tip)),
            text(&cell.name),
            text(&cell.figure)
        );
    }
    out.literal("</div>\n");
}

/// A table in a frame that scrolls. A title that ends in a colon stands over numbers; the cell at `verdict` has the row's colour.
fn table(out: &mut Html, heads: &[&str], rows: &[FleetRow], verdict: usize) {
    out.literal("<div class=\"wide\"><table><thead><tr>");
    for title in heads {
        match title.strip_suffix(':') {
            Some(title) => html!(out => "<th scope=\"col\" class=\"number\">{}</th>", text(title)),
            None => html!(out => "<th scope=\"col\">{}</th>", text(title)),
        }
    }
    out.literal("</tr></thead><tbody>\n");
    for row in rows {
        out.literal("<tr>");
        for (at, cell) in row.cells.iter().enumerate() {
            let class = match heads.get(at) {
                _ if at == verdict => class(row.tone),
                Some(title) if title.ends_with(':') => "number",
                Some(&"why") => "long",
                _ => "",
            };
            html!(out => "<td class=\"{}\">{}</td>", class, text(cell));
        }
        out.literal("</tr>\n");
    }
    out.literal("</tbody></table></div>\n");
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
        let html = page(&of).into_string();
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
        assert!(!MAP.contains("url(") && !MAP.contains("@import"));
    }
}
