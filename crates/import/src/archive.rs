//! A folder of other tools' results: its runs in the order of time, and what its other files are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use record::DatedBy;
use record::file::FileName;
use record::store::{RESULTS, RUN_FILE, why_unreadable};
use serde_json::json;
use terms::Error;
use terms::number::count;
use terms::text::one_line;

use crate::{Format, ImportedRecord, Source, directory_stem};

/// Folders in folders, at most.
const DEPTH: usize = 12;
/// Files of a folder that are looked at.
const MOST_FILES: usize = 100_000;
/// Bytes of a file that show whether it is text.
const HEAD: usize = 8 << 10;
/// Names of files, and notes, that are listed.
const LISTED: usize = 8;

/// What a folder holds, by what each file is.
#[derive(Default)]
pub struct Archive {
    /// Runs, the oldest first.
    pub runs: Vec<Run>,
    /// Files that hold traces.
    pub traces: Vec<PathBuf>,
    configurations: Vec<PathBuf>,
    /// Files of a known format that cannot be read, and why.
    unread: Vec<(PathBuf, Error)>,
    /// Files that are something else.
    others: usize,
    /// Files that are not looked at, because there are too many.
    more: usize,
}

/// A run, and the file that tells of it.
pub struct Run {
    path: PathBuf,
    /// The record that is made of it.
    pub record: ImportedRecord,
}

/// How a file of a known format is read; None for a configuration.
pub type ReadResults<'a> = &'a dyn Fn(Source, &'static dyn Format) -> Result<Option<Vec<ImportedRecord>>, Error>;

/// What a folder holds. Files are read as `named`, or as the format that each looks like. `warn` gets what cannot be looked into.
///
/// # Errors
/// When the folder cannot be listed.
pub fn scan(
    folder: &Path,
    named: Option<&'static dyn Format>,
    read: ReadResults<'_>,
    warn: &mut dyn FnMut(&str),
) -> Result<Archive, Error> {
    let mut files = Vec::new();
    std::fs::read_dir(folder)
        .map_err(|error| Error::new(format!("{} cannot be listed", folder.display())).cause(error))?;
    below(folder, DEPTH, &mut files, warn);
    let mut archive = Archive { more: files.len().saturating_sub(MOST_FILES), ..Archive::default() };
    for path in files.into_iter().take(MOST_FILES) {
        archive.look((named, read), path);
    }
    archive.runs.sort_by(|a, b| a.record.file.started.cmp(&b.record.file.started));
    Ok(archive)
}

/// The files of a folder and of those in it, in the order of their names. Links, hidden files and records are left out.
fn below(folder: &Path, depth: usize, into: &mut Vec<PathBuf>, warn: &mut dyn FnMut(&str)) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if folder.join(RUN_FILE).symlink_metadata().is_ok() {
        return;
    }
    let listed = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<std::fs::DirEntry>>>);
    let mut entries = listed.unwrap_or_else(|error| {
        warn(&why_unreadable(folder, &error));
        Vec::new()
    });
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !is_hidden => below(&entry.path(), depth, into, warn),
            Ok(kind) if kind.is_file() && !is_hidden => into.push(entry.path()),
            _ => {}
        }
    }
}

impl Archive {
    fn look(&mut self, (named, read): (Option<&'static dyn Format>, ReadResults<'_>), path: PathBuf) {
        if crate::traces::recognise(&path).is_some() {
            self.traces.push(path);
            return;
        }
        let source = is_text(&path).then(|| Source::load(&path).ok()).flatten();
        let Some((source, format)) = source.and_then(|source| {
            let format = named.or_else(|| crate::recognise(&source))?;
            Some((source, format))
        }) else {
            self.others += 1;
            return;
        };
        match read(source, format) {
            Ok(None) => self.configurations.push(path),
            Ok(Some(records)) => self.runs.extend(records.into_iter().map(|record| Run { path: path.clone(), record })),
            Err(error) => self.unread.push((path, error)),
        }
    }

    /// Writes the records of what was found in `folder`, each in a directory with its number: into `target`, or a new folder of
    /// results with this time. Gives that folder.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(
        &mut self,
        folder: &Path,
        (target, now): (Option<&Path>, jiff::Timestamp),
        command_line: &[String],
    ) -> Result<PathBuf, Error> {
        let name = folder.canonicalize().ok().and_then(|path| path.file_name().map(OsStr::to_owned));
        let name = name.map_or_else(|| "archive".to_owned(), |name| name.to_string_lossy().into_owned());
        let target = match target {
            Some(directory) => directory.to_owned(),
            None => record::fresh_directory(Path::new(RESULTS), now, &directory_stem(&name))?,
        };
        let digits = self.runs.len().to_string().len();
        for (number, run) in self.runs.iter_mut().enumerate() {
            let name = format!("{:0digits$}-{}", number + 1, run.record.file.experiment);
            let name = FileName::checked(&name)
                .ok_or_else(|| Error::new(format!("`{}` cannot name a record", name.escape_debug())))?;
            run.record.write(&target.join(name), command_line)?;
        }
        Ok(target)
    }
}

/// Whether a file begins as text, or as what holds text: large files of other kinds are not read.
fn is_text(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head));
    let is_packed_or_wide = [&[0x1f, 0x8b][..], &[0xff, 0xfe], &[0xfe, 0xff]].iter().any(|mark| head.starts_with(mark));
    read.is_ok() && !head.is_empty() && (is_packed_or_wide || !head.contains(&0))
}

/// Why a folder without a run and without traces cannot be imported.
pub fn nothing(folder: &Path, scan: &Archive) -> Error {
    let folder = folder.display();
    if let Some((_, first)) = scan.unread.first() {
        let files = count(scan.unread.len(), "file of a known format", "files of known formats");
        let failure = Error::new(format!("{folder} holds {files}, and none can be read")).cause(first.sentence());
        return match &first.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        };
    }
    Error::new(format!("no file in {folder} holds results or traces that can be read"))
        .cause(format!(
            "{} of other kinds, {}",
            count(scan.others, "file", "files"),
            count(scan.configurations.len(), "configuration", "configurations")
        ))
        .hint("`rankmark list imports` names what can be read")
}

/// What was made of a folder.
pub struct Said<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Where the records are.
    pub target: &'a Path,
    /// The page of all of them.
    pub page: &'a Path,
    /// The runs, in the order of their records.
    pub runs: &'a [Run],
}

impl Said<'_> {
    /// How many runs each program has.
    fn programs(&self) -> BTreeMap<&str, usize> {
        let mut programs: BTreeMap<&str, usize> = BTreeMap::new();
        let tools = self.runs.iter().filter_map(|run| run.record.file.imported.as_ref());
        tools.for_each(|imported| *programs.entry(&imported.tool).or_default() += 1);
        programs
    }

    /// Runs whose date is that of their file.
    fn dated_by_file(&self) -> usize {
        let by = |run: &&Run| run.record.file.imported.as_ref().is_some_and(|of| of.dated_by == Some(DatedBy::File));
        self.runs.iter().filter(by).count()
    }

    /// Notes of the runs, each with the number of runs that have it.
    fn notes(&self) -> Vec<(String, usize)> {
        let mut notes: Vec<(String, usize)> = Vec::new();
        let all = self.runs.iter().filter_map(|run| run.record.file.imported.as_ref()).flat_map(|of| &of.notes);
        for note in all.filter(|note| !note.contains("when the file last changed")) {
            match notes.iter_mut().find(|(known, _)| known == note) {
                Some((_, runs)) => *runs += 1,
                None => notes.push((note.clone(), 1)),
            }
        }
        notes.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
        notes
    }
}

/// What is said at the end.
pub fn as_text(said: &Said, rest: &Archive) -> String {
    let programs = said.programs();
    let by: Vec<String> = programs.iter().map(|(tool, runs)| format!("{runs} of {}", one_line(tool))).collect();
    let [first, last] = [said.runs.first(), said.runs.last()].map(|run| run.map_or("", |run| &run.record.file.started));
    let mut text =
        format!("{} holds {}: {}\n", said.folder.display(), count(said.runs.len(), "run", "runs"), by.join(", "));
    text += &format!("dates    {first} to {last}\n");
    let dated = said.dated_by_file();
    if dated > 0 {
        let runs = count(dated, "run is", "runs are");
        text += &format!("note: {runs} dated by when the file last changed: the file does not tell when it ran\n");
    }
    let notes = said.notes();
    for (note, runs) in notes.iter().take(LISTED) {
        text += &format!("note: {} ({})\n", one_line(note), count(*runs, "run", "runs"));
    }
    text += &more(notes.len(), "note", "notes");
    for (_, error) in rest.unread.iter().take(LISTED) {
        text += &format!("left out: {}\n", one_line(&error.sentence()));
    }
    text += &more(rest.unread.len(), "file that cannot be read", "files that cannot be read");
    for (number, what) in [
        (rest.traces.len(), "traces (`rankmark profile --import` explains them)"),
        (rest.configurations.len(), "configurations (`rankmark import FILE` makes a plan of one)"),
        (rest.others, "files of other kinds"),
        (rest.more, "files more than are looked at"),
    ] {
        if number > 0 {
            text += &format!("left out: {number} {what}\n");
        }
    }
    text += &format!("records  {}\npage     {}\n", said.target.display(), said.page.display());
    text
}

fn more(all: usize, one: &str, many: &str) -> String {
    let more = all.saturating_sub(LISTED);
    if more > 0 { format!("... and {} more {}\n", more, if more == 1 { one } else { many }) } else { String::new() }
}

/// What is said at the end, for programs: a line for each run, then one for the folder.
pub fn as_json(said: &Said, rest: &Archive) -> String {
    // A path need not be text, which JSON is.
    let shown = |path: &Path| path.display().to_string();
    let all = |paths: &[PathBuf]| paths.iter().map(|path| shown(path)).collect::<Vec<String>>();
    let mut text = String::new();
    for (number, run) in said.runs.iter().enumerate() {
        let imported = run.record.file.imported.clone().unwrap_or_default();
        let object = json!({
            "kind": "run", "number": number + 1, "file": shown(&run.path), "format": imported.format,
            "tool": imported.tool, "started": run.record.file.started, "dated_by": imported.dated_by,
            "cases": run.record.lines.len(), "notes": imported.notes, "omitted": imported.omitted,
        });
        text += &format!("{object}\n");
    }
    let unread: Vec<_> =
        rest.unread.iter().map(|(path, error)| json!({ "file": shown(path), "why": error.sentence() })).collect();
    let summary = json!({
        "kind": "summary", "folder": shown(said.folder), "records": shown(said.target), "page": shown(said.page),
        "runs": said.runs.len(), "unread": unread, "traces": all(&rest.traces),
        "configurations": all(&rest.configurations), "other_files": rest.others, "files_not_looked_at": rest.more,
    });
    text + &format!("{summary}\n")
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_path_need_not_be_text() {
        let odd = Path::new(OsStr::from_bytes(b"tr\xff.json"));
        let (traces, unread) = (vec![odd.to_owned()], vec![(odd.to_owned(), Error::new("x"))]);
        let rest = Archive { traces, unread, ..Archive::default() };
        let text = as_json(&Said { folder: odd, target: odd, page: odd, runs: &[] }, &rest);
        assert_eq!(text.matches("tr\u{fffd}.json").count(), 5, "{text}");
    }
}
