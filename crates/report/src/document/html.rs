//! Blocks as HTML, for the page.

use super::{Align, Block, Item, Part, Table, Words};
use crate::chart;
use crate::escape::xml as escape;
use crate::number::NONE;
use crate::words::layout::filled;

/// Blocks as elements.
pub(crate) fn html(blocks: &[Block]) -> String {
    blocks.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, words) => format!("<h{level}>{}</h{level}>", inline(words)),
        Block::Warning(words) => format!("<p class=\"banner\">{}</p>", inline(words)),
        Block::Paragraph(words) => format!("<p>{}</p>", inline(words)),
        // The page has its own.
        Block::Contents => String::new(),
        Block::List(items) => format!("<ul>{}</ul>", items.iter().map(item).collect::<String>()),
        Block::Table(table) => self::table(table),
        Block::Command(command) => format!("<pre tabindex=\"0\"><code>{}</code></pre>", escape(command)),
        Block::Figure(chart) => format!(
            "<figure>{}<figcaption>{}</figcaption></figure>",
            chart::inline(&chart.spec),
            escape(&chart.spec.title)
        ),
    }
}

fn item(Item { words, below }: &Item) -> String {
    let below: String = below.iter().map(|words| format!("<li>{}</li>", inline(words))).collect();
    let below = if below.is_empty() { below } else { format!("<ul>{below}</ul>") };
    format!("<li>{}{below}</li>", inline(words))
}

fn table(table: &Table) -> String {
    let class = |at: usize| {
        let right = table.columns()[at].1 == Align::Right;
        // On a narrow screen these stand in the first column.
        match (right, (1..=table.also().len()).contains(&at)) {
            (true, true) => " class=\"n apart\"",
            (true, false) => " class=\"n\"",
            (false, true) => " class=\"apart\"",
            (false, false) => "",
        }
    };
    let head = table.columns().iter().enumerate();
    let head: String =
        head.map(|(at, (title, _))| format!("<th scope=\"col\"{}>{}</th>", class(at), inline(title))).collect();
    let row = |row: &Vec<Words>| {
        let cell = |(at, cell): (usize, &Words)| {
            let also = if at == 0 { also(table, row) } else { String::new() };
            format!("<td{}>{}{also}</td>", class(at), inline(cell))
        };
        format!("<tr>{}</tr>", row.iter().enumerate().map(cell).collect::<String>())
    };
    let body: String = table.rows().iter().map(row).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead><tr>{head}</tr></thead>\
         <tbody>{body}</tbody></table></div>"
    )
}

/// What else tells a row apart, for its first cell.
fn also(table: &Table, row: &[Words]) -> String {
    let cells = table.also().iter().zip(&row[1..]).map(|(phrase, cell)| (phrase, cell.plain()));
    let known = cells.filter(|(_, text)| !text.is_empty() && text != NONE);
    let words: Vec<String> = known.map(|(phrase, text)| filled(phrase, &text)).collect();
    if words.is_empty() {
        String::new()
    } else {
        format!("<small class=\"also\">{}</small>", escape(&words.join(", ")))
    }
}

/// A sentence that this program wrote, whose words between backticks are code.
pub(crate) fn prose(text: &str) -> String {
    inline(&Words::prose(text))
}

/// A line of words.
pub(crate) fn inline(words: &Words) -> String {
    let part = |part| match part {
        Part::Text(text) => escape(text),
        Part::Code(text) => format!("<code>{}</code>", escape(text)),
        Part::Strong(text) => format!("<strong>{}</strong>", escape(text)),
    };
    words.parts().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{code, strong};

    #[test]
    fn data_is_text_and_no_markup() {
        let hostile = "<script>alert('1')</script> | \"x\" `y` *z* # & _a_ \\ &lt;b&gt;";
        assert_eq!(inline(&hostile.into()), escape(hostile));
        assert_eq!(inline(&code("a`b <i>").into()), "<code>a`b &lt;i&gt;</code>");
        assert_eq!(inline(&format!("{} 5 * 3", strong("bold")).into()), "<strong>bold</strong> 5 * 3");
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
        let shown = html(&blocks);
        assert!(shown.starts_with("<p>One.</p><ul><li>a<ul><li>b</li></ul></li><li>c</li></ul><div"), "{shown}");
        assert!(shown.contains("<th scope=\"col\">x | y</th><th scope=\"col\" class=\"n\">n</th>"), "{shown}");
        assert!(shown.contains("<td><code>1</code></td><td class=\"n\">2</td>"), "{shown}");
        assert!(shown.ends_with("<pre tabindex=\"0\"><code>&lt;run&gt;</code></pre>"), "{shown}");
        assert_eq!(html(&[]), "");
    }
}
