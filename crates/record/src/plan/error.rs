//! What is wrong with a plan: every error with its place, all of them at once.

use std::collections::HashSet;
use std::fmt;

use terms::Error;

use super::source::{At, SourceLocation, Sources, lines};
use crate::secrets::masked_lines;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// Where. None when no line can be named (a plan that is too large, a file that cannot be read).
    pub place: Option<SourceLocation>,
    /// What is wrong, and what would be right.
    pub error: Error,
}

/// Everything that is wrong with a plan. Displayed whole: each error begins with `error: ` and is followed by the line
/// as written, carets, and a hint, so the binary prints it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanErrors {
    /// The first errors, in the order of the file; those of flags come last.
    pub errors: Vec<PlanError>,
    /// How many more there were.
    pub more: usize,
}

impl PlanErrors {
    /// One error without a place.
    pub fn single(error: Error) -> Self {
        Self { errors: vec![PlanError { place: None, error }], more: 0 }
    }
}

impl From<Error> for PlanErrors {
    fn from(error: Error) -> Self {
        Self::single(error)
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: ")?;
        if let Some(SourceLocation { source, position: Some((line, column)), .. }) = &self.place {
            write!(f, "{source}:{line}:{column}: ")?;
        }
        // The place stands below what is wrong there.
        match &self.place {
            Some(place) => Error { what: format!("{}\n{place}", self.error.what), ..self.error.clone() }.fmt(f),
            None => self.error.fmt(f),
        }
    }
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.more > 0 {
            let noun = if self.more == 1 { "error" } else { "errors" };
            write!(f, "\n\nand {} more {noun}", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanError {}
impl std::error::Error for PlanErrors {}

/// Errors that are reported; the rest is counted.
const REPORTED: usize = 20;

/// Collects errors while reading goes on. The same error at the same place counts once: a default is read again for
/// every case that uses it.
pub(crate) struct Diagnostics {
    pub(crate) sources: Sources,
    errors: Vec<PlanError>,
    seen: HashSet<(At, String)>,
    more: usize,
    /// Every call of [`Diagnostics::add`], repeats too.
    pub(crate) added: usize,
}

impl Diagnostics {
    pub(crate) fn new(sources: Sources) -> Self {
        Self { sources, errors: Vec::new(), seen: HashSet::new(), more: 0, added: 0 }
    }

    pub(crate) fn add(&mut self, at: At, error: Error) {
        let Error { what, cause, hint } = error;
        let error = Error { what: lines(&what), cause: cause.as_deref().map(lines), hint: hint.as_deref().map(lines) };
        self.added += 1;
        if self.is_hopeless() {
            self.more += 1;
            return;
        }
        if !self.seen.insert((at, error.what.clone())) {
            return;
        }
        if self.errors.len() == REPORTED {
            self.more += 1;
            return;
        }
        let place = Some(self.sources.place(at));
        let Error { what, cause, hint } = error;
        let error = Error {
            what: masked_lines(&what),
            cause: cause.as_deref().map(masked_lines),
            hint: hint.as_deref().map(masked_lines),
        };
        self.errors.push(PlanError { place, error });
    }

    /// Whether so much is wrong that reading on would only cost time.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.seen.len() >= 10 * REPORTED
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn into_errors(mut self) -> PlanErrors {
        // In the order of the file, flags after it, whichever step found them.
        self.errors.sort_by_key(|error| {
            error.place.as_ref().and_then(|place| place.position).unwrap_or((usize::MAX, usize::MAX))
        });
        PlanErrors { errors: self.errors, more: self.more }
    }
}
