//! What can go wrong while a report is written. Reading the record has errors of its own, which `record` words.

use std::io;
use std::path::Path;

use terms::Error;

/// A file of the report could not be written.
pub(crate) fn unwritten(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::InvalidInput => {
            "the record itself is complete: put a plain file or folder there, then run `rankmark report DIR`"
        }
        io::ErrorKind::FileTooLarge => {
            "the record itself is complete: raise the limit on file sizes (`ulimit -f`), then run `rankmark report DIR`"
        }
        _ => "the record itself is complete: free some space or fix the permissions, then run `rankmark report DIR`",
    };
    Error::new(format!("the report's file {} could not be written", path.display())).cause(error.to_string()).hint(hint)
}

/// A picture could not be encoded.
pub(crate) fn not_encoded(cause: &impl ToString) -> Error {
    Error::new("a chart could not be encoded as PNG")
        .cause(cause.to_string())
        .hint("use `--format svg`, which does not need the encoder; please report this as a bug")
}

/// The PDF could not be made of its blocks.
pub(crate) fn not_set(cause: String) -> Error {
    Error::new("the PDF could not be made")
        .cause(cause)
        .hint("`--format html` and `--format markdown` have the same content; please report this as a bug")
}

/// The record could not be read.
pub(crate) fn unread(error: record::StoreError) -> Error {
    let error = Error::from(error);
    match error.hint {
        Some(_) => error,
        None => error.hint("name the directory of a run: the one that holds its run.json"),
    }
}

/// No format has this name; `what` says so.
pub(crate) fn unknown_format(what: String) -> Error {
    Error::new(what).hint("`rankmark report --help` lists the formats")
}
