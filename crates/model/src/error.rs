//! Why a model cannot be built.

/// What does not fit, with the arithmetic, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ModelError {
    /// The setting at fault as the user wrote it, or "model".
    pub field: String,
    /// What does not fit, and what would.
    pub error: terms::Error,
}

impl ModelError {
    pub(crate) fn new(field: &str, what: String, hint: String) -> Self {
        Self { field: field.to_owned(), error: terms::Error::new(what).hint(hint) }
    }
}
