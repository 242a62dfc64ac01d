//! `samples.jsonl`: every sample of every rank, one line a trial of a case.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checksum::Checker;
use super::lines::{StoredLine, corrupt, next_line};
use super::sequence::check_run;
use super::{DamagedLine, SAMPLES, SAMPLES_FILE, StoreError, limits};
use crate::CanaryKind;
use crate::file::open_inside;
use crate::schema::words::HEX_12;

/// The samples of one trial of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "sample_line", deny_unknown_fields)]
pub struct CaseSamples {
    /// The case's identity.
    #[schemars(regex(pattern = HEX_12))]
    pub id: String,
    /// Which trial of it, from 0. A case that a resumed run takes up begins at 0 again.
    #[serde(alias = "launch")]
    pub trial: u32,
    /// Which round of the run, from 0.
    #[serde(default)]
    pub round: u32,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub begun_s: f64,
    /// The case that was visited before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Whether its ranks were started for this round.
    #[serde(default)]
    pub fresh: bool,
    /// What canaries showed before and after the samples; empty where none looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<Seen>,
    /// Samples of each slice, where the trial was interleaved with another side; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<u32>,
    /// Calls in each sample.
    pub calls: u64,
    /// Which row of `ns` each rank has, where simulated ranks with equal samples share one: `[row, ranks]`, so many ranks in a
    /// row have it, in rank order. Empty: each rank has its own, in rank order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<[u32; 2]>,
    /// `[row][sample]`: nanoseconds of a sample, all its calls together. A row is a rank, unless `rows` says which.
    pub ns: Vec<Vec<u64>>,
}

/// What a canary showed before and after the samples of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// Which canary.
    pub canary: CanaryKind,
    /// The host that showed it, where ranks were on several: its place in `hosts` of `run.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// What it showed before the samples.
    pub before: f64,
    /// What it showed after the samples.
    pub after: f64,
}

/// The samples of a record, read case by case: they may be larger than memory.
pub struct SampleLines {
    file: BufReader<File>,
    /// Where the lines of each case begin.
    places: HashMap<String, Vec<u64>>,
    /// Lines that are damaged: their samples are left out.
    pub damaged: Vec<DamagedLine>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What finding a line needs; the samples themselves are skipped.
#[derive(Deserialize)]
struct LineHead {
    id: String,
    #[serde(alias = "launch")]
    trial: u32,
    #[serde(default)]
    run: Option<String>,
}

/// Opens the samples of a record. Lines of another run than this one ([`crate::RunFile::id`]) are left out and named; where
/// that is empty, those of any run are read.
///
/// # Errors
/// When the file cannot be read, or a line has the right checksum and is not a sample line.
pub fn read_samples(directory: &Path, run: &str) -> Result<SampleLines, StoreError> {
    read_samples_of(directory, run, |_| true)
}

/// Opens the samples of some cases, by identity: the lines of others are checked, and their places are not stored.
///
/// # Errors
/// As [`read_samples`].
pub fn read_samples_of(directory: &Path, run: &str, wanted: impl Fn(&str) -> bool) -> Result<SampleLines, StoreError> {
    let path = directory.join(SAMPLES_FILE);
    let failed = |error: &std::io::Error| StoreError::io("cannot read", &path, error);
    let mut file = BufReader::new(open_inside(directory, &SAMPLES).map_err(|error| failed(&error))?);
    let mut places: HashMap<String, Vec<u64>> = HashMap::new();
    let mut last: HashMap<String, u32> = HashMap::new();
    let (mut notes, mut damaged) = (Vec::new(), Vec::new());
    let mut checker = Checker::default();
    let mut begin = 0;
    for number in 1.. {
        let line = next_line(&mut file, limits::SAMPLE_LINE).map_err(|error| failed(&error))?;
        let mut bytes = match line {
            None => break,
            Some(StoredLine::TooLong) => return Err(corrupt(SAMPLES_FILE, number, "the line is too long")),
            Some(StoredLine::Unfinished(bytes)) => {
                notes.push(format!(
                    "{SAMPLES_FILE}: the last line was cut short and is left out ({} bytes)",
                    bytes.len()
                ));
                break;
            }
            Some(StoredLine::Whole(bytes)) => bytes,
        };
        let place = begin;
        begin += bytes.len() as u64 + 1;
        let sealed = checker.open(&mut bytes);
        let head = match (sealed, crate::from_json::<LineHead>(&bytes)) {
            (Ok(true), Ok(head)) if !run.is_empty() => {
                if let Err(why) = check_run(run, head.run.as_deref()) {
                    damaged.push(DamagedLine::new(SAMPLES_FILE, number, &bytes, why));
                    continue;
                }
                head
            }
            (Ok(_), Ok(head)) => head,
            (Ok(true), Err(error)) => return Err(corrupt(SAMPLES_FILE, number, &error.to_string())),
            (sealed, parsed) => {
                let cause =
                    sealed.err().map_or_else(|| parsed.err().map(|e| e.to_string()), |why| Some(why.to_owned()));
                damaged.push(DamagedLine::new(SAMPLES_FILE, number, &bytes, cause.unwrap_or_default()));
                continue;
            }
        };
        if !wanted(&head.id) {
            continue;
        }
        let lines = places.entry(head.id.clone()).or_default();
        // Trials of a case are appended in order, so one that is not larger begins a later attempt at the case.
        if last.insert(head.id, head.trial).is_some_and(|before| head.trial <= before) {
            lines.clear();
        }
        lines.push(place);
    }
    Ok(SampleLines { file, places, damaged, notes })
}

impl SampleLines {
    /// The samples of a case, one entry a trial; empty where it took none. Of a case that was tried again, the last
    /// attempt.
    ///
    /// # Errors
    /// When the file cannot be read or changed under us.
    pub fn of_case(&mut self, id: &str) -> Result<Vec<CaseSamples>, StoreError> {
        let places = self.places.get(id).cloned().unwrap_or_default();
        let failed = |error: String| StoreError::new(format!("cannot read {SAMPLES_FILE}")).cause(error);
        let mut found = Vec::new();
        for place in places {
            self.file.seek(SeekFrom::Start(place)).map_err(|error| failed(error.to_string()))?;
            let line = next_line(&mut self.file, limits::SAMPLE_LINE).map_err(|error| failed(error.to_string()))?;
            let Some(StoredLine::Whole(bytes)) = line else {
                return Err(failed("the file changed while it was read".to_owned()));
            };
            found.push(crate::from_json(&bytes).map_err(|error| failed(error.to_string()))?);
        }
        Ok(found)
    }
}
