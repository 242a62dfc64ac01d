//! `predictions.json`: what was predicted of a record's cases before they were measured. The digest of the file is in the note of
//! `run.json`, which is written first: predictions that were changed afterwards no longer match it.

use std::path::Path;

use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::file::{FileName, replace};

/// The file's name.
pub const PREDICTIONS_FILE: &str = "predictions.json";
const PREDICTIONS: FileName = FileName::literal(PREDICTIONS_FILE);
const PREDICTIONS_NEW: FileName = FileName::literal("predictions.json.new");

/// The words with which the note of `run.json` names the digest of predictions.
pub const SEAL: &str = "predictions sealed before measuring, sha256";

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
}
