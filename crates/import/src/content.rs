//! What a file holds.

use serde_json::{Value, json};

use crate::Results;

/// What a file holds: work to do, or what work took.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A configuration.
    Plan(ForeignPlan),
    /// Results: one entry for each record that they make. Runs of one program on one machine with one environment make one.
    Results(Vec<Results>),
}

/// A configuration of another tool as a plan of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignPlan {
    /// The plan, as YAML with a comment on each field of the other tool.
    pub text: String,
    /// What each field became, one sentence each, in the order of the file: `m: 65536 -> m: 65536`.
    pub read_as: Vec<String>,
    /// What is not done as written, one sentence each with the reason: fields that wait for something, or are named and have
    /// no effect.
    pub warnings: Vec<String>,
    /// What the user gave ([`crate::Source::given`]) and the plan has already: the caller does not set it again.
    pub used: Vec<String>,
    /// Whether its ranks are those that the user gave, because the file does not say how many.
    pub has_given_ranks: bool,
}

impl ForeignPlan {
    /// What became of each field, and what is not done as written: a line each.
    pub fn as_text(&self) -> String {
        let fields = self.read_as.iter().map(|field| format!("  {field}\n"));
        fields.chain(self.warnings.iter().map(|warning| format!("warning: {warning}\n"))).collect()
    }

    /// The plan of a file of this format, for programs. `file` names the member that has the file.
    pub fn as_json(&self, (name, file): (&str, Value), format: &str) -> String {
        let Self { text, read_as, warnings, .. } = self;
        let object = json!({ name: file, "format": format, "read_as": read_as, "warnings": warnings, "plan": text });
        format!("{object}\n")
    }
}
