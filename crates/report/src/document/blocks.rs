//! The parts of a document, from a heading to a table.

use view::NamedChart;

use super::{Table, Words};

/// One part of a document.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// Level 1 is the title of the document, 2 a section, 3 a part of it.
    Heading(u8, Words),
    /// What no reader may miss: simulated or damaged data.
    Warning(Words),
    Paragraph(Words),
    /// Where a document with pages lists its sections.
    Contents,
    List(Vec<Item>),
    Table(Table),
    /// A command for a shell.
    Command(String),
    /// A chart.
    Figure(Box<NamedChart>),
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
