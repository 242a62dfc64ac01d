//! The parts of a document, from a heading to a table.

use view::NamedChart;

use super::timeline::Timeline;
use super::{Table, Words};

/// One part of a document.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// Level 1 is the title of the document, 2 a section, 3 a part of it.
    Heading(u8, Words),
    /// What no reader may miss: simulated or damaged data.
    Warning(Words),
    Paragraph(Words),
    /// The answer in one sentence.
    Verdict(Tone, Words),
    /// What to do, the most urgent first.
    Actions(Vec<Words>),
    /// What was found, what shows it, and what to do about it.
    Advice(Advice),
    /// Parts of a whole as bars of letters, one bar a row; a page has a chart instead.
    Bars(Bars),
    /// What a reader may pass over.
    Note(Words),
    /// Many things of one kind, such as the nodes of a fleet, side by side.
    Tiles(Vec<Tile>),
    /// Times over runs, a chart each.
    Cards(Vec<Card>),
    /// What only a page has room for.
    OnPage(Vec<Block>),
    /// What a page shows when its title is clicked, or at once.
    Folded {
        title: String,
        open: bool,
        blocks: Vec<Block>,
    },
    /// Where a document with pages lists its sections.
    Contents,
    List(Vec<Item>),
    Table(Table),
    /// A command for a shell.
    Command(String),
    /// A chart.
    Figure(Box<NamedChart>),
}

impl Block {
    /// Whether only a page shows it: text has no tiles, and nothing to click.
    pub(super) fn is_on_pages_alone(&self) -> bool {
        matches!(self, Self::Contents | Self::Tiles(_) | Self::Cards(_) | Self::OnPage(_) | Self::Folded { .. })
    }
}

/// How something is, in words and in colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// Nothing is said of it.
    #[default]
    Plain,
    /// Nothing has to be done.
    Good,
    /// It is right, and has to be read with care; or nobody can tell.
    Care,
    /// Something is wrong.
    Bad,
}

/// One of many things of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) tone: Tone,
    pub(crate) name: String,
    /// What stands below the name: `+12%`.
    pub(crate) figure: String,
    /// What is shown when the pointer rests on it.
    pub(crate) tip: String,
}

/// What was found, and what to do about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advice {
    /// The place among others, from 1.
    pub(crate) number: usize,
    pub(crate) what: Words,
    pub(crate) evidence: Words,
    pub(crate) action: Words,
}

/// Parts of a whole, one whole a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bars {
    /// Above the labels, the totals and the bars.
    pub(crate) titles: [&'static str; 3],
    /// Each part, with its letter.
    pub(crate) kinds: Vec<(&'static str, char)>,
    /// Label, total as it is read, and the parts in the order of their kinds.
    pub(crate) rows: Vec<(String, String, Vec<f64>)>,
    /// Rows that are not shown.
    pub(crate) more: usize,
}

/// Times over runs with their title.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Card {
    pub(crate) title: String,
    /// What stands below the title.
    pub(crate) note: String,
    pub(crate) timeline: Timeline,
}

/// An item of a list, and the items below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Item {
    pub(crate) words: Words,
    pub(crate) below: Vec<Words>,
}

impl<T: Into<Words>> From<T> for Item {
    fn from(words: T) -> Self {
        Self { words: words.into(), below: Vec::new() }
    }
}

/// Sentences as a list, their words between backticks as code; nothing where there is none.
pub(crate) fn prose_list<T: AsRef<str>>(sentences: impl IntoIterator<Item = T>) -> Vec<Block> {
    bullets(sentences.into_iter().map(|sentence| Words::prose(sentence.as_ref())))
}

/// Lines of words as a list; nothing where there is none.
pub(crate) fn bullets<T: Into<Words>>(lines: impl IntoIterator<Item = T>) -> Vec<Block> {
    let items: Vec<Item> = lines.into_iter().map(Item::from).collect();
    if items.is_empty() { Vec::new() } else { vec![Block::List(items)] }
}
