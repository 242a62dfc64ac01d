//! `rankmark-pdf`, the program that sets PDFs: where it is, and how it is run. It is apart from this one because typst
//! takes about 800 s of processor time to build (ARCHITECTURE.md).

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use process::child::{self, Ended};
use terms::Error;

use crate::environment;

/// Its name.
pub(crate) const PROGRAM: &str = "rankmark-pdf";
/// Long enough for any report; one that hangs ends.
const LIMIT: Duration = Duration::from_secs(300);

/// The program.
pub(crate) struct Typesetter {
    path: PathBuf,
    /// What it said beside PDFs.
    remarks: RefCell<Vec<String>>,
}

impl Typesetter {
    /// The one beside this program, else the first on the path.
    pub(crate) fn find() -> Option<Self> {
        let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
        let folders: Vec<PathBuf> =
            beside.into_iter().chain(environment::search_path()).filter(|folder| folder.is_absolute()).collect();
        process::first_program(&folders, PROGRAM).map(|path| Self { path, remarks: RefCell::default() })
    }

    /// Where these formats need it.
    ///
    /// # Errors
    /// When they do, and it is not there.
    pub(crate) fn of_formats(formats: &[&dyn report::Format]) -> Result<Option<Self>, Error> {
        match formats.iter().any(|format| format.name() == "pdf") {
            true => Self::find().map(Some).ok_or_else(missing),
            false => Ok(None),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it said beside the PDFs that it made, a line each.
    pub(crate) fn take_remarks(&self) -> String {
        self.remarks.take().concat()
    }

    /// The PDF of a document.
    ///
    /// # Errors
    /// When the program cannot be run, or refuses the document.
    pub(crate) fn set(&self, document: &[u8]) -> Result<Vec<u8>, Error> {
        let shown = self.path.display();
        let failed = |cause: String| {
            Error::new("the PDF could not be made")
                .cause(format!("{shown} {cause}"))
                .hint("`rankmark-pdf --version` and `rankmark version` must agree: `cargo xtask pdf` builds it again")
        };
        let ran = child::filter(&self.path, document, LIMIT);
        let (pdf, outcome) = ran.map_err(|error| failed(format!("could not be started: {error}")))?;
        match outcome.ended {
            Ended::Code(0) if pdf.starts_with(b"%PDF-") => {
                self.remarks
                    .borrow_mut()
                    .extend(outcome.err.lines().map(|line| format!("{}\n", child::printable(line))));
                Ok(pdf)
            }
            Ended::Code(0) => Err(failed("wrote something else".to_owned())),
            _ => Err(failed(outcome.complaint())),
        }
    }
}

/// It is not there.
pub(crate) fn missing() -> Error {
    Error::new(format!("a PDF needs the program `{PROGRAM}`"))
        .cause("it is neither in the folder of this program nor on PATH")
        .hint("in a clone of Rankmark: cargo xtask pdf")
}
