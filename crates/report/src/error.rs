//! What can go wrong while a report is written. Reading the record has errors of its own, which `record` words.

use std::io;
use std::path::Path;

use terms::Error;

/// A file of the report could not be written.
pub(crate) fn unwritten(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::InvalidInput => {
            "nothing of the record is lost: put a plain file or folder there, then `rankmark report DIR` writes it again"
        }
        io::ErrorKind::FileTooLarge => {
            "nothing of the record is lost: raise the limit on file sizes (`ulimit -f`), then `rankmark report DIR` \
             writes it again"
        }
        _ => "nothing of the record is lost: free space or permissions, then `rankmark report DIR` writes it again",
    };
    Error::new(format!("the report's file {} could not be written", path.display())).cause(error.to_string()).hint(hint)
}

/// A picture could not be encoded.
pub(crate) fn not_encoded(cause: &impl ToString) -> Error {
    Error::new("a chart could not be encoded as PNG")
        .cause(cause.to_string())
        .hint("the SVG of the same chart does not need the encoder; please report this as a fault")
}

/// The PDF could not be made of its blocks.
pub(crate) fn not_set(cause: String) -> Error {
    Error::new("the PDF could not be made")
        .cause(cause)
        .hint("`--format html` and `--format markdown` say the same; please report this as a fault")
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
    Error::new(what).hint("the formats are listed by `rankmark report --help`")
}
