//! The files of a merged record.

use std::path::{Path, PathBuf};

use crate::store::SAMPLES_FILE;
use crate::{CaseLine, Explained, Part, Record, Store, StoreError, read_explained, read_samples, write_explained};

/// Writes a merged record of the records in these directories, whose runs have these identities: its lines, and their samples.
///
/// # Errors
/// When the samples of a record cannot be read, or the merged record cannot be written.
pub fn write_merged(
    merged: &mut Record,
    (directories, ids): (&[PathBuf], &[String]),
    target: &Path,
) -> Result<(), StoreError> {
    let mut store = Store::create(target, &merged.file)?;
    store.append_all(&merged.cases)?;
    for ((directory, part), id) in directories.iter().zip(&merged.file.merged).zip(ids) {
        copy_samples((directory, id), part, &merged.cases, &mut store)?;
    }
    store.finish(&mut merged.file)
}

/// Samples, with their rounds as the merged record counts them. A record without samples, such as an imported one, has none.
fn copy_samples(
    (directory, id): (&Path, &str),
    part: &Part,
    cases: &[CaseLine],
    store: &mut Store,
) -> Result<(), StoreError> {
    if directory.join(SAMPLES_FILE).symlink_metadata().is_err() {
        return Ok(());
    }
    let mut samples = read_samples(directory, id)?;
    for line in cases {
        for mut trial in samples.of_case(&line.id)? {
            trial.round += part.first_round;
            store.append_samples(&trial)?;
        }
    }
    Ok(())
}

/// What the traces of the records showed: each case is in one record, so the lists follow each other.
///
/// # Errors
/// When it cannot be read of a record, or not be written.
pub fn merge_explained(directories: &[PathBuf], target: &Path) -> Result<(), StoreError> {
    let mut all = Explained::default();
    for directory in directories {
        all.cases.extend(read_explained(directory)?.map(|explained| explained.cases).unwrap_or_default());
    }
    if all.cases.is_empty() { Ok(()) } else { write_explained(target, &all) }
}
