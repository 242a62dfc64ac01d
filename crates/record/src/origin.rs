//! Where the figures of a record are from, if it was not measured at once: another program's file, or other records.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::words::SchemaWords;
use crate::{Machine, RunEnd};

terms::named! {
    /// Where the date of an imported record is from, if its file does not tell it.
    pub enum DatedBy("origin of a date") {
        /// The time at which the file last changed.
        File = "file",
        /// The time of the import.
        Import = "import",
    }
}

/// Where the figures of an imported record are from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Imported {
    /// The file format, as `rankmark list formats` names it.
    pub format: String,
    /// The file's name, without its folder.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// The program that measured, with its version where the file tells it.
    pub tool: String,
    /// What a time is: the statistic over iterations and ranks.
    pub statistic: String,
    /// Where the date of the record is from, if the file does not tell when it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SchemaWords<DatedBy>>")]
    pub dated_by: Option<DatedBy>,
    /// Runs that the file holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub runs: Option<u32>,
    /// What the file says of its run, as it says it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// How its figures were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether the end of a run is missing: it was ended, or the file is cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Figures that no case holds, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

/// One of the records that a merged record is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Directory of the record, as it was named.
    pub directory: String,
    /// When it began: UTC, RFC 3339.
    pub started: String,
    /// The command as typed.
    pub command_line: Vec<String>,
    /// Machine of the record.
    pub machine: Machine,
    /// Versions that differ from those of the other parts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Variables that differ from those of the other parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The file that it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// Number of the record's cases.
    pub cases: usize,
    /// What its rounds begin at in the merged record: rounds of two parts never were at the same time.
    pub first_round: u32,
    /// How its run ended, where cases of it lack results here. Absent where none does, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "RunEnd::is_unsaid")]
    pub end: RunEnd,
}
