//! How a run ended, and how every reader says that a record is incomplete.
//!
//! Readers match on [`RunEnd`]: a new way to end then does not compile before each of them says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{Named as _, Status};

use crate::CaseLine;

terms::named! {
    /// What ended a run before its plan was done, and let it write its end.
    pub enum Interruption("interruption") {
        /// Ctrl-C.
        Interrupt = "SIGINT",
        /// A signal that schedulers send at the end of a job's time.
        Terminate = "SIGTERM",
        /// The terminal was closed.
        HangUp = "SIGHUP",
        /// The launcher that started the ranks ended.
        Launcher = "launcher",
    }
}

/// How the run of a record ended, as far as its files and its lock tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// The run came to its end: its plan is done, or its time budget was over.
    #[default]
    Ended,
    /// The run was interrupted, and wrote its end.
    Interrupted(#[schemars(with = "crate::schema::words::SchemaWords<Interruption>")] Interruption),
    /// The run has no end, and no process writes to its record.
    Killed,
    /// A process of this host holds its lock.
    Running,
    /// The run has no end, and this host cannot look at its lock.
    Unknown,
    /// The record is merged, and a run that it is made of is incomplete.
    Part,
}

/// What of a record's cases is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseCounts {
    /// All cases.
    pub cases: usize,
    /// Cases that did not run.
    pub not_run: usize,
    /// Cases that ran, and did not make all trials.
    pub lacking: usize,
}

impl CaseCounts {
    /// Counts the lines that stand for the cases of a record.
    pub fn of<'l>(lines: impl IntoIterator<Item = &'l CaseLine>) -> Self {
        let mut counts = Self::default();
        for line in lines {
            counts.cases += 1;
            counts.not_run += usize::from(line.status == Status::NotRun);
            counts.lacking += usize::from(line.status != Status::NotRun && line.lacks_trials());
        }
        counts
    }

    fn sentence(self) -> String {
        let cases = if self.cases == 1 { "1 case".to_owned() } else { format!("{} cases", self.cases) };
        match (self.not_run, self.lacking) {
            (0, 0) => format!("{cases} ran"),
            (0, lacking) => format!("{lacking} of {cases} did not make all trials"),
            (open, 0) => format!("{open} of {cases} did not run"),
            (open, lacking) => format!("{open} of {cases} did not run, {lacking} did not make all trials"),
        }
    }
}

impl RunEnd {
    /// One word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Interrupted(_) => "interrupted",
            Self::Killed => "killed",
            Self::Running => "running",
            Self::Unknown => "unknown",
            Self::Part => "incomplete",
        }
    }

    /// Why the record is incomplete, in a few words; None where its run came to its end.
    pub fn phrase(self) -> Option<String> {
        match self {
            Self::Ended => None,
            Self::Interrupted(Interruption::Launcher) => Some("interrupted: its launcher ended".to_owned()),
            Self::Interrupted(by) => Some(format!("interrupted by {}", by.name())),
            Self::Killed => Some("killed".to_owned()),
            Self::Running => Some("still running".to_owned()),
            Self::Unknown => Some("killed, or running on another host".to_owned()),
            Self::Part => Some("a merged run is incomplete".to_owned()),
        }
    }

    /// The line that stands over everything that is shown of an incomplete record; None where its run came to its end.
    pub fn banner(self, counts: CaseCounts) -> Option<String> {
        let missing = counts.sentence();
        match self {
            Self::Ended => None,
            Self::Interrupted(Interruption::Launcher) => {
                Some(format!("INTERRUPTED RUN (its launcher ended): {missing}"))
            }
            Self::Interrupted(by) => Some(format!("INTERRUPTED RUN ({}): {missing}", by.name())),
            Self::Killed => Some(format!("KILLED RUN: the record has no end; {missing}, and gates were not checked")),
            Self::Running => Some(format!("UNFINISHED RUN: it is still running; so far {missing}")),
            Self::Unknown => {
                Some(format!("UNFINISHED RUN: it was killed, or is still running on another host; so far {missing}"))
            }
            Self::Part => Some(format!("INCOMPLETE PART: a merged run did not come to its end; {missing}")),
        }
    }

    /// Why a case of the plan has no line.
    pub(crate) const fn why_absent(self) -> &'static str {
        match self {
            Self::Ended | Self::Part => "the record has no line of this case",
            Self::Interrupted(_) => "the run was interrupted before this case had a result",
            Self::Killed => "the run was killed before this case had a result",
            Self::Running => "the run has not come to this case yet",
            Self::Unknown => "the record has no line of this case so far",
        }
    }

    /// Whether the record says nothing of it.
    pub(crate) const fn is_unsaid(&self) -> bool {
        match self {
            Self::Ended => true,
            Self::Interrupted(_) | Self::Killed | Self::Running | Self::Unknown | Self::Part => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [RunEnd; 9] = [
        RunEnd::Ended,
        RunEnd::Interrupted(Interruption::Interrupt),
        RunEnd::Interrupted(Interruption::Terminate),
        RunEnd::Interrupted(Interruption::HangUp),
        RunEnd::Interrupted(Interruption::Launcher),
        RunEnd::Killed,
        RunEnd::Running,
        RunEnd::Unknown,
        RunEnd::Part,
    ];

    #[test]
    fn only_a_run_that_ended_is_not_said_to_be_incomplete() {
        let counts = CaseCounts { cases: 6, not_run: 5, lacking: 1 };
        for end in ALL {
            let said = end.banner(counts);
            assert_eq!((end == RunEnd::Ended, end.is_unsaid()), (said.is_none(), end.phrase().is_none()), "{end:?}");
            if let Some(said) = said {
                assert!(said.contains(": ") && said.contains("5 of 6 cases did not run, 1 did not make all"), "{said}");
            }
            let text = serde_json::to_string(&end).unwrap();
            assert_eq!(serde_json::from_str::<RunEnd>(&text).unwrap(), end, "{text}");
        }
        let end = RunEnd::Interrupted(Interruption::Terminate);
        assert_eq!(serde_json::to_string(&end).unwrap(), r#"{"interrupted":"SIGTERM"}"#);
        let one = |not_run, lacking| CaseCounts { cases: 1, not_run, lacking };
        assert_eq!(end.banner(one(1, 0)).unwrap(), "INTERRUPTED RUN (SIGTERM): 1 of 1 case did not run");
        assert_eq!(end.banner(one(0, 1)).unwrap(), "INTERRUPTED RUN (SIGTERM): 1 of 1 case did not make all trials");
        assert!(RunEnd::Killed.banner(one(0, 0)).unwrap().contains("no end; 1 case ran, and gates were not checked"));
    }
}
