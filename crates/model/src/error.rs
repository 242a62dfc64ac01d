//! Why a model cannot be built.

/// What does not fit, with the arithmetic, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The setting at fault as the user wrote it, or "model".
    pub field: String,
    /// What does not fit.
    pub message: String,
    /// What would.
    pub hint: String,
}

impl Error {
    pub(crate) fn new(field: &str, message: String, hint: String) -> Self {
        Self { field: field.to_owned(), message, hint }
    }
}
