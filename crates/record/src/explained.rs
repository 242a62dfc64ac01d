//! `profile.json`: what traces of a record's cases showed. Verdicts, findings, tables, and the values of charts.
//!
//! The file lies next to `run.json` and is optional. Readers show it; nothing here computes what it says.

use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::file::{FileName, open_inside, replace};
use crate::{StoreError, to_json};

/// The file's name.
pub const EXPLAINED_FILE: &str = "profile.json";
const EXPLAINED_NAME: FileName = FileName::literal(EXPLAINED_FILE);
const EXPLAINED_NEW: FileName = FileName::literal("profile.json.new");
/// The version that this program writes and reads.
pub const EXPLAINED_VERSION: u32 = 1;
/// Most bytes of the file: a hostile record must not exhaust memory. A million spans take a third of it.
const LARGEST: u64 = 128 << 20;

/// All of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The version of its form: [`EXPLAINED_VERSION`].
    pub version: u32,
    /// One entry a case that was traced.
    #[serde(default)]
    pub cases: Vec<ExplainedCase>,
}

impl Default for Explained {
    fn default() -> Self {
        Self { version: EXPLAINED_VERSION, cases: Vec::new() }
    }
}

/// What the traces of one case showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedCase {
    /// The identity of the case.
    pub case: String,
    /// The case in words.
    pub title: String,
    /// What limits its steps, in a sentence.
    pub verdict: String,
    /// What stands out, the most important first.
    pub findings: Vec<ExplainedFinding>,
    /// What a reader should know of the traces.
    pub notes: Vec<String>,
    /// Tables of exact values.
    pub tables: Vec<ExplainedTable>,
    /// The timeline of its ranks.
    pub lanes: Option<Lanes>,
    /// How long each rank spends in each phase of a step.
    pub phases: Option<Phases>,
    /// How one value becomes another, term by term.
    pub waterfall: Option<Waterfall>,
    /// How long ranks wait for others.
    pub blame: Option<Blame>,
    /// The whole analysis, for other programs.
    pub analysis: Value,
}

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedFinding {
    /// What it is.
    pub what: String,
    /// The numbers behind it.
    pub evidence: String,
    /// How sure it is (`high`).
    pub confidence: String,
    /// What to do about it.
    pub action: String,
    /// Seconds that the mean step would save; 0: not known.
    pub seconds: f64,
    /// Share of the mean step that it would save; absent in records of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// How long a step would take without it, by replay of the recorded steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without: Option<ExplainedWithout>,
}

/// How long a step would take without a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedWithout {
    /// Seconds of a step without it.
    pub step_s: f64,
    /// The lower end of its 95% interval.
    pub low_s: f64,
    /// The upper end.
    pub high_s: f64,
    /// Seconds of the same steps as recorded.
    pub recorded_s: f64,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainedTable {
    /// The stem of its file's name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The heads of its columns.
    pub columns: Vec<String>,
    /// Rows of the table: a cell for each column.
    pub rows: Vec<Vec<Value>>,
}

/// The timeline of ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// What it shows.
    pub title: String,
    /// What spans may be. A span of the kind `wait` is a stall.
    pub kinds: Vec<String>,
    /// One lane a rank, the first on top.
    pub lanes: Vec<Lane>,
}

/// The spans of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The rank.
    pub label: String,
    /// When each span begins and ends, in seconds, and its place in the list of kinds.
    pub spans: Vec<(f64, f64, usize)>,
}

/// The parts of a step for each rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// What it shows.
    pub title: String,
    /// The phases.
    pub kinds: Vec<String>,
    /// Each rank with its seconds in each phase.
    pub ranks: Vec<(String, Vec<f64>)>,
}

/// How one value becomes another. The values are shares if the title or the name of an end contains `efficiency`, and
/// seconds otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waterfall {
    /// What it shows.
    pub title: String,
    /// The value at the beginning, with its name.
    pub from: (String, f64),
    /// What each term adds; a term that takes away is negative.
    pub terms: Vec<(String, f64)>,
    /// The value at the end, with its name.
    pub to: (String, f64),
    /// A sentence for each finding: how long a step would take without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

/// How long ranks wait for others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Blame {
    /// What it shows.
    pub title: String,
    /// The ranks, in the order of rows and of columns.
    pub ranks: Vec<String>,
    /// Seconds: a row for each rank that waits, a column for each rank that it waits for.
    pub seconds: Vec<Vec<f64>>,
}

/// Reads the file of a record; None where the record has none.
///
/// # Errors
/// When the file cannot be read, is too large, or has another form or version.
pub fn read_explained(directory: &Path) -> Result<Option<Explained>, StoreError> {
    let path = directory.join(EXPLAINED_FILE);
    let mut text = Vec::new();
    match open_inside(directory, &EXPLAINED_NAME).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("cannot read", &path, &error)),
    }
    if text.len() as u64 > LARGEST {
        return Err(unreadable(&path, format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    parsed(&text).map(Some).map_err(|cause| unreadable(&path, cause))
}

/// Writes the file of a record, whole or not at all. A file that is there is replaced.
///
/// # Errors
/// When it cannot be written, or would not read back: for numbers that JSON lacks (NaN, infinity), and for a file that
/// is too large.
pub fn write_explained(directory: &Path, explained: &Explained) -> Result<(), StoreError> {
    let path = directory.join(EXPLAINED_FILE);
    let unwritable = |cause: String| {
        StoreError::new(format!("{} would not read back", path.display()))
            .cause(cause)
            .hint("nothing was written; please report this as a fault of the program that made the values")
    };
    let mut text = to_json(explained).map_err(|error| unwritable(error.to_string()))?.into_bytes();
    text.push(b'\n');
    if text.len() as u64 > LARGEST {
        return Err(unwritable(format!("it would be larger than {} MiB", LARGEST >> 20)));
    }
    parsed(&text).map_err(unwritable)?;
    replace(directory, &EXPLAINED_NAME.into(), &EXPLAINED_NEW, &text)
        .map_err(|error| StoreError::io("cannot write", &path, &error))
}

fn unreadable(path: &Path, cause: String) -> StoreError {
    StoreError::new(format!("{} cannot be read", path.display()))
        .cause(cause)
        .hint("remove the file, or explain the traces again")
}

/// The text's value, or why it is none.
fn parsed(text: &[u8]) -> Result<Explained, String> {
    // The version first: another version's form may differ in everything else.
    #[derive(Deserialize)]
    struct StatedVersion {
        version: u32,
    }
    let StatedVersion { version } = crate::from_json(text).map_err(|error| error.to_string())?;
    if version != EXPLAINED_VERSION {
        return Err(format!("version {version}; this program reads version {EXPLAINED_VERSION}"));
    }
    crate::from_json(text).map_err(|error| error.to_string())
}
