//! Files of other tools: their configurations become plans, their results become records, their traces become timelines. Starts
//! nothing, prints nothing.
//!
//! A file format is one module of [`formats`](FORMATS) and one line in [`FORMATS`]; a format of traces, of [`traces`].

#![forbid(unsafe_code)]

mod collective;
mod content;
mod contract;
mod counted;
mod decode;
mod fields;
mod formats;
mod here;
mod json;
mod numbers;
mod plan_text;
mod prefix;
mod processes;
mod record_of;
mod results;
mod source;
pub mod traces;
pub mod traffic;
mod tree;

pub use content::{Content, ForeignPlan};
pub use contract::Format;
pub use formats::FORMATS;
pub use here::{CountParameters, Here};
pub use record_of::{ImportedRecord, directory_stem, records};
pub use results::{Details, Figures, Results, Row, Shape};
pub use source::{Line, Source};

use terms::Error;

/// A file that was read: its format, and what it holds.
pub struct ImportedFile {
    /// The format that it was read as.
    pub format: &'static dyn Format,
    /// What it holds.
    pub content: Content,
}

/// The format of this name.
///
/// # Errors
/// When there is none, with the valid values.
pub fn format(name: &str) -> Result<&'static dyn Format, Error> {
    let wanted = terms::normalize(name);
    let found = FORMATS.iter().copied().find(|format| terms::normalize(format.name()) == wanted);
    found.ok_or_else(|| {
        let hint = terms::suggestion(name, FORMATS.iter().map(|format| format.name()));
        Error::new(format!("there is no format `{name}`")).hint(hint)
    })
}

/// The first format that recognises a file.
pub fn recognise(source: &Source) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.recognises(source))
}

/// Reads a file as the format that recognises it, or as the one that the user names.
///
/// # Errors
/// When no format recognises it, or the one that does cannot read it.
pub fn read(source: &Source, named: Option<&'static dyn Format>) -> Result<ImportedFile, Error> {
    let format = named.or_else(|| recognise(source)).ok_or_else(|| {
        if let Some(fault) = json::fault(source) {
            return fault;
        }
        let known: Vec<String> = FORMATS.iter().map(|format| format!("{} ({})", format.name(), format.doc())).collect();
        Error::new(format!("no format recognises {}", source.name()))
            .cause(format!("formats that can be read: {}", known.join("; ")))
            .hint("`--format NAME` reads it as that format and says what does not fit")
    })?;
    let content = format.read(source).map_err(|error| match source.unfinished().filter(|_| !format.is_document()) {
        Some(left_out) => {
            let cause = error.cause.as_ref().map_or(String::new(), |cause| format!("{cause}; "));
            error.cause(cause + &left_out)
        }
        None => error,
    })?;
    Ok(ImportedFile { format, content })
}
