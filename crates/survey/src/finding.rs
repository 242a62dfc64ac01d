//! A row of the survey.

use std::path::PathBuf;

use serde_json::Value;

/// What is true of a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Found, and works.
    Ready,
    /// Found, works, and costs performance as it is set.
    Slow,
    /// Found, and does not work, or breaks what uses it.
    Misconfigured,
    /// Not found.
    Missing,
}

impl State {
    /// The one spelling of the state.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Slow => "slow",
            Self::Misconfigured => "misconfigured",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it belongs to ("MPI").
    pub group: &'static str,
    /// What it is ("Open MPI").
    pub name: String,
    /// What is true of it.
    pub state: State,
    /// What was found: version and path, a setting, or why it is missing.
    pub found: String,
    /// What this state means for measurements.
    pub impact: Option<String>,
    /// The command, or the act, that fixes it.
    pub fix: Option<String>,
    /// Whether the user named it, so that its absence is an error.
    pub asked: bool,
    /// The MPI library that it is about, where ranks can be started with it.
    pub library: Option<PathBuf>,
    /// A table that stands below the row; the first line is its head.
    pub table: Vec<Vec<String>>,
    /// What was found, for programs.
    pub details: Option<Value>,
}

impl Finding {
    fn new(name: impl Into<String>, state: State, found: impl Into<String>) -> Self {
        // One line each: what libraries and programs say may have several, and characters that move a terminal's cursor.
        let found = found.into().split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "?");
        Self {
            group: "",
            name: name.into(),
            state,
            found,
            impact: None,
            fix: None,
            asked: false,
            library: None,
            table: Vec::new(),
            details: None,
        }
    }

    /// A finding that something works.
    pub fn ready(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, State::Ready, found)
    }

    /// A finding that something works, slowly.
    pub fn slow(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, State::Slow, found)
    }

    /// A finding that something is there and wrong.
    pub fn misconfigured(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, State::Misconfigured, found)
    }

    /// A finding that something is not there.
    pub fn missing(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(name, State::Missing, found)
    }

    /// Adds the impact.
    #[must_use]
    pub fn impact(mut self, impact: impl Into<String>) -> Self {
        self.impact = Some(impact.into());
        self
    }

    /// Adds what fixes it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Puts the finding in this group.
    #[must_use]
    pub const fn group(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    /// About this MPI library, with which ranks can be started.
    #[must_use]
    pub fn library(mut self, path: impl Into<PathBuf>) -> Self {
        self.library = Some(path.into());
        self
    }

    /// With a table below it.
    #[must_use]
    pub fn table(mut self, table: Vec<Vec<String>>) -> Self {
        self.table = table;
        self
    }

    /// With what programs read of it.
    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Whether something is wrong that the user should not run with: it is misconfigured, or was asked for by name and
    /// is not there.
    pub fn is_trouble(&self) -> bool {
        self.state == State::Misconfigured || self.asked && self.state == State::Missing
    }
}
