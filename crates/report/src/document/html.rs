//! Blocks as HTML, for the page.

use super::{Align, Block, Card, Item, Table, Tile, Tone, WordPiece, Words, timeline};
use crate::chart;
use crate::markup::{Address, Html, Literal, html};
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
        Block::Verdict(tone, words) => html!("<p class=\"verdict {}\">{}</p>", class(*tone), inline(words)),
        Block::Actions(actions) => {
            let items: Html = actions.iter().map(|words| html!("<li>{}</li>", inline(words))).collect();
            html!("<h2>What to do</h2><ul>{}</ul>", items)
        }
        Block::Advice(advice) => html!(
            "<div class=\"card\"><h4>{}</h4><p class=\"evidence\">{}</p><p>{}</p></div>",
            inline(&advice.what),
            inline(&advice.evidence),
            inline(&advice.action)
        ),
        // A chart shows it.
        Block::Bars(_) => Html::new(),
        Block::Note(words) => html!("<p class=\"quiet\">{}</p>", inline(words)),
        Block::Tiles(tiles) => html!("<div class=\"map\">{}</div>", tiles.iter().map(tile).collect::<Html>()),
        Block::Cards(cards) => html!("<div class=\"cards\">{}</div>", cards.iter().map(card).collect::<Html>()),
        Block::OnPage(blocks) => elements(blocks),
        Block::Folded { title, open, blocks } => {
            let open = Literal(if *open { " open" } else { "" });
            html!("<details{}><summary>{}</summary>{}</details>", open, title, elements(blocks))
        }
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

/// The class of a tone.
pub(super) fn class(tone: Tone) -> Literal {
    Literal(match tone {
        Tone::Plain => "",
        Tone::Good => "good",
        Tone::Care => "care",
        Tone::Bad => "bad",
    })
}

fn tile(Tile { tone, name, figure, tip }: &Tile) -> Html {
    html!("<div class=\"{}\" title=\"{}: {}\"><b>{}</b>{}</div>", class(*tone), name, tip, name, figure)
}

fn card(Card { title, note, timeline }: &Card) -> Html {
    let chart = timeline::chart(title, timeline);
    html!("<figure class=\"card\"><figcaption>{}<span>{}</span></figcaption>{}</figure>", title, note, chart)
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
    let table = &*table.used();
    let class = |at: usize, tone: Tone| {
        let column = &table.columns()[at];
        let number = column.align == Align::Right;
        // On a narrow screen these stand in the first column.
        Literal(match (tone, number, (1..=table.also().len()).contains(&at)) {
            (Tone::Good, ..) => " class=\"good\"",
            (Tone::Care, ..) => " class=\"care\"",
            (Tone::Bad, ..) => " class=\"bad\"",
            (_, true, true) => " class=\"n apart\"",
            (_, true, false) => " class=\"n\"",
            (_, false, true) => " class=\"apart\"",
            (_, false, false) if column.wraps.is_some() => " class=\"long\"",
            (_, false, false) => "",
        })
    };
    let mut out = Html::new();
    out.literal("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead><tr>");
    for (at, column) in table.columns().iter().enumerate() {
        html!(out => "<th scope=\"col\"{}>{}</th>", class(at, Tone::Plain), inline(&column.title));
    }
    out.literal("</tr></thead><tbody>");
    for (number, row) in table.rows().enumerate() {
        out.literal("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let drawn = table.drawn(number, at).map(timeline::spark);
            html!(out => "<td{}>{}{}{}</td>", class(at, table.tone(number, at)), inline(cell), drawn, (at == 0).then(|| also(table, &row)));
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
            WordPiece::Text(text) => html!(out => "{}", text),
            WordPiece::Code(text) => html!(out => "<code>{}</code>", text),
            WordPiece::Strong(text) => html!(out => "<strong>{}</strong>", text),
            WordPiece::Link(text, path) => html!(out => "<a href=\"{}\">{}</a>", Address::of_path(path), text),
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
