//! Blocks as HTML, for the page.

use super::{Align, Block, Item, Part, Table, Words};
use crate::chart;
use crate::markup::{Html, Literal, html};
use crate::number::NONE;
use crate::words::layout::filled;

/// Blocks as elements.
pub(crate) fn elements(blocks: &[Block]) -> Html {
    blocks.iter().map(block).collect()
}

fn block(block: &Block) -> Html {
    match block {
        Block::Heading(level, words) => heading(*level, &inline(words)),
        Block::Warning(words) => html!("<p class=\"banner\">{}</p>", inline(words)),
        Block::Paragraph(words) => html!("<p>{}</p>", inline(words)),
        // The page has its own.
        Block::Contents => Html::new(),
        Block::List(items) => html!("<ul>{}</ul>", items.iter().map(item).collect::<Html>()),
        Block::Table(table) => self::table(table),
        Block::Command(command) => html!("<pre tabindex=\"0\"><code>{}</code></pre>", command),
        Block::Figure(chart) => {
            html!("<figure>{}<figcaption>{}</figcaption></figure>", chart::inline(&chart.spec), chart.spec.title)
        }
    }
}

/// A heading of a level from 1 to 4.
pub(crate) fn heading(level: u8, words: &Html) -> Html {
    match level {
        1 => html!("<h1>{}</h1>", words),
        2 => html!("<h2>{}</h2>", words),
        3 => html!("<h3>{}</h3>", words),
        _ => html!("<h4>{}</h4>", words),
    }
}

fn item(Item { words, below }: &Item) -> Html {
    let below: Html = below.iter().map(|words| html!("<li>{}</li>", inline(words))).collect();
    let below = if below.is_empty() { below } else { html!("<ul>{}</ul>", below) };
    html!("<li>{}{}</li>", inline(words), below)
}

fn table(table: &Table) -> Html {
    let class = |at: usize| {
        let right = table.columns()[at].1 == Align::Right;
        // On a narrow screen these stand in the first column.
        Literal(match (right, (1..=table.also().len()).contains(&at)) {
            (true, true) => " class=\"n apart\"",
            (true, false) => " class=\"n\"",
            (false, true) => " class=\"apart\"",
            (false, false) => "",
        })
    };
    let mut out = Html::new();
    out.literal("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead><tr>");
    for (at, (title, _)) in table.columns().iter().enumerate() {
        html!(out => "<th scope=\"col\"{}>{}</th>", class(at), inline(title));
    }
    out.literal("</tr></thead><tbody>");
    for row in table.rows() {
        out.literal("<tr>");
        for (at, cell) in row.iter().enumerate() {
            html!(out => "<td{}>{}{}</td>", class(at), inline(cell), (at == 0).then(|| also(table, &row)));
        }
        out.literal("</tr>");
    }
    out.literal("</tbody></table></div>");
    out
}

/// What else tells a row apart, for its first cell.
fn also(table: &Table, row: &[Words]) -> Html {
    let cells = table.also().iter().zip(&row[1..]).map(|(phrase, cell)| (phrase, cell.plain()));
    let known = cells.filter(|(_, text)| !text.is_empty() && text != NONE);
    let words: Vec<String> = known.map(|(phrase, text)| filled(phrase, &text)).collect();
    if words.is_empty() { Html::new() } else { html!("<small class=\"also\">{}</small>", words.join(", ")) }
}

/// A sentence that this program wrote, whose words between backticks are code.
pub(crate) fn prose(text: &str) -> Html {
    inline(&Words::prose(text))
}

/// A line of words.
pub(crate) fn inline(words: &Words) -> Html {
    let mut out = Html::new();
    for part in words.parts() {
        match part {
            Part::Text(text) => html!(out => "{}", text),
            Part::Code(text) => html!(out => "<code>{}</code>", text),
            Part::Strong(text) => html!(out => "<strong>{}</strong>", text),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{code, strong};

    #[test]
    fn data_is_text_and_no_markup() {
        let hostile = "<script>alert('1')</script> | \"x\" `y` *z* # & _a_ \\ &lt;b&gt;";
        assert_eq!(inline(&hostile.into()), html!("{}", hostile));
        assert_eq!(inline(&code("a`b <i>").into()).as_str(), "<code>a`b &lt;i&gt;</code>");
        assert_eq!(inline(&format!("{} 5 * 3", strong("bold")).into()).as_str(), "<strong>bold</strong> 5 * 3");
    }

    #[test]
    fn blocks_become_elements() {
        let mut rows = Table::new([("x | y", Align::Left), ("n", Align::Right)]);
        rows.row([code("1"), "2".to_owned()]);
        let items = vec![Item { words: "a".into(), below: vec!["b".into()] }, "c".into()];
        let blocks = [
            Block::Paragraph("One.".into()),
            Block::List(items),
            Block::Table(rows),
            Block::Command("<run>".to_owned()),
        ];
        let shown = elements(&blocks).into_string();
        assert!(shown.starts_with("<p>One.</p><ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><div"), "{shown}");
        assert!(shown.contains("<th scope=\"col\">x | y</th><th scope=\"col\" class=\"n\">n</th>"), "{shown}");
        assert!(shown.contains("<td><code>1</code></td><td class=\"n\">2</td>"), "{shown}");
        assert!(shown.ends_with("<pre tabindex=\"0\"><code>&lt;run&gt;</code></pre>"), "{shown}");
        assert!(elements(&[]).is_empty());
    }
}
