//! Blocks as lines of a terminal.

use view::terminal::{self, Cell, Side, Style, hanging, sparkline, wrap};

use super::{Advice, Align, Bars, Block, Column, Item, Table, Tone, WordPiece, Words};

/// Characters of a line of values, where there is room.
const SPARK: usize = 20;

/// Longer lines of prose are hard to read.
const PROSE: usize = 100;

/// Blocks as text of at most so many columns.
pub(super) fn text(blocks: &[Block], width: usize) -> String {
    let mut out = String::new();
    let mut before: Option<&Block> = None;
    for block in blocks.iter().filter(|block| !block.is_on_pages_alone()) {
        let lines = self::block(block, width);
        if lines.is_empty() {
            continue;
        }
        if before.is_some_and(|before| !is_tight(before, block)) {
            out.push('\n');
        }
        out += &lines;
        before = Some(block);
    }
    out
}

/// Whether no empty line stands between two blocks.
fn is_tight(before: &Block, block: &Block) -> bool {
    let is_text = |block: &Block| matches!(block, Block::Paragraph(_) | Block::Warning(_) | Block::Note(_));
    match (before, block) {
        (Block::Heading(..), _) | (Block::Verdict(..), Block::Warning(_)) | (_, Block::Actions(_)) => true,
        (Block::Verdict(..), Block::Paragraph(_)) => true,
        (_, Block::Verdict(..)) => is_text(before),
        _ => is_text(before) && is_text(block),
    }
}

fn block(block: &Block, screen: usize) -> String {
    let width = screen.min(PROSE);
    match block {
        Block::Heading(_, words) | Block::Verdict(_, words) => {
            format!("{}\n", Style::Bold.paint(&wrap(&said(words), width)))
        }
        Block::Warning(words) => warning(words, width),
        Block::Paragraph(words) => format!("{}\n", wrap(&said(words), width)),
        Block::Note(words) => hung("note: ", std::iter::once(words), width),
        Block::Advice(advice) => self::advice(advice, width),
        Block::Bars(bars) => self::bars(bars, screen),
        Block::Actions(actions) => hung("do: ", actions.iter(), width),
        Block::List(items) => items.iter().map(|item| self::item(item, width)).collect(),
        Block::Table(table) => self::table(table, screen),
        Block::Command(command) => format!("  {command}\n"),
        Block::Figure(_)
        | Block::Contents
        | Block::Tiles(_)
        | Block::Cards(_)
        | Block::OnPage(_)
        | Block::Folded { .. } => String::new(),
    }
}

fn advice(Advice { number, what, evidence, action }: &Advice, width: usize) -> String {
    let one = |label: &str, words: &Words| hung(label, std::iter::once(words), width);
    one(&format!("{number}. "), what) + &one("   evidence: ", evidence) + &one("   do: ", action)
}

/// A letter for each part, as long as its share of the longest bar.
fn bars(of: &Bars, screen: usize) -> String {
    let width = screen.saturating_sub(20).clamp(20, 80);
    let longest = of.rows.iter().map(|(.., parts)| parts.iter().sum::<f64>()).fold(0.0, f64::max).max(1e-12);
    let [label, total, bar] = of.titles;
    let mut table = terminal::Table::new([
        terminal::Column::right(label),
        terminal::Column::right(total),
        terminal::Column::left(bar),
    ]);
    for (label, total, parts) in &of.rows {
        let (mut bar, mut sum) = (String::new(), 0.0);
        for (part, (_, letter)) in parts.iter().zip(&of.kinds) {
            sum += part;
            let end = (sum / longest * width as f64).round() as usize;
            bar.extend(std::iter::repeat_n(*letter, end.saturating_sub(bar.len())));
        }
        table.push(terminal::Row::new([view::one_line(label), total.clone(), bar]));
    }
    let used = |at: usize| of.rows.iter().any(|(.., parts)| parts.get(at).is_some_and(|part| *part > 0.0));
    let key: Vec<String> = of
        .kinds
        .iter()
        .enumerate()
        .filter(|(at, _)| used(*at))
        .map(|(_, (name, letter))| format!("{letter} {name}"))
        .collect();
    let more = if of.more > 0 { format!("... {} more\n", of.more) } else { String::new() };
    format!("{}{more}{:16}{}\n", table.text(usize::MAX), "", key.join("   "))
}

/// Words with a label before each, the lines after the first indented.
fn hung<'w>(label: &str, all: impl Iterator<Item = &'w Words>, width: usize) -> String {
    all.map(|words| format!("{}\n", hanging(label, &said(words), width))).collect()
}

/// A warning begins with a word in capitals, or says that it is one.
fn warning(words: &Words, width: usize) -> String {
    let text = wrap(&said(words), width);
    let first = text.split([' ', ':', '\n']).next().unwrap_or_default();
    if first.len() < 3 || !first.chars().all(|letter| letter.is_uppercase()) {
        return hung("warning: ", std::iter::once(words), width);
    }
    format!("{}{}\n", Style::Warning.paint(first), &text[first.len()..])
}

fn item(Item { words, below }: &Item, width: usize) -> String {
    hung("* ", std::iter::once(words), width) + &hung("  * ", below.iter(), width)
}

/// Words without their marks; code stands between backticks, as a person would type it in prose.
fn said(words: &Words) -> String {
    let part = |part: WordPiece<'_>| match part {
        WordPiece::Code(text) => format!("`{text}`"),
        other => other.text().to_owned(),
    };
    words.parts().map(part).collect()
}

/// The table, with lines of values as long as there is room for; then without columns that give way; then its cells wrap.
fn table(table: &Table, width: usize) -> String {
    let drawn = table.columns().iter().enumerate().any(|(at, _)| table.drawn(0, at).is_some());
    if !drawn {
        return laid_out(table, SPARK, true).text(width);
    }
    let whole = [SPARK, SPARK / 2].map(|spark| laid_out(table, spark, false));
    let fitting = whole.into_iter().find(|table| table.fits(width));
    fitting.unwrap_or_else(|| laid_out(table, SPARK / 2, true)).text(width)
}

fn laid_out(table: &Table, spark: usize, wraps: bool) -> terminal::Table {
    let mut out = terminal::Table::new(table.columns().iter().map(|column| self::column(column, wraps)));
    for (number, cells) in table.rows().enumerate() {
        let cell = |(at, words): (usize, &Words)| match table.drawn(number, at) {
            Some(timeline) => {
                let values: Vec<f64> = timeline.points.iter().map(|point| point.seconds).collect();
                Cell::from(sparkline(&values, spark))
            }
            None => Cell::styled(words.plain(), style(table.tone(number, at))),
        };
        out.push(terminal::Row::new(cells.iter().enumerate().map(cell)));
    }
    out
}

fn column(column: &Column, wraps: bool) -> terminal::Column {
    let side = if column.align == Align::Right { Side::Right } else { Side::Left };
    let out = terminal::Column::new(column.title.plain(), side).gives_way(column.gives_way);
    let out = if column.optional { out.optional() } else { out };
    match column.wraps.filter(|_| wraps) {
        Some([preferred, fewest]) => out.wraps(preferred, fewest),
        None => out,
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::Plain,
        Tone::Good => Style::Green,
        Tone::Care => Style::Yellow,
        Tone::Bad => Style::Red,
    }
}
