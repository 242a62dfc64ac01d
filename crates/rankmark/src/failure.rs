//! What the user is told when something could not be done: what, cause, hint.

use record::{PlanErrors, StoreError};

/// An end with a message.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The whole text, beginning with `error: `.
    pub(crate) text: String,
    /// The exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// It could not run.
    pub(crate) fn new(what: impl std::fmt::Display, cause: Option<String>, hint: Option<&str>) -> Self {
        let mut text = format!("error: {what}");
        if let Some(cause) = cause {
            text.push_str(&format!("\ncause: {cause}"));
        }
        if let Some(hint) = hint {
            text.push_str(&format!("\nhint:  {hint}"));
        }
        Self { text, code: 2 }
    }
}

impl From<PlanErrors> for Failure {
    fn from(errors: PlanErrors) -> Self {
        Self { text: errors.to_string(), code: 2 }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(&error.what, error.cause.clone(), error.hint.as_deref())
    }
}

impl From<report::Error> for Failure {
    fn from(error: report::Error) -> Self {
        Self::new(&error, error.cause(), Some(error.hint()))
    }
}
