//! The files of a merged record.

use std::path::{Path, PathBuf};

use crate::store::SAMPLES_FILE;
use crate::{
    CaseLine, Explained, Part, Record, SampleLines, Store, StoreError, read_explained, read_samples, write_explained,
};

/// Writes a merged record of the records in these directories, whose runs have these identities: its lines, and their samples.
/// Samples that are damaged are left out, and named in [`Record::damaged`].
///
/// # Errors
/// When the samples of a record cannot be read, or the merged record cannot be written.
pub fn write_merged(
    merged: &mut Record,
    (directories, ids): (&[PathBuf], &[String]),
    target: &Path,
) -> Result<(), StoreError> {
    // Before anything is written: samples that cannot be read leave no half record behind.
    let opened: Result<Vec<Option<SampleLines>>, StoreError> =
        directories.iter().zip(ids).map(|(directory, id)| open_samples(directory, id)).collect();
    let mut opened = opened?;
    opened.iter_mut().flatten().for_each(|samples| merged.damaged.append(&mut samples.damaged));
    let mut store = Store::create(target, &merged.file)?;
    store.append_all(&merged.cases)?;
    // A record may also have samples of a case without a result, whose line is that of another part.
    let mut rest = merged.cases.as_slice();
    for (part, samples) in merged.file.merged.iter().zip(&mut opened) {
        let (own, others) = rest.split_at(part.cases.min(rest.len()));
        rest = others;
        if let Some(samples) = samples {
            copy_samples(samples, part, own, &mut store)?;
        }
    }
    store.finish(&mut merged.file)
}

/// The samples of a record. One without samples, such as an imported one, has none.
fn open_samples(directory: &Path, id: &str) -> Result<Option<SampleLines>, StoreError> {
    match directory.join(SAMPLES_FILE).symlink_metadata() {
        Ok(_) => read_samples(directory, id).map(Some),
        Err(_) => Ok(None),
    }
}

/// Samples of the part's own cases, with their rounds as the merged record counts them.
fn copy_samples(
    samples: &mut SampleLines,
    part: &Part,
    cases: &[CaseLine],
    store: &mut Store,
) -> Result<(), StoreError> {
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
