//! Files of other tools: their configurations become plans, their results become records, their traces become timelines. Starts
//! nothing, prints nothing.
//!
//! A file format is one module of [`formats`](FORMATS) and one line in [`FORMATS`]; a format of traces, of [`traces`].

#![forbid(unsafe_code)]

pub mod archive;
mod cases;
mod collective;
mod content;
mod counted;
mod decode;
mod fields;
mod format;
mod formats;
mod given;
mod here;
mod json;
pub mod lines;
mod nearest;
mod numbers;
mod pasted;
mod plan_text;
mod prefix;
mod processes;
mod record_of;
mod results;
mod said;
mod several;
mod source;
pub mod traces;
pub mod traffic;
mod tree;

pub use collective::operation;
pub use content::{Content, ForeignPlan};
pub use format::Format;
pub use formats::FORMATS;
pub use here::{CountParameters, Here};
pub use record_of::{ImportedRecord, directory_stem, records};
pub use results::{Details, Figures, Results, Row, Shape};
pub use said::SaidRecord;
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

/// Reads a file as the format that recognises it, or as the one that the user names. A file may hold results of several tools.
///
/// # Errors
/// When no format recognises it, those that do cannot read it, or it contradicts what the user says of it.
pub fn read(source: &Source, named: Option<&'static dyn Format>) -> Result<ImportedFile, Error> {
    let mut found: Vec<&'static dyn Format> = match named {
        Some(format) => vec![format],
        None => FORMATS.iter().copied().filter(|format| format.recognises(source)).collect(),
    };
    // A document is of one tool.
    if found.first().is_some_and(|format| format.is_document()) {
        found.truncate(1);
    }
    let (found, twins) = without_twins(found);
    let mut file = match found.as_slice() {
        [] => return Err(json::fault(source).unwrap_or_else(|| nearest::refusal(source))),
        [format] => ImportedFile { format: *format, content: read_as(source, *format)? },
        several => several::read(source, several)?,
    };
    if let Content::Results(results) = &mut file.content {
        given::check(source, results)?;
        for twin in twins {
            let what = format!("steps that {0} printed of the same training: `--format {0}` reads those", twin.name());
            results.iter_mut().take(1).for_each(|first| first.leave_out(what.clone()));
        }
    }
    Ok(file)
}

/// A format that was found.
type FoundFormat = &'static dyn Format;

/// The formats without all logs of trainings but the first, and those.
fn without_twins(found: Vec<FoundFormat>) -> (Vec<FoundFormat>, Vec<FoundFormat>) {
    let first = found.iter().position(|format| format.is_of_trainings());
    let (mut kept, mut twins) = (Vec::new(), Vec::new());
    for (at, format) in found.into_iter().enumerate() {
        match format.is_of_trainings() && Some(at) != first {
            true => twins.push(format),
            false => kept.push(format),
        }
    }
    (kept, twins)
}

/// Reads a file as this format.
fn read_as(source: &Source, format: &'static dyn Format) -> Result<Content, Error> {
    format.read(source).map_err(|error| match source.unfinished().filter(|_| !format.is_document()) {
        Some(left_out) => {
            let cause = error.cause.as_ref().map_or(String::new(), |cause| format!("{cause}; "));
            error.cause(cause + &left_out)
        }
        None => error,
    })
}
