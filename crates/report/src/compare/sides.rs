//! The records that are compared: reads and names them, and separates those that only show the noise.

use std::path::{Path, PathBuf};

use diagnose::compare::in_common_states;
use record::store::RecordFolders;
use record::{Record, RunIdentity, read_run};
use terms::Error;

/// Who is told what of the records cannot be used: a line each, without a mark before it.
pub type Warn<'w> = &'w mut dyn FnMut(&str);

/// A side of a comparison: a record, or the runs of a baseline.
pub struct SideSource {
    /// Name of the source, as the user gave it.
    pub name: String,
    /// One record, or several equal ones.
    pub records: Vec<Record>,
}

impl SideSource {
    /// A record's directory, or a folder of records, which are equal runs.
    ///
    /// # Errors
    /// When no record can be read there.
    pub fn record(directory: &Path, warn: Warn<'_>) -> Result<Self, Error> {
        Self::read(directory.display().to_string(), &[directory.to_owned()], warn)
    }

    /// Records, or folders of them, that are one side: equal runs.
    ///
    /// # Errors
    /// When no record can be read there.
    pub fn runs(directories: &[PathBuf], warn: Warn<'_>) -> Result<Self, Error> {
        let [first, ..] = directories else { return Err(Error::new("a side has no record")) };
        let more = directories.len() - 1;
        let name = first.display().to_string();
        let name = if more > 0 { format!("{name} and {more} more") } else { name };
        Self::read(name, directories, warn)
    }

    fn read(name: String, directories: &[PathBuf], warn: Warn<'_>) -> Result<Self, Error> {
        let mut records = Vec::new();
        for directory in directories {
            let found = below(directory, warn);
            // One that is named must be readable; of a folder, the others count.
            let is_named = found.len() < 2;
            for place in found {
                match read_run(&place) {
                    Ok(record) => {
                        lost(&place, &record, warn);
                        records.push((place, record));
                    }
                    Err(error) if is_named => return Err(error.into()),
                    Err(error) => {
                        let why = view::one_line(&error.error.sentence());
                        warn(&format!("{why}; it is left out"));
                    }
                }
            }
        }
        if records.is_empty() {
            let failure = Error::new(format!("none of the records of {name} can be read"));
            return Err(failure.hint("the warnings above say why; `rankmark list records DIR` lists them"));
        }
        let records = without_copies(records, warn);
        let runs = records.len();
        let name = if runs > 1 { format!("{name} ({runs} runs)") } else { name };
        Ok(Self { name, records })
    }

    /// The latest record of the source.
    ///
    /// # Panics
    /// Without a record.
    pub fn latest(&self) -> &Record {
        let latest = self.records.iter().max_by(|a, b| a.file.started.cmp(&b.file.started));
        latest.expect("a source has a record")
    }

    /// Gives cases of its latest record and of others the times of a state of the machine that both saw. Where several are compared
    /// with it, it cannot change for each of them.
    pub fn meet(&mut self, others: &mut [Self]) {
        let alone = others.iter().map(|other| other.records.len()).sum::<usize>() == 1;
        let Some(latest) = self.records.iter_mut().max_by(|a, b| a.file.started.cmp(&b.file.started)) else { return };
        others.iter_mut().flat_map(|other| &mut other.records).for_each(|new| in_common_states(latest, new, alone));
    }
}

/// The records that a directory stands for: itself, or those in it. What holds none stands for itself, and its reader says why
/// it is not a record.
pub fn below(directory: &Path, warn: Warn<'_>) -> Vec<PathBuf> {
    let found = RecordFolders::below(directory).readable(warn);
    if found.is_empty() { vec![directory.to_owned()] } else { found }
}

/// Says what of a record could not be read.
fn lost(directory: &Path, record: &Record, warn: Warn<'_>) {
    let note = |note: &String| format!("{note}; it is left out");
    let damaged = record.damaged.iter().map(record::DamagedLine::sentence);
    let lines = damaged.chain(record.notes.iter().map(note)).chain(record.banner());
    let place = view::one_line(&directory.display().to_string());
    lines.for_each(|line| warn(&format!("{place}: {}", view::one_line(&line))));
}

/// The records in a folder, without those that are compared. One that cannot be read is left out, with a warning.
///
/// # Errors
/// When the folder cannot be listed.
pub fn equal_runs(folder: &Path, compared: &[&Record], warn: Warn<'_>) -> Result<Vec<Record>, Error> {
    let found = RecordFolders::within(folder).map_err(|error| {
        let hint = "`--history DIR` names a folder that holds records";
        Error::new(format!("{} cannot be listed", folder.display())).cause(error).hint(hint)
    })?;
    let compared: Vec<RunIdentity> = compared.iter().map(|record| record.identity()).collect();
    let is_compared = |record: &Record| {
        let own = record.identity();
        compared.iter().any(|other| other.is_same(&own))
    };
    let mut records: Vec<(PathBuf, Record)> = Vec::new();
    for directory in found.readable(warn) {
        match read_run(&directory) {
            Ok(record) if is_compared(&record) => {}
            Ok(record) => records.push((directory, record)),
            Err(error) => {
                let why = view::one_line(&error.error.sentence());
                warn(&format!("{why}; it is not part of the history"));
            }
        }
    }
    Ok(without_copies(records, warn))
}

/// Leaves one record of each run, and says which are copies of it: they would be equal runs without any noise between them.
fn without_copies(records: Vec<(PathBuf, Record)>, warn: Warn<'_>) -> Vec<Record> {
    let identities: Vec<RunIdentity> = records.iter().map(|(_, record)| record.identity()).collect();
    let copies = record::copies(&identities.iter().collect::<Vec<_>>());
    let name = |at: usize| view::one_line(&records[at].0.display().to_string());
    for (at, origin) in copies.iter().enumerate().filter_map(|(at, origin)| Some((at, (*origin)?))) {
        let (copy, origin) = (name(at), name(origin));
        warn(&format!("{copy}: a copy of {origin}: the same run counts once"));
    }
    records.into_iter().zip(copies).filter(|(_, copy)| copy.is_none()).map(|((_, record), _)| record).collect()
}
