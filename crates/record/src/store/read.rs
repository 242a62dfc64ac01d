//! Reading a record back: for reports, and to continue it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use terms::{Status, outside};

use super::append::hold;
use super::checksum::{RunSeal, check_run};
use super::lines::{CaseLines, NEWER, read_lines_of};
use super::lock::Lock;
use super::results::bare_run_file;
use super::salvage::salvage;
use super::sequence::Sequence;
use super::{CASES, CASES_FILE, DamagedLine, RUN, RUN_FILE, SAMPLES, SAMPLES_FILE, Store, StoreError, limits, run_end};
use crate::file::{Access, open_inside, open_inside_by};
use crate::json::StatedSchema;
use crate::{Case, CaseCounts, CaseLine, RunEnd, RunFile, SCHEMA};

/// A record.
#[derive(Clone, Debug)]
pub struct Record {
    /// `run.json`.
    pub file: RunFile,
    /// The line that stands for each case: those of the plan in its order, then others in the order of the file. A case of
    /// the plan that has no line is `not_run`, with the reason.
    pub cases: Vec<CaseLine>,
    /// How its run ended.
    pub end: RunEnd,
    /// What of its files is damaged or missing: lines of `cases.jsonl`, members of `run.json`.
    pub damaged: Vec<DamagedLine>,
    /// What the user should know: a last line that was cut short.
    pub notes: Vec<String>,
}

impl Record {
    /// The line that says that the record is incomplete, and what is missing; None where its run came to its end.
    pub fn banner(&self) -> Option<String> {
        self.end.banner(CaseCounts::of(&self.cases))
    }
}

/// A record that goes on.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// `run.json`, with the plan to go on with.
    pub file: RunFile,
    /// Cases that are done: their latest line is `ok`. All others run again.
    pub done: HashSet<String>,
    /// The line that stands for each case, in the order of [`Record::cases`].
    pub cases: Vec<CaseLine>,
    /// Lines of `cases.jsonl` that are damaged: left out, so that their cases run again.
    pub damaged: Vec<DamagedLine>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Reads a record. Changes nothing, and needs no lock: a live run's record is whole up to its last case.
///
/// # Errors
/// When there is no record, or it cannot be read.
pub fn read_run(directory: &Path) -> Result<Record, StoreError> {
    read_run_by(directory, run_file)
}

/// A run file as it was read.
#[derive(Debug)]
pub(super) struct FoundRun {
    pub(super) file: RunFile,
    /// What of it is damaged.
    pub(super) damaged: Vec<DamagedLine>,
}

/// Reads a record for callers that want results only: of the plan's cases it has the identities and the targets of their
/// intervals, in their order.
///
/// # Errors
/// As [`read_run`].
pub fn read_results(directory: &Path) -> Result<Record, StoreError> {
    read_run_by(directory, bare_run_file)
}

fn read_run_by(
    directory: &Path,
    run_file: impl FnOnce(&Path) -> Result<FoundRun, StoreError>,
) -> Result<Record, StoreError> {
    let FoundRun { mut file, mut damaged } = run_file(directory)?;
    let mut found = case_lines(directory, &file)?;
    // Of a damaged run file the mark may be lost.
    file.simulated |= !damaged.is_empty() && found.lines.iter().any(|line| line.simulated);
    let end = run_end(&file, directory);
    let absent = absent(directory, &file, &found.lines)?;
    found.lines.extend(absent.iter().map(|case| CaseLine::unmeasured(case, Status::NotRun, end.why_absent())));
    damaged.append(&mut found.damaged);
    let cases = in_plan_order(&file, found.lines);
    Ok(Record { file, cases, end, damaged, notes: found.notes })
}

/// Cases of the plan that have no line. They are read whole, where the plan was read without them.
fn absent(directory: &Path, file: &RunFile, lines: &[CaseLine]) -> Result<Vec<Case>, StoreError> {
    let known: HashSet<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    let is_absent = |case: &&Case| !known.contains(case.id.as_str());
    let absent_from = |file: &RunFile| file.plan.cases.iter().filter(is_absent).cloned().collect::<Vec<_>>();
    let found = absent_from(file);
    if found.iter().all(|case| !case.benchmark.is_empty()) {
        return Ok(found);
    }
    drop(found);
    Ok(absent_from(&run_file(directory)?.file))
}

impl Store {
    /// Goes on with a record. A last line that a crash cut short is cut off, with a note; damaged lines stay and count for
    /// nothing; anything else that cannot be read is refused, and nothing is changed.
    ///
    /// # Errors
    /// When there is no record, it cannot be read or written, or it is in use by a live run.
    pub fn resume(directory: &Path) -> Result<(Self, Resumed), StoreError> {
        // Before the lock: a directory that is not a record must not get a lock file.
        refuse_imported(directory, &whole_run_file(directory)?)?;
        let mut notes = Vec::new();
        let folder = hold(directory)?;
        let lock = Lock::take(&folder, &mut notes)?;
        let file = whole_run_file(directory)?;
        let found = case_lines(directory, &file)?;
        repair_cases(directory, &found)?;
        notes.extend(found.notes);
        notes.extend(repair_samples(directory)?);
        let next = found.next;
        let done = found.lines.iter().filter(|line| line.status == Status::Ok).map(|line| line.id.clone()).collect();
        let cases = in_plan_order(&file, found.lines);
        let store = Self::reopen((folder, lock), &file, (&cases, next))?;
        Ok((store, Resumed { file, done, cases, damaged: found.damaged, notes }))
    }
}

/// Refuses a record of another program's results: what would run here would take the place of what the file says.
fn refuse_imported(directory: &Path, file: &RunFile) -> Result<(), StoreError> {
    let of_parts = file.merged.iter().filter_map(|part| part.imported.as_ref());
    let Some(of) = file.imported.iter().chain(of_parts).next() else { return Ok(()) };
    let what = format!("{} was imported from {} and cannot be resumed", directory.display(), of.file);
    Err(StoreError::new(what)
        .cause(format!("its cases were measured by {}: a run here would replace them", of.tool))
        .hint("measure the same into a new record; `rankmark compare` then shows both side by side"))
}

/// Parses the text of a run file. `name` is for messages.
///
/// # Errors
/// When it is not one, or was written by a newer program.
pub fn read_run_file(text: &[u8], name: &str) -> Result<RunFile, StoreError> {
    parse_run_file(&outside::json(text), name)
}

/// Parses the text of a run file whose strings have stand-ins. `name` is for messages.
pub(super) fn parse_run_file(text: &[u8], name: &str) -> Result<RunFile, StoreError> {
    let unreadable = |cause: String| {
        StoreError::new(format!("{name} is not a run file"))
            .cause(cause)
            .hint("nothing was changed; start a new record with `--output-dir DIR`")
    };
    // The version first: another version's form may differ in everything else.
    let version: StatedSchema = serde_json::from_slice(text).map_err(|error| unreadable(error.to_string()))?;
    if version.schema != SCHEMA {
        let error = unreadable(format!("schema {}; this program reads {SCHEMA}", version.schema));
        return Err(if version.schema > SCHEMA { error.hint(NEWER) } else { error });
    }
    serde_json::from_slice(text).map_err(|error| unreadable(error.to_string()))
}

/// The run file, or what of it can be read.
pub(super) fn run_file(directory: &Path) -> Result<FoundRun, StoreError> {
    run_file_by(directory, read_run_file)
}

/// The run file where it is whole: nobody goes on with a plan that may be damaged.
fn whole_run_file(directory: &Path) -> Result<RunFile, StoreError> {
    let (text, name) = run_file_text(directory)?;
    let file = read_run_file(&text, &name)?;
    if check_run(&text) == RunSeal::Wrong {
        return Err(StoreError::new(format!("{name} is damaged"))
            .cause("its checksum does not match, so its plan may be another one")
            .hint("`rankmark report` shows the rest; start a new record with `--output-dir DIR`"));
    }
    Ok(file)
}

/// `read_text` gets the file's text and its name.
pub(super) fn run_file_by(
    directory: &Path,
    read_text: impl FnOnce(&[u8], &str) -> Result<RunFile, StoreError>,
) -> Result<FoundRun, StoreError> {
    let (text, name) = run_file_text(directory)?;
    let seal = check_run(&text);
    // One without a checksum that is JSON is what somebody wrote.
    let may_be_damaged = || seal == RunSeal::Wrong || seal == RunSeal::Absent && !is_json(&text);
    let (mut file, mut damaged) = match read_text(&text, &name) {
        Ok(file) => (file, Vec::new()),
        Err(error) if may_be_damaged() => {
            let (file, mut damaged) = salvage(&text).ok_or(error)?;
            if damaged.is_empty() {
                damaged.push(DamagedLine::of_run_file(0, "its form is damaged, so what it says may be wrong"));
            }
            (file, damaged)
        }
        Err(error) => return Err(error),
    };
    if seal == RunSeal::Wrong && damaged.is_empty() {
        let cause = "its checksum does not match, so what it says may be wrong";
        damaged.push(DamagedLine::of_run_file(0, cause));
    }
    if !damaged.is_empty() {
        // No line is judged by an identity that may be wrong.
        file.id.clear();
    }
    Ok(FoundRun { file, damaged })
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// The text of the run file, and its name for messages.
fn run_file_text(directory: &Path) -> Result<(Vec<u8>, String), StoreError> {
    let path = directory.join(RUN_FILE);
    let mut text = Vec::new();
    let read = open_inside(directory, &RUN).and_then(|file| file.take(limits::RUN + 1).read_to_end(&mut text));
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if !directory.exists() => {
            StoreError::new(format!("there is no folder {}", directory.display()))
        }
        std::io::ErrorKind::NotFound => StoreError::new(format!("{} holds no record", directory.display()))
            .cause(format!("there is no {RUN_FILE} in it")),
        _ => StoreError::io("cannot read", &path, &error),
    })?;
    if text.len() as u64 > limits::RUN {
        return Err(StoreError::new(format!("{} is larger than {} MiB", path.display(), limits::RUN >> 20)));
    }
    Ok((text, path.display().to_string()))
}

fn case_lines(directory: &Path, run: &RunFile) -> Result<CaseLines, StoreError> {
    let path = directory.join(CASES_FILE);
    match open_inside(directory, &CASES) {
        Ok(file) => {
            let written = run.end.map(|end| end.case_lines);
            let sequence = Sequence::of(&run.id);
            read_lines_of(BufReader::new(file), &path.display().to_string(), sequence, written, &run.plan.cases)
        }
        // A run makes it before the run file: it was there.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(StoreError::new(format!("the record {} has no {CASES_FILE}", directory.display()))
                .cause(format!("it has a {RUN_FILE}, but no {CASES_FILE} with the results of its cases"))
                .hint("copy it from where the record was written, or start a new record with `--output-dir DIR`"))
        }
        Err(error) => Err(StoreError::io("cannot read", &path, &error)),
    }
}

fn in_plan_order(file: &RunFile, mut cases: Vec<CaseLine>) -> Vec<CaseLine> {
    let order: HashMap<&str, usize> =
        file.plan.cases.iter().enumerate().map(|(index, case)| (case.id.as_str(), index)).collect();
    // By cached keys: sorting by key would need room for half of the lines once more.
    cases.sort_by_cached_key(|line| order.get(line.id.as_str()).copied().unwrap_or(usize::MAX));
    cases
}

/// Cuts off what a crash left, or adds the line break that is missing.
fn repair_cases(directory: &Path, found: &CaseLines) -> Result<(), StoreError> {
    let repair = || -> std::io::Result<()> {
        let mut file = open_inside_by(directory, &CASES, Access::Append)?;
        if file.metadata()?.len() > found.whole_bytes {
            file.set_len(found.whole_bytes)?;
        }
        if found.break_missing {
            file.write_all(b"\n")?;
        }
        file.sync_data()
    };
    repair().map_err(|error| StoreError::io("cannot write", &directory.join(CASES_FILE), &error))
}

/// Cuts off an unfinished last line of samples; its case never got its line, so it runs again.
fn repair_samples(directory: &Path) -> Result<Option<String>, StoreError> {
    let repair = || -> std::io::Result<Option<String>> {
        let mut file = open_inside_by(directory, &SAMPLES, Access::Change)?;
        let length = file.metadata()?.len();
        let whole = last_break(&mut file, length)?;
        if whole == length {
            return Ok(None);
        }
        file.set_len(whole)?;
        file.sync_data()?;
        Ok(Some(format!("{SAMPLES_FILE}: the last line was cut short and is left out ({} bytes)", length - whole)))
    };
    repair().map_err(|error| StoreError::io("cannot write", &directory.join(SAMPLES_FILE), &error))
}

/// One past the last line break, searched from the end.
fn last_break(file: &mut File, length: u64) -> std::io::Result<u64> {
    let mut block = vec![0; 64 << 10];
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}
