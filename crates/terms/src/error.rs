//! The error that a user reads: what, cause, hint. Who prints it, and which exit code it has, is not decided here.

use std::fmt;

/// What could not be done, why, and what to do about it. Displayed as `WHAT`, `cause: ...` and `hint:  ...`, a line each.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Error {
    /// What could not be done, or what is wrong.
    pub what: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Error {
    /// An error that says what is wrong.
    pub fn new(what: impl fmt::Display) -> Self {
        Self { what: what.to_string(), cause: None, hint: None }
    }

    /// Says why.
    #[must_use]
    pub fn cause(self, cause: impl fmt::Display) -> Self {
        Self { cause: Some(cause.to_string()), ..self }
    }

    /// Says what to do.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// `WHAT: CAUSE`, for callers that show the hint elsewhere.
    pub fn sentence(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.what),
            None => self.what.clone(),
        }
    }

    /// `WHAT: CAUSE (hint: HINT)`, for the reason in a case line, which is one line.
    pub fn on_one_line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} (hint: {hint})", self.sentence()),
            None => self.sentence(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(cause) = &self.cause {
            write!(f, "\ncause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            // Further lines stand below the first.
            write!(f, "\nhint:  {}", hint.replace('\n', "\n       "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// The value of a plan's field that is refused. A reader of plans shows the place of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with its value, and what would be right.
    pub error: Error,
    /// The field whose value excludes this one: each of the two would be right with another value of the other.
    pub excluded_by: Option<&'static str>,
}

impl FieldError {
    /// A field, and what is wrong with its value.
    pub fn new(field: &'static str, what: impl fmt::Display) -> Self {
        Self { field, error: Error::new(what), excluded_by: None }
    }

    /// Says what would be right.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { error: self.error.hint(hint), ..self }
    }

    /// Names the field whose value excludes this one.
    #[must_use]
    pub fn excluded_by(self, other: &'static str) -> Self {
        Self { excluded_by: Some(other), ..self }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for FieldError {}

impl From<String> for Error {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Error {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

impl From<FieldError> for Error {
    fn from(refused: FieldError) -> Self {
        refused.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_line_for_each_part_that_it_has() {
        let bare = Error::new("cannot write a/run.json");
        assert_eq!(bare.to_string(), "cannot write a/run.json");
        let several = bare.clone().hint("one\nother");
        assert_eq!(several.to_string(), "cannot write a/run.json\nhint:  one\n       other");
        let whole = bare.clone().cause("no space left on device").hint("free some space");
        assert_eq!(
            whole.to_string(),
            "cannot write a/run.json\ncause: no space left on device\nhint:  free some space"
        );
        assert_eq!(whole.on_one_line(), "cannot write a/run.json: no space left on device (hint: free some space)");
        assert_eq!(bare.clone().hint("look").on_one_line(), "cannot write a/run.json (hint: look)");
    }

    #[test]
    fn a_field_error_is_displayed_as_its_error() {
        let refused = FieldError::new("ranks", "3 ranks do not divide 8").hint("2, 4 or 8");
        assert_eq!(refused.to_string(), Error::from(refused.clone()).to_string());
        assert_eq!(refused.to_string(), "3 ranks do not divide 8\nhint:  2, 4 or 8");
    }
}
