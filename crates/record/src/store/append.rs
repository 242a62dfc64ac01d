//! Writing a record: the run file, and one case after the other.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use terms::{Status, outside};

use super::checksum;
use super::lock::Lock;
use super::{
    CASES, CASES_FILE, CaseSamples, RUN, RUN_FILE, RUN_NEW, SAMPLES, SAMPLES_FILE, StoreError, TRACE, TRACE_FOLDER,
};
use crate::file::{self, Access, FileName, Folder, HeldFolder, Whereabouts};
use crate::json::to_pretty_json;
use crate::secrets::masked_json;
use crate::{CaseLine, End, Interruption, RunFile, from_json, to_json};

/// Bytes that are written at once, where there is much to write.
const BLOCK: usize = 1 << 20;

/// A live record. Holds the directory's lock until dropped.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    cases: Lines,
    samples: Lines,
    /// The run that its lines name; empty where the run file names none.
    run: String,
    /// The number of the next case line.
    next: u64,
    /// Cases that have all their trials.
    finished: HashSet<u64>,
    /// What the user should know.
    pub notes: Vec<String>,
    // Dropped in this order: the lock is removed by the folder's descriptor.
    _lock: Lock,
    folder: HeldFolder,
}

impl Store {
    /// Creates the record of a new run, with its directory if need be.
    ///
    /// # Errors
    /// When the directory holds a record already, is in use by a live run, or cannot be written.
    pub fn create(directory: &Path, run: &RunFile) -> Result<Self, StoreError> {
        Self::begin(directory, run).map_err(StoreError::at_start)
    }

    fn begin(directory: &Path, run: &RunFile) -> Result<Self, StoreError> {
        std::fs::create_dir_all(directory).map_err(|error| StoreError::io("cannot create", directory, &error))?;
        let mut notes = Vec::new();
        let folder = hold(directory)?;
        let lock = Lock::take(&folder, &mut notes)?;
        let holds = |name: &str| std::fs::metadata(directory.join(name)).is_ok_and(|found| found.len() > 0);
        for name in [RUN_FILE, CASES_FILE, SAMPLES_FILE] {
            if holds(name) {
                let shown = directory.display();
                return Err(StoreError::new(format!("{shown} holds a record already (`{name}`)")).hint(format!(
                    "continue it with `--resume {shown}`, or choose another place with `--output-dir DIR`"
                )));
            }
        }
        let cases = Lines::open(directory, &CASES)?;
        let samples = Lines::open(directory, &SAMPLES)?;
        let (run_id, next) = (run.id.clone(), 1);
        let (directory, finished) = (directory.to_owned(), HashSet::new());
        let store = Self { directory, cases, samples, run: run_id, next, finished, notes, _lock: lock, folder };
        // Last, since it is what makes the directory a record.
        store.write_run(run)?;
        Ok(store)
    }

    /// Goes on with a record that has whole files.
    pub(super) fn reopen(
        (folder, lock): (HeldFolder, Lock),
        run: &RunFile,
        (known, next): (&[CaseLine], u64),
    ) -> Result<Self, StoreError> {
        let directory = folder.named().to_owned();
        let cases = Lines::open(&directory, &CASES)?;
        let samples = Lines::open(&directory, &SAMPLES)?;
        let (run, notes) = (run.id.clone(), Vec::new());
        let finished = known.iter().filter_map(finished).collect();
        Ok(Self { directory, cases, samples, run, next, finished, notes, _lock: lock, folder })
    }

    /// Where the record is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes `run.json` for the last time: it says that the run came to its end, and how many case lines there are then.
    ///
    /// # Errors
    /// As [`Store::write_run`].
    pub fn finish(&self, run: &mut RunFile) -> Result<(), StoreError> {
        self.finish_as(run, None)
    }

    /// As [`Store::finish`], of a run that may have been interrupted before its plan was done.
    ///
    /// # Errors
    /// As [`Store::write_run`].
    pub fn finish_as(&self, run: &mut RunFile, interrupted_by: Option<Interruption>) -> Result<(), StoreError> {
        run.end = Some(End { case_lines: self.next - 1, interrupted_by });
        self.write_run(run)
    }

    /// Writes `run.json` again, whole or not at all, for what is only known later (placement, overhead).
    ///
    /// # Errors
    /// When it cannot be written; the one before stays.
    pub fn write_run(&self, run: &RunFile) -> Result<(), StoreError> {
        self.stands()?;
        let path = self.directory.join(RUN_FILE);
        // Piece by piece: the text of 100,000 cases has 90 MB.
        let write = |to: &mut dyn Write| {
            let mut sealing = io::BufWriter::with_capacity(BLOCK, checksum::RunSealer::new(to));
            to_pretty_json(&mut sealing, run)?;
            sealing.into_inner().map_err(io::IntoInnerError::into_error)?.end()
        };
        let written =
            file::replace_by(&self.folder.path("."), &RUN.into(), &RUN_NEW, write).and_then(|()| self.folder.sync());
        written.map_err(|error| StoreError::io("cannot write", &path, &error))
    }

    /// Writes a file of the folder `trace`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_trace(
        &self,
        name: &FileName,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.stands()?;
        let path = self.directory.join(TRACE_FOLDER).join(name);
        let written = Folder::named(&self.folder.path(".")).and_then(|directory| {
            let mut file = io::BufWriter::new(directory.make(&TRACE)?.open(name, Access::Rewrite)?);
            write(&mut file)?;
            file.flush()
        });
        written.map_err(|error| StoreError::io("cannot write", &path, &error))
    }

    /// Appends a case, and its samples first, one entry a trial. It is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written (a full disk): both files are then as before. Also when the line would not read back
    /// as it is, which is so for numbers that JSON lacks (NaN, infinity).
    pub fn append(&mut self, line: &CaseLine, samples: &[CaseSamples]) -> Result<(), StoreError> {
        let text = readable(line, &self.run, self.next)?;
        let mut block = Vec::new();
        for trial in samples {
            self.sample_line(&mut block, trial)?;
        }
        let before = self.samples.length;
        self.samples.append(&block)?;
        self.cases.append(&text).inspect_err(|_| {
            // The case's own error is the one to report; samples without their case are harmless when they remain.
            let _ = self.samples.cut(before);
        })?;
        self.next += 1;
        self.finished.extend(finished(line));
        self.stands()
    }

    /// Whether the folder is still where it was named. A run must not go on into one that nobody finds, or that is gone.
    fn stands(&self) -> Result<(), StoreError> {
        let (named, cases) = (self.directory.display(), self.finished.len());
        let cases = if cases == 1 { "1 finished case".to_owned() } else { format!("{cases} finished cases") };
        match self.folder.whereabouts() {
            Whereabouts::InPlace => Ok(()),
            Whereabouts::Moved(path) => {
                let path = path.display();
                Err(StoreError::new(format!("the folder of the record was moved away from {named} during the run"))
                    .cause(format!("it is {path} now, with {cases}"))
                    .hint(format!("`rankmark report {path}` shows them, `rankmark run --resume {path}` runs the rest")))
            }
            Whereabouts::Removed => {
                Err(StoreError::new(format!("the folder of the record, {named}, was removed during the run"))
                    .cause(format!("the results of {cases} are lost"))
                    .hint("start the run again"))
            }
        }
    }

    fn sample_line(&self, block: &mut Vec<u8>, trial: &CaseSamples) -> Result<(), StoreError> {
        let begin = block.len();
        let text = serde_json::to_string(trial).map_err(|error| unwritable(&trial.id, error.to_string()))?;
        block.extend_from_slice(outside::original_json(&text).as_bytes());
        checksum::seal_line(block, begin, &self.run, None);
        block.push(b'\n');
        Ok(())
    }
}

impl Store {
    /// Appends many cases without samples, and syncs once a block of them: for lines that are not measured one by one.
    ///
    /// # Errors
    /// As [`Store::append`]; then none of them is there.
    pub fn append_all(&mut self, lines: &[CaseLine]) -> Result<(), StoreError> {
        let before = self.cases.length;
        self.append_blocks(lines).inspect_err(|_| {
            // As in `append`, the first error is the one to report.
            let _ = self.cases.cut(before);
        })?;
        self.next += lines.len() as u64;
        Ok(())
    }

    fn append_blocks(&mut self, lines: &[CaseLine]) -> Result<(), StoreError> {
        let mut block = Vec::new();
        for (line, number) in lines.iter().zip(self.next..) {
            block.append(&mut readable(line, &self.run, number)?);
            if block.len() >= BLOCK {
                self.cases.append(&block)?;
                block.clear();
            }
        }
        self.cases.append(&block)
    }

    /// Appends the samples of one trial, for a case line that is there.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append_samples(&mut self, trial: &CaseSamples) -> Result<(), StoreError> {
        let mut block = Vec::new();
        self.sample_line(&mut block, trial)?;
        self.samples.append(&block)
    }
}

/// The folder of a record, held open while the record is written.
pub(super) fn hold(directory: &Path) -> Result<HeldFolder, StoreError> {
    HeldFolder::open(directory).map_err(|error| StoreError::io("cannot open", directory, &error))
}

/// The identity of a case that is done with its line.
fn finished(line: &CaseLine) -> Option<u64> {
    let is_done = line.status == Status::Ok && !line.lacks_trials();
    u64::from_str_radix(&line.id, 16).ok().filter(|_| is_done)
}

/// The text of a case line with its checksum. `cases.jsonl` also has the run's identity and the line's number before it.
///
/// # Errors
/// When the line cannot be JSON.
pub fn line_text(line: &CaseLine) -> serde_json::Result<String> {
    let mut text = to_json(line)?.into_bytes();
    checksum::seal(&mut text, 0);
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// The line's text, if it reads back as the same line.
fn readable(line: &CaseLine, run: &str, number: u64) -> Result<Vec<u8>, StoreError> {
    let text = to_json(line).map_err(|error| unwritable(&line.id, error.to_string()))?;
    let back = from_json::<CaseLine>(&text).and_then(|back| to_json(&back));
    let back = back.map_err(|error| unwritable(&line.id, error.to_string()))?;
    if back != text || line.metrics.values().any(serde_json::Value::is_null) {
        return Err(unwritable(&line.id, "it holds a number that JSON does not support (NaN or infinity)".to_owned()));
    }
    let mut text = masked_json(text.as_bytes()).into_owned();
    checksum::seal_line(&mut text, 0, run, Some(number));
    text.push(b'\n');
    Ok(text)
}

fn unwritable(id: &str, cause: String) -> StoreError {
    StoreError::new(format!("case {id} cannot be written as it is")).cause(cause)
}

/// A file of lines that is whole after every call, also after one that failed.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Lines {
    fn open(directory: &Path, name: &FileName) -> Result<Self, StoreError> {
        let path = directory.join(name);
        let failed = |error: &io::Error| StoreError::io("cannot write", &path, error);
        let opened = file::open_inside_by(directory, name, Access::Append);
        let file = opened.map_err(|error| failed(&error))?;
        let length = file.metadata().map_err(|error| failed(&error))?.len();
        Ok(Self { path, file, length })
    }

    fn append(&mut self, block: &[u8]) -> Result<(), StoreError> {
        if block.is_empty() {
            return Ok(());
        }
        match self.file.write_all(block).and_then(|()| self.file.sync_data()) {
            Ok(()) => {
                self.length += block.len() as u64;
                Ok(())
            }
            Err(error) => {
                let failed = StoreError::io("cannot write", &self.path, &error);
                self.cut(self.length).map_err(|cut| {
                    let cause = format!("{error}; nor could it be cut back: {}", cut.error.on_one_line());
                    failed.clone().cause(cause).hint("the last line may be cut short; `--resume DIR` repairs that")
                })?;
                Err(failed)
            }
        }
    }

    /// Cuts the file back to a length that it had. Giving space back works on a full disk.
    fn cut(&mut self, length: u64) -> Result<(), StoreError> {
        let cut = self.file.set_len(length).and_then(|()| self.file.sync_data());
        cut.map_err(|error| StoreError::io("cannot shorten", &self.path, &error))?;
        self.length = length;
        Ok(())
    }
}
