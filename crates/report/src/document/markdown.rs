//! Blocks as Markdown in GitHub's dialect, with tables that read well in a terminal and in a diff.

use super::{Align, Block, Item, Part, Table, Words};
use crate::escape::{code, inert};

/// Adds a block, with an empty line before it.
pub(crate) fn push(text: &mut String, block: &Block) {
    if matches!(block, Block::Contents) {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    match block {
        Block::Heading(level, words) => *text += &format!("{} {}\n", "#".repeat(usize::from(*level)), line(words)),
        Block::Warning(words) => *text += &format!("> {}\n", line(words)),
        Block::Paragraph(words) => *text += &format!("{}\n", line(words)),
        Block::List(items) => items.iter().for_each(|item| push_item(text, item)),
        Block::Table(table) => *text += &self::table(table),
        Block::Contents => {}
        // Inside a fence only the fence itself is markup.
        Block::Command(command) => *text += &format!("```sh\n{}\n```\n", command.replace("```", "` ` `")),
        Block::Figure(chart) => {
            let (stem, title) = (&chart.stem, line(&Words::from(chart.spec.title.as_str())));
            *text += &format!("[![{title}](charts/{stem}.png)](charts/{stem}.svg)\n");
        }
    }
}

/// Blocks as one text.
pub(crate) fn text<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> String {
    let mut text = String::new();
    blocks.into_iter().for_each(|block| push(&mut text, block));
    text
}

fn push_item(text: &mut String, item: &Item) {
    *text += &format!("* {}\n", line(&item.words));
    item.below.iter().for_each(|words| *text += &format!("  * {}\n", line(words)));
}

/// Words that begin a line.
fn line(words: &Words) -> String {
    inline(words, true)
}

fn inline(words: &Words, begins: bool) -> String {
    let part = |(at, part): (usize, Part)| match part {
        Part::Text(text) => inert(text, begins && at == 0),
        Part::Code(text) => code(text),
        Part::Strong(text) => format!("**{}**", inert(text, false)),
    };
    words.parts().enumerate().map(part).collect()
}

/// Cells are escaped twice, for their widths and for the text: all of a large table at once would be held twice.
fn table(table: &Table) -> String {
    let cell = |words: &Words| inline(words, false);
    let width = |at: usize| {
        let cells = table.rows().iter().map(|row| cell(&row[at]).chars().count());
        cells.chain([cell(&table.columns()[at].0).chars().count(), 3]).max().unwrap_or(3)
    };
    let columns: Vec<(usize, Align)> =
        table.columns().iter().enumerate().map(|(at, (_, align))| (width(at), *align)).collect();
    let row = |cells: &mut dyn Iterator<Item = &Words>| {
        let padded = |(words, (width, align)): (&Words, &(usize, Align))| match align {
            Align::Left => format!(" {:<width$} |", cell(words)),
            Align::Right => format!(" {:>width$} |", cell(words)),
        };
        format!("|{}\n", cells.zip(&columns).map(padded).collect::<String>())
    };
    let rule = |(width, align): &(usize, Align)| match align {
        Align::Left => format!(" {} |", "-".repeat(*width)),
        Align::Right => format!(" {}: |", "-".repeat(width - 1)),
    };
    let mut text = row(&mut table.columns().iter().map(|(title, _)| title));
    text += &format!("|{}\n", columns.iter().map(rule).collect::<String>());
    table.rows().iter().for_each(|cells| text += &row(&mut cells.iter()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{bullets, code, strong};

    #[test]
    fn blocks_stand_apart_and_data_marks_nothing() {
        let mut rows = Table::new([("x | y", Align::Left), ("n", Align::Right)]);
        rows.row([code("1|2"), "-5".to_owned()]);
        let item = Item { words: format!("{} <b>", strong("failed")).into(), below: vec!["# c".into()] };
        let blocks = [
            Block::Heading(1, "T".into()),
            Block::Warning(strong("SIMULATED").into()),
            Block::List(vec![item]),
            Block::Table(rows),
            Block::Paragraph("1. no list".into()),
            Block::Command("run ```x".to_owned()),
        ];
        let shown = "# T\n\n> **SIMULATED**\n\n* **failed** &lt;b>\n  * \\# c\n\n\
                     | x \\| y | n   |\n";
        let all = text(&blocks);
        assert!(all.starts_with(&shown[..shown.len() - 10]), "{all}");
        assert!(all.ends_with("|  -5 |\n\n1\\. no list\n\n```sh\nrun ` ` `x\n```\n"), "{all}");
        assert!(bullets::<&str>([]).is_empty());
    }
}
