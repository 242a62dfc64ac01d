//! Blocks as Markdown in GitHub's dialect, with tables that read well in a terminal and in a diff.

use super::{Advice, Align, Block, Item, Table, WordPiece, Words};
use crate::markup::{Markdown, Sign, put};

/// Adds a block, with an empty line before it.
pub(crate) fn push(text: &mut Markdown, block: &Block) {
    if block.is_on_pages_alone() || matches!(block, Block::Bars(_)) {
        return;
    }
    if !text.is_empty() {
        text.literal("\n");
    }
    match block {
        Block::Heading(level, words) => {
            text.push_times(Sign::Heading, usize::from(*level));
            put!(Markdown: text, " {}\n", line(words));
        }
        Block::Warning(words) => put!(Markdown: text, "> {}\n", line(words)),
        Block::Paragraph(words) | Block::Note(words) => put!(Markdown: text, "{}\n", line(words)),
        Block::Verdict(_, words) => put!(Markdown: text, "**{}**\n", line(&words.plain().as_str().into())),
        Block::Advice(Advice { what, evidence, action, .. }) => {
            let item = Item { words: what.clone(), below: vec![evidence.clone(), action.clone()] };
            push_item(text, &item);
        }
        Block::Actions(actions) => actions.iter().for_each(|words| put!(Markdown: text, "* {}\n", line(words))),
        Block::List(items) => items.iter().for_each(|item| push_item(text, item)),
        Block::Table(table) => push_table(text, table),
        Block::Contents
        | Block::Bars(_)
        | Block::Tiles(_)
        | Block::Cards(_)
        | Block::OnPage(_)
        | Block::Folded { .. } => {}
        Block::Command(command) => text.push_command(command),
        Block::Figure(chart) => {
            let title = line(&Words::from(chart.spec.title.as_str()));
            put!(Markdown: text, "[![{}](charts/{}.png)](charts/{}.svg)\n", title, chart.stem, chart.stem);
        }
    }
}

/// Blocks as one text.
pub(crate) fn text<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Markdown {
    let mut text = Markdown::new();
    blocks.into_iter().for_each(|block| push(&mut text, block));
    text
}

fn push_item(text: &mut Markdown, item: &Item) {
    put!(Markdown: text, "* {}\n", line(&item.words));
    item.below.iter().for_each(|words| put!(Markdown: text, "  * {}\n", line(words)));
}

/// Words that begin a line.
fn line(words: &Words) -> Markdown {
    let mut text = Markdown::new();
    push_words(&mut text, words, true);
    text
}

fn push_words(text: &mut Markdown, words: &Words, begins: bool) {
    for (at, part) in words.parts().enumerate() {
        match part {
            WordPiece::Text(words) | WordPiece::Link(words, _) => text.push_inert(words, begins && at == 0),
            WordPiece::Code(words) => text.push_code(words),
            WordPiece::Strong(words) => {
                text.literal("**");
                text.push_inert(words, false);
                text.literal("**");
            }
        }
    }
}

/// Cells are escaped twice, for their widths and for the text: all of a large table at once would be held twice.
fn push_table(text: &mut Markdown, table: &Table) {
    let mut widths = vec![3; table.columns().len()];
    let titles = || table.columns().iter().map(|column| &column.title);
    let mut measure = |cells: &mut dyn Iterator<Item = &Words>| {
        for (words, width) in cells.zip(&mut widths) {
            let mut cell = Markdown::new();
            push_words(&mut cell, words, false);
            *width = cell.as_str().chars().count().max(*width);
        }
    };
    measure(&mut titles());
    table.rows().for_each(|cells| measure(&mut cells.iter()));
    let columns: Vec<(usize, Align)> =
        widths.into_iter().zip(table.columns().iter().map(|column| column.align)).collect();
    push_row(text, titles(), &columns);
    text.literal("|");
    for (width, align) in &columns {
        text.literal(" ");
        text.push_times(Sign::Rule, if *align == Align::Right { width - 1 } else { *width });
        text.literal(if *align == Align::Right { ": |" } else { " |" });
    }
    text.literal("\n");
    table.rows().for_each(|cells| push_row(text, cells.iter(), &columns));
}

fn push_row<'w>(text: &mut Markdown, cells: impl Iterator<Item = &'w Words>, columns: &[(usize, Align)]) {
    text.literal("|");
    for (words, (width, align)) in cells.zip(columns) {
        text.literal(" ");
        let begin = text.len();
        push_words(text, words, false);
        let room = width - text.as_str()[begin..].chars().count();
        match align {
            Align::Left => text.push_times(Sign::Space, room),
            Align::Right => text.indent(begin, room),
        }
        text.literal(" |");
    }
    text.literal("\n");
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
        let all = text(&blocks).into_string();
        assert!(all.starts_with(&shown[..shown.len() - 10]), "{all}");
        assert!(all.ends_with("|  -5 |\n\n1\\. no list\n\n```sh\nrun ` ` `x\n```\n"), "{all}");
        assert!(bullets::<&str>([]).is_empty());
    }
}
