//! The end of a command that could not do what it was asked for: the errors that its user reads, as text or as JSON, and
//! the exit code. No other part of this program says what an error looks like.

use std::fmt;

use record::{PlanError, PlanErrors, StoreError};
use serde_json::{Value, json};
use terms::Error;

/// An end with errors.
#[derive(Debug)]
pub(crate) struct Failure {
    errors: PlanErrors,
    /// The exit code.
    pub(crate) code: u8,
}

impl Failure {
    /// A failure of what could not run.
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Error::new(what.to_string()).into()
    }

    /// Says why.
    pub(crate) fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.each(|error| error.cause = Some(cause.to_string()));
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.each(|error| error.hint = Some(hint.to_string()));
        self
    }

    /// The errors as the cause of another, in one line.
    pub(crate) fn on_one_line(&self) -> String {
        let errors: Vec<String> = self.errors.errors.iter().map(|placed| placed.error.on_one_line()).collect();
        errors.join("; ")
    }

    /// Sets another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    fn each(&mut self, change: impl Fn(&mut Error)) {
        self.errors.errors.iter_mut().map(|placed| &mut placed.error).for_each(|error| {
            change(error);
            without_secrets(error);
        });
    }

    /// One line for a program: `{"errors":[{"what":...,"cause":...,"hint":...}]}`. What an error lacks is left out. Errors
    /// of a plan have a `place`; `more` counts those that are not listed.
    pub(crate) fn json(&self) -> String {
        let error = |PlanError { place, error: Error { what, cause, hint } }: &PlanError| {
            let mut object = json!({ "what": what });
            let place = place.as_ref().map(|place| match place.position {
                Some((line, column)) => json!({ "source": place.source, "line": line, "column": column }),
                None => json!({ "source": place.source }),
            });
            let parts =
                [("cause", cause.clone().map(Value::from)), ("hint", hint.clone().map(Value::from)), ("place", place)];
            for (name, part) in parts {
                part.into_iter().for_each(|part| object[name] = part);
            }
            object
        };
        let mut all = json!({ "errors": self.errors.errors.iter().map(error).collect::<Vec<_>>() });
        if self.errors.more > 0 {
            all["more"] = self.errors.more.into();
        }
        all.to_string()
    }
}

/// As a person reads it: `error: WHAT`, `cause: ...` and `hint:  ...`, a line each.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.fmt(f)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        PlanErrors::single(error).into()
    }
}

impl From<PlanErrors> for Failure {
    fn from(errors: PlanErrors) -> Self {
        let mut failure = Self { errors, code: 2 };
        failure.each(|_| {});
        failure
    }
}

/// An error may quote what the user wrote: a password in it is not shown.
fn without_secrets(error: &mut Error) {
    error.what = record::masked_lines(&error.what);
    error.cause = error.cause.as_deref().map(record::masked_lines);
    error.hint = error.hint.as_deref().map(record::masked_lines);
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_text_and_one_object() {
        let failure = Failure::new("cannot write a").cause("no space left on device").hint("free some space");
        assert_eq!(
            failure.to_string(),
            "error: cannot write a\ncause: no space left on device\nhint:  free some space"
        );
        let expected = json!({ "errors": [
            { "what": "cannot write a", "cause": "no space left on device", "hint": "free some space" }
        ] });
        assert_eq!(serde_json::from_str::<Value>(&failure.json()).unwrap(), expected);
        assert_eq!(Failure::new("no").json(), r#"{"errors":[{"what":"no"}]}"#);
    }

    #[test]
    fn errors_of_a_plan_keep_their_places() {
        let plan = "experiment: e\ncases:\n  - {benchmark: collective, op: all_reduc}\n";
        let errors = record::plan::read(plan, "p.yaml", &benchmarks::abouts(), &[]).unwrap_err();
        let failure = Failure::from(errors);
        assert!(failure.to_string().starts_with("error: p.yaml:3:33: "), "{failure}");
        let json: Value = serde_json::from_str(&failure.json()).unwrap();
        assert_eq!(json["errors"][0]["place"], json!({ "source": "p.yaml", "line": 3, "column": 33 }), "{json}");
        assert!(json["errors"][0]["what"].as_str().unwrap().contains("all_reduc"), "{json}");
        assert!(json["errors"][0]["hint"].as_str().is_some() && json.get("more").is_none(), "{json}");
    }
}
