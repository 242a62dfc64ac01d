//! What a report is made from: the facts of a run and its case lines, as the record has them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use record::CaseLine;

/// A run, read from its record.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The experiment's name.
    pub title: String,
    /// When it started, as text.
    pub started: String,
    /// The machine in a line.
    pub machine: String,
    /// Cores that ranks could use, when known.
    pub cores: Option<u32>,
    /// The exact command line.
    pub command: String,
    /// The record's directory, for `--resume`.
    pub directory: PathBuf,
    /// What wrote the record ("rankmark 0.1.0").
    pub program: String,
    /// Its case lines, in the order of the plan.
    pub cases: Vec<CaseLine>,
    /// Seconds of one call in each sample, in order of time (each the maximum over ranks), by case id; may lack cases.
    pub samples: BTreeMap<String, Vec<f64>>,
}
