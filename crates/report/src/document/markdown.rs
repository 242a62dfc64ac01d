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
    let mut text = String::new();
    push_words(&mut text, words, begins);
    text
}

fn push_words(text: &mut String, words: &Words, begins: bool) {
    for (at, part) in words.parts().enumerate() {
        match part {
            Part::Text(words) => text.push_str(&inert(words, begins && at == 0)),
            Part::Code(words) => text.push_str(&code(words)),
            Part::Strong(words) => {
                text.push_str("**");
                text.push_str(&inert(words, false));
                text.push_str("**");
            }
        }
    }
}

/// Cells are escaped twice, for their widths and for the text: all of a large table at once would be held twice.
fn table(table: &Table) -> String {
    let mut widths = vec![3; table.columns().len()];
    let mut cell = String::new();
    let titles = || table.columns().iter().map(|(title, _)| title);
    let mut measure = |cells: &mut dyn Iterator<Item = &Words>| {
        for (words, width) in cells.zip(&mut widths) {
            cell.clear();
            push_words(&mut cell, words, false);
            *width = cell.chars().count().max(*width);
        }
    };
    measure(&mut titles());
    table.rows().iter().for_each(|cells| measure(&mut cells.iter()));
    let columns: Vec<(usize, Align)> =
        widths.into_iter().zip(table.columns().iter().map(|(_, align)| *align)).collect();
    let rule = |(width, align): &(usize, Align)| match align {
        Align::Left => format!(" {} |", "-".repeat(*width)),
        Align::Right => format!(" {}: |", "-".repeat(width - 1)),
    };
    let mut text = String::new();
    push_row(&mut text, titles(), &columns);
    text += &format!("|{}\n", columns.iter().map(rule).collect::<String>());
    table.rows().iter().for_each(|cells| push_row(&mut text, cells.iter(), &columns));
    text
}

fn push_row<'w>(text: &mut String, cells: impl Iterator<Item = &'w Words>, columns: &[(usize, Align)]) {
    text.push('|');
    for (words, (width, align)) in cells.zip(columns) {
        text.push(' ');
        let begin = text.len();
        push_words(text, words, false);
        let room = " ".repeat(width - text[begin..].chars().count());
        match align {
            Align::Left => text.push_str(&room),
            Align::Right => text.insert_str(begin, &room),
        }
        text.push_str(" |");
    }
    text.push('\n');
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
