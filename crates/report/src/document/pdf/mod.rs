//! A document as PDF: set on pages, tagged for readers who hear it, the same bytes for the same document.
//!
//! `set` puts blocks on pages as drawings of known places, with what each belongs to; `write` draws the pages. What no
//! reader may miss is on every page.

mod columns;
mod flow;
mod fonts;
mod frame;
mod ink;
mod lines;
mod look;
mod page;
mod picture;
mod set;
mod table;
mod tags;
#[cfg(test)]
mod tests;
mod text;
mod write;

use std::collections::BTreeSet;

use krilla::configure::ValidationError;
use krilla::error::KrillaError;
use view::number::count;
use view::one_line;

use super::blocks::Block;

/// What a document is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) title: &'a str,
    /// The program that wrote it.
    pub(crate) program: &'a str,
    /// When the run started (RFC 3339): the date of the document. Other text gives it none.
    pub(crate) started: &'a str,
}

/// A PDF.
#[derive(Clone, Debug)]
pub(crate) struct Pdf {
    pub(crate) content: Vec<u8>,
    /// Why it does not claim PDF/UA-1, if so.
    pub(crate) remark: Option<String>,
}

/// Sets the blocks. The same document gives the same bytes.
///
/// # Errors
/// When the PDF cannot be written.
pub(crate) fn set(about: &About, blocks: Vec<Block>) -> Result<Pdf, String> {
    let [title, program, started] = [about.title, about.program, about.started].map(named);
    let title = if title.is_empty() { "Report".to_owned() } else { title };
    let about = About { title: &title, program: &program, started: &started };
    let laid = set::lay_out(&title, &started, blocks);
    match write::write(&about, &laid, true) {
        Ok(content) => Ok(Pdf { content, remark: None }),
        // Tagged all the same. Text in a script that no font has is the usual reason.
        Err(KrillaError::Validation(errors)) => {
            let errors: Vec<ValidationError> = errors.into_iter().map(|(error, _)| error).collect();
            let remark = Some(format!("the PDF is tagged, but does not claim PDF/UA-1: {}", reason(&errors)));
            let content = write::write(&about, &laid, false).map_err(|error| unwritten(&error))?;
            Ok(Pdf { content, remark })
        }
        Err(error) => Err(unwritten(&error)),
    }
}

/// A line for the metadata, which are XML: two characters cannot stand there.
fn named(text: &str) -> String {
    one_line(&text.replace(['\u{FFFE}', '\u{FFFF}'], "\u{FFFD}"))
}

fn unwritten(error: &KrillaError) -> String {
    format!("the PDF cannot be written: {error}")
}

/// What keeps a document from being PDF/UA-1, as one line.
fn reason(errors: &[ValidationError]) -> String {
    let missing: BTreeSet<&str> = errors
        .iter()
        .filter_map(|error| match error {
            ValidationError::ContainsNotDefGlyph(_, _, text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut names = missing.iter().map(|text| {
        let codes: Vec<String> = text.chars().map(|character| format!("U+{:04X}", u32::from(character))).collect();
        format!("no built-in font has `{text}` ({})", codes.join(" "))
    });
    match (names.next(), missing.len(), errors.first()) {
        (Some(first), 1, _) => first,
        (Some(first), number, _) => format!("{first}, and {}", count(number - 1, "more character", "more characters")),
        (None, _, Some(error)) => format!("{error:?}"),
        (None, _, None) => "no reason was given".to_owned(),
    }
}
