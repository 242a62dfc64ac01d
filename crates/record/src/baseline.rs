//! Baselines: records that others are compared with, in a folder that can be committed.
//!
//! `.rankmark/baselines/NAME/RUN/` holds a record each, made compact: `run.json` and `cases.jsonl`, without samples and
//! without what comparisons do not read. It reads back as any record.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use terms::Status;

use crate::file::{FileName, Folder};
use crate::pack::Redaction;
use crate::secrets::masked_json;
use crate::store::{CASES_FILE, RUN_FILE, line_text, reseal};
use crate::{CaseLine, Record, RunEnd, SharedMap, StoreError, read_run};

/// The folder of baselines, below the folder of a project.
pub const BASELINES: &str = ".rankmark/baselines";

/// Runs that one baseline may hold.
const MOST_RUNS: usize = 1_000;

/// The folder of baselines of this folder, or of the nearest one above it.
pub fn find_baselines(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|folder| folder.join(BASELINES)).find(|folder| folder.is_dir())
}

/// The names of baselines, each with its number of runs.
///
/// # Errors
/// When the folder cannot be listed.
pub fn list_baselines(folder: &Path) -> Result<Vec<(String, usize)>, StoreError> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let runs = runs_of(&folder.join(&name))?.len();
        // A folder that is left without its runs is not a baseline.
        found.extend((runs > 0).then_some((name, runs)));
    }
    Ok(found)
}

/// The records of a baseline, in the order of their folders' names, which begin with the time.
///
/// # Errors
/// When there is no such baseline, or one of its records cannot be read.
pub fn read_baseline(folder: &Path, name: &str) -> Result<Vec<Record>, StoreError> {
    let own = folder.join(checked(name)?);
    let runs = if own.is_dir() { runs_of(&own)? } else { Vec::new() };
    if runs.is_empty() {
        let known = list_baselines(folder).unwrap_or_default();
        let names: Vec<String> = known.into_iter().map(|(name, _)| name).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(StoreError::new(format!("there is no baseline `{name}` in {}", folder.display()))
            .cause(format!("existing baselines: {known}"))
            .hint(format!("`rankmark baseline save {name} DIR` makes it from a record")));
    }
    runs.iter().map(|run| read_run(&own.join(run))).collect()
}

/// A record as baselines have it. It is made before anything of a baseline is removed.
#[derive(Debug)]
pub struct CompactRecord {
    /// The name of its folder: when its run started, and the digest of an imported record's figures, because one import makes
    /// several records of one date.
    folder: FileName,
    /// The text of `run.json`.
    file: Vec<u8>,
    /// The text of `cases.jsonl`.
    cases: Vec<u8>,
}

impl CompactRecord {
    /// Makes a record compact.
    ///
    /// # Errors
    /// When it cannot be written, or a name cannot be replaced.
    pub fn new(record: &Record, redaction: Option<&mut Redaction>) -> Result<Self, StoreError> {
        // Runs of one second differ in their fraction.
        let started: String = record.file.started.chars().filter(char::is_ascii_alphanumeric).take(40).collect();
        let started = if started.is_empty() { "run".to_owned() } else { started };
        let name = match record.imported_figures() {
            Some(figures) => format!("{started}-{}", &figures[..8]),
            None => started,
        };
        let folder = FileName::checked(&name).unwrap_or(FileName::literal("run"));
        let failed = |error: serde_json::Error| StoreError::new("the record cannot be written compactly").cause(error);
        let (file, cases) = texts(record).map_err(failed)?;
        let (file, cases) = match redaction {
            Some(redaction) => redacted(file, cases, redaction)?,
            None => (file, cases),
        };
        Ok(Self { folder, file, cases })
    }
}

/// Adds a record to a baseline, and says where. None: it is there already.
///
/// # Errors
/// When it cannot be written.
pub fn save_baseline(folder: &Path, name: &str, record: &CompactRecord) -> Result<Option<PathBuf>, StoreError> {
    let CompactRecord { folder: run_folder, file, cases } = record;
    let baseline = checked(name)?;
    let own = folder.join(&baseline);
    let run = own.join(run_folder);
    if run.join(RUN_FILE).symlink_metadata().is_ok() {
        return Ok(None);
    }
    let failed = |path: &Path, error: &io::Error| StoreError::io("cannot write", path, error);
    if own.is_dir() && runs_of(&own)?.len() >= MOST_RUNS {
        return Err(StoreError::new(format!("the baseline `{name}` holds {MOST_RUNS} runs")).hint("use --replace"));
    }
    // The run file last: it is what makes the folder a record.
    let held = Folder::make_named(folder).and_then(|folder| folder.make(&baseline)?.make(run_folder));
    let held = held.map_err(|error| failed(&run, &error))?;
    for (name, text) in [(FileName::literal(CASES_FILE), cases), (FileName::literal(RUN_FILE), file)] {
        let path = run.join(&name);
        held.replace(&name.clone().into(), &name.temporary(), |file| file.write_all(text))
            .map_err(|error| failed(&path, &error))?;
    }
    Ok(Some(run))
}

/// Removes the runs of a baseline: their own two files, and folders that are empty then. Nothing else is touched.
///
/// # Errors
/// When a file cannot be removed.
pub fn clear_baseline(folder: &Path, name: &str) -> Result<(), StoreError> {
    let own = folder.join(checked(name)?);
    if !own.is_dir() {
        return Ok(());
    }
    for run in runs_of(&own)? {
        let run = own.join(run);
        // The run file first: what is left of a removal that fails is not a record.
        for name in [RUN_FILE, CASES_FILE] {
            match std::fs::remove_file(run.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("cannot remove", &run.join(name), &error));
                }
                _ => {}
            }
        }
        // A folder with something else in it stays.
        let _ = std::fs::remove_dir(&run);
    }
    Ok(())
}

fn checked(name: &str) -> Result<FileName, StoreError> {
    if let Some(name) = FileName::checked(name).filter(|name| crate::plan::is_safe_name(name.as_str())) {
        return Ok(name);
    }
    let rule = "a letter or digit, then letters, digits, `.`, `_` or `-`, at most 64: it names a directory";
    Err(StoreError::new(format!("`{}` cannot name a baseline", name.escape_debug())).hint(rule))
}

fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| StoreError::io("cannot list", folder, &error))?,
    };
    let names = entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name().into_string());
    let mut names: Vec<String> = names.flatten().filter(|name| crate::plan::is_safe_name(name)).collect();
    names.sort();
    Ok(names)
}

/// Folders of a baseline that hold a record.
fn runs_of(own: &Path) -> Result<Vec<String>, StoreError> {
    let is_run = |name: &String| own.join(name).join(RUN_FILE).symlink_metadata().is_ok();
    Ok(names(own)?.into_iter().filter(is_run).collect())
}

/// The compact texts of both files.
fn texts(record: &Record) -> serde_json::Result<(Vec<u8>, Vec<u8>)> {
    let mut file = record.file.clone();
    // Its lines are written again, without their places.
    file.id.clear();
    match record.end {
        RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Part => {}
        // A record without an identity that has rounds is taken to have ended.
        RunEnd::Killed | RunEnd::Running | RunEnd::Unknown => file.rounds = None,
    }
    file.plan.source_text.clear();
    file.profiles.clear();
    for case in &mut file.plan.cases {
        (case.parameters, case.world) = (SharedMap::default(), SharedMap::default());
    }
    for declared in &mut file.benchmarks {
        declared.show.charts.clear();
        declared.show.tables.truncate(1);
        declared.fields.iter_mut().for_each(|field| field.doc.clear());
        declared.metrics.iter_mut().for_each(|metric| metric.doc.clear());
    }
    let text = serde_json::to_string(&file)?;
    let mut text = terms::outside::original_json(&text).into_owned().into_bytes();
    text.push(b'\n');
    let text = masked_json(&text).into_owned();
    let mut lines = Vec::new();
    for line in record.cases.iter().filter(|line| is_kept(line)) {
        let text = line_text(&compact(line))?;
        lines.extend_from_slice(&reseal(text.as_bytes(), |line| masked_json(line).into_owned()));
        lines.push(b'\n');
    }
    Ok((text, lines))
}

/// Whether a case was measured as often as its plan asks for. A case that the run did not come to says nothing.
fn is_kept(line: &CaseLine) -> bool {
    line.status != Status::NotRun && !line.lacks_trials()
}

/// A case line without what comparisons do not read: figures of single ranks, lists and matrices.
fn compact(line: &CaseLine) -> CaseLine {
    let mut line = line.clone();
    line.per_rank_median_s = None;
    line.clocks.clear();
    line.wrong_elements.clear();
    line.metrics.retain(|_, value| !matches!(value, Value::Array(_)));
    line
}

fn redacted(file: Vec<u8>, cases: Vec<u8>, redaction: &mut Redaction) -> Result<(Vec<u8>, Vec<u8>), StoreError> {
    redaction.look(&file);
    redaction.look(&cases);
    redaction.make_rules().map_err(|host| {
        StoreError::new(format!("the host name `{host}` is also a word of records"))
            .cause("replacing it would change what the record says")
            .hint("`--keep-names` saves the baseline with the names of hosts and users")
    })?;
    let file = redaction.replace_bytes(&file);
    crate::store::read_run_file(&file, RUN_FILE)?;
    let line = |line: &[u8]| {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let mut text = reseal(body, |body| redaction.replace_bytes(body));
        text.push(b'\n');
        text
    };
    Ok((file, cases.split_inclusive(|byte| *byte == b'\n').flat_map(line).collect()))
}
