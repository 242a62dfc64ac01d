//! What a benchmark adds to its declaration: charts and findings that must be computed from several case lines.

use std::collections::BTreeMap;

use record::CaseLine;
use stats::PairTimes;

use crate::charts::NamedChart;
use crate::next::Next;
use crate::study::Operation;

/// A statement about the data, with its premise met.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// One sentence.
    pub text: String,
    /// Whether it comes before what the sections show: something is wrong with the machine.
    pub first: bool,
}

impl Finding {
    /// A finding of one sentence.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), first: false }
    }

    /// Moves the finding before what the sections show.
    pub fn before_others(self) -> Self {
        Self { first: true, ..self }
    }
}

/// What a rank's equal rounds of work left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultBits {
    /// How they were computed: only equal ways must leave equal bits.
    pub how: String,
    /// Operations of a round.
    pub operations: u64,
    /// Rounds by the digest of their results.
    pub rounds: BTreeMap<String, u64>,
}

/// A benchmark's own view of a section: pure functions over case lines. For what a declaration cannot say.
pub trait View: Sync {
    /// Charts in addition to the declared ones.
    fn charts(&self, _section: &Operation) -> Vec<NamedChart> {
        Vec::new()
    }

    /// What the section shows, the most important first; None: the report says what it finds in any data.
    fn findings(&self, _section: &Operation) -> Option<Vec<Finding>> {
        None
    }

    /// Whether ranks of a case exchange nothing while they are timed, so that each rank's time is its own.
    fn works_apart(&self, _case: &CaseLine) -> bool {
        false
    }

    /// Seconds of a message between pairs of ranks, where a case is a tournament; NaN where a pair has none.
    fn pair_times(&self, _case: &CaseLine) -> Option<PairTimes> {
        None
    }

    /// What the equal rounds of each rank left, where a case looks for silent corruption.
    fn result_bits(&self, _case: &CaseLine) -> Option<Vec<ResultBits>> {
        None
    }

    /// The words behind the program's name that measure cases like the first of these here, where another program measured
    /// them; None where nothing here measures the same.
    fn same(&self, _cases: &[&CaseLine]) -> Option<Vec<String>> {
        None
    }

    /// What to measure next, where something is open. `ready` are the backends that can run here.
    fn next(&self, _section: &Operation, _ready: &[&str]) -> Option<Next> {
        None
    }
}

/// The views of benchmarks: given by the binary, since a report writer knows no benchmark.
#[derive(Clone, Copy)]
pub struct Views(pub fn(&str) -> Option<&'static dyn View>);

impl Views {
    /// No benchmark adds anything.
    pub const NONE: Self = Self(|_| None);

    /// The view of a case's benchmark, where it has one.
    pub fn for_case(&self, case: &CaseLine) -> Option<&'static dyn View> {
        (self.0)(&case.benchmark)
    }

    /// The view of a section's benchmark, where it has one.
    pub fn for_section(&self, section: &Operation) -> Option<&'static dyn View> {
        let case: &CaseLine = section.configurations.iter().flat_map(|configuration| &configuration.cases).next()?;
        (self.0)(&case.benchmark)
    }
}

impl Default for Views {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Views")
    }
}
