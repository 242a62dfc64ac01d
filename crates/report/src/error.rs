//! What can go wrong while a report is written.

use std::path::PathBuf;

/// What went wrong; [`Error::cause`] and [`Error::hint`] complete the message.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the report could not be written.
    #[error("the report's file {} could not be written", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A picture could not be encoded.
    #[error("a chart could not be encoded as PNG")]
    Png {
        /// What the encoder said.
        cause: String,
    },
    /// The record could not be read.
    #[error("{}", .0.what)]
    Record(#[from] record::StoreError),
    /// No format has this name.
    #[error("{0}")]
    UnknownFormat(String),
}

impl Error {
    /// Why, in the words of whoever refused.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Write { source, .. } => Some(source.to_string()),
            Self::Png { cause } => Some(cause.clone()),
            Self::Record(error) => error.cause.clone(),
            Self::UnknownFormat(_) => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &str {
        match self {
            Self::Write { source, .. } if source.kind() == std::io::ErrorKind::InvalidInput => {
                "the record itself is complete: put a plain file or folder there, then `rankmark report DIR` writes it again"
            }
            Self::Write { .. } => {
                "the record itself is complete: free space or permissions, then `rankmark report DIR` writes it again"
            }
            Self::Png { .. } => "the SVG of the same chart does not need the encoder; please report this as a fault",
            Self::Record(error) => {
                error.hint.as_deref().unwrap_or("name the directory of a run: the one that holds its run.json")
            }
            Self::UnknownFormat(_) => "the formats are listed by `rankmark report --help`",
        }
    }
}
