//! `predictions.json`: what was predicted of a record's cases before they were measured. The digest of the file is in the note of
//! `run.json`, which is written first: predictions that were changed afterwards no longer match it.

use std::io::{self, Read as _};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::file::{FileName, open_inside, replace};

/// The file's name.
pub const PREDICTIONS_FILE: &str = "predictions.json";
const PREDICTIONS: FileName = FileName::literal(PREDICTIONS_FILE);
const PREDICTIONS_NEW: FileName = FileName::literal("predictions.json.new");

/// The words with which the note of `run.json` names the digest of predictions.
pub const SEAL: &str = "predictions sealed before measuring, sha256";

/// The largest file that is read.
const LARGEST: u64 = 64 << 20;

/// What was predicted of the cases of a record before they were measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Predictions {
    /// The machine whose numbers the predictions rest on.
    pub machine: String,
    /// A prediction for each case.
    pub cases: Vec<PredictedCase>,
    /// Whether the file is the one whose digest was noted before anything was measured.
    #[serde(skip)]
    pub is_sealed: bool,
}

/// What was predicted of a case.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PredictedCase {
    /// Identity of the case.
    pub case: String,
    /// Seconds of a step.
    pub step_s: f64,
    /// The interval that should hold the measured time in 9 of 10 cases; None where it is too wide to say anything.
    pub interval90_s: Option<[f64; 2]>,
}

/// Reads the predictions of a record, whose run has this note; None where nothing was predicted.
///
/// # Errors
/// When the file cannot be read, or is not one of predictions.
pub fn read_predictions(directory: &Path, note: Option<&str>) -> Result<Option<Predictions>, StoreError> {
    let path = directory.join(PREDICTIONS_FILE);
    let mut text = Vec::new();
    match open_inside(directory, &PREDICTIONS).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("cannot read", &path, &error)),
    }
    let refused = |cause: String| StoreError::new(format!("{} holds no predictions", path.display())).cause(cause);
    if text.len() as u64 > LARGEST {
        return Err(refused(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut read: Predictions = crate::from_json(&text).map_err(|error| refused(error.to_string()))?;
    let is_time = |seconds: f64| seconds.is_finite() && seconds > 0.0;
    let is_usable = |case: &PredictedCase| {
        is_time(case.step_s) && case.interval90_s.is_none_or(|ends| ends.into_iter().all(is_time))
    };
    if let Some(odd) = read.cases.iter().find(|case| !is_usable(case)) {
        return Err(refused(format!("a time of case {} is not positive", odd.case)));
    }
    let digest = std::str::from_utf8(&text).map(seal).unwrap_or_default();
    read.is_sealed = note.is_some_and(|note| note.contains(&format!("{SEAL} {digest}")));
    Ok(Some(read))
}

/// The digest of predictions: SHA-256 in hexadecimal digits.
pub fn seal(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the predictions of a record, whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write_predictions(directory: &Path, text: &str) -> Result<(), StoreError> {
    replace(directory, &PREDICTIONS.into(), &PREDICTIONS_NEW, text.as_bytes())
        .map_err(|error| StoreError::io("cannot write", &directory.join(PREDICTIONS_FILE), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_prediction_has_another_seal() {
        assert_eq!(seal("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_ne!(seal("{\"step_s\":1.0}"), seal("{\"step_s\":1.1}"));
        let folder = tempfile::tempdir().unwrap();
        write_predictions(folder.path(), "{}").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(PREDICTIONS_FILE)).unwrap(), "{}");
    }

    #[test]
    fn predictions_are_sealed_by_the_note_and_refused_where_they_are_no_times() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_predictions(folder.path(), None).unwrap(), None);
        let text = r#"{"predicted":true,"machine":"m","cases":[{"case":"a","step_s":0.5,"interval90_s":[0.4,0.6]}]}"#;
        write_predictions(folder.path(), text).unwrap();
        let read = |note: &str| read_predictions(folder.path(), Some(note)).map(|read| read.unwrap().is_sealed);
        assert!(read(&format!("{SEAL} {}", seal(text))).unwrap());
        assert!(!read(&format!("{SEAL} {}", seal("other"))).unwrap());
        for odd in ["0.0", "-1", "1e999", "\"x\"", "null"] {
            write_predictions(folder.path(), &text.replace("0.5", odd)).unwrap();
            assert!(read("").is_err(), "{odd}");
        }
        // Holes take no room on the disk.
        let file = std::fs::File::create(folder.path().join(PREDICTIONS_FILE)).unwrap();
        file.set_len(LARGEST + 1).unwrap();
        let why = read("").unwrap_err().to_string();
        assert!(why.contains("it is larger than 64 MiB"), "{why}");
    }
}
