//! What a document says, as blocks of words: written for a terminal, as Markdown, as HTML and as PDF, so that the four cannot
//! differ.
//!
//! Knows nothing of records. Words are plain text until a writer escapes them for its language.

mod blocks;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod pdf;
mod plain_page;
mod table;
mod terminal;
mod timeline;
mod words;

pub(crate) use blocks::{Advice, Bars, Block, Card, Item, Tile, Tone, bullets, prose_list};
pub(crate) use table::{Align, Column, Table, TableRow};
pub(crate) use timeline::{TimeChange, TimePoint, Timeline};
pub(crate) use words::{WordPiece, Words, code, link, strong, strong_title};

use std::path::Path;

use crate::Error;
use crate::formats::write::put_at;
use crate::markup::Html;

/// What a command found, for a terminal and for a page.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
}

impl Document {
    /// The document in lines of at most so many columns.
    pub fn text(&self, width: usize) -> String {
        terminal::text(&self.blocks, width)
    }

    /// Writes the document as a page, to a file that the user names.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_page(&self, file: &Path) -> Result<(), Error> {
        put_at(file, &self.page().into_bytes())
    }

    pub(crate) fn page(&self) -> Html {
        plain_page::page(&self.title, &self.blocks)
    }
}
