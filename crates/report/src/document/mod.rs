//! What a document says, as blocks of words: written as Markdown, as HTML and as PDF, so that the three cannot differ.
//!
//! Knows nothing of records. Words are plain text until a writer escapes them for its language.

mod blocks;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod pdf;
mod table;
mod words;

pub(crate) use blocks::{Block, Item, bullets, prose_list};
pub(crate) use table::{Align, Table};
pub(crate) use words::{Part, Words, code, strong, strong_title};
