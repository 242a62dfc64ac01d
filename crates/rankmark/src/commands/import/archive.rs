//! A folder of other tools' results: one record a run, in the order of time. Files of other kinds are counted.

use std::path::{Path, PathBuf};

use import::Content;
use import::archive::{self, Run, Said};
use record::file::FileName;
use record::store::RESULTS;

use super::{Import, records_of, source_of, store};
use crate::commands::history;
use crate::options::refuse_given;
use crate::{Failure, screen};

/// Makes a record of each run in this folder; None if no file of it holds results, and some are traces.
pub(super) fn import(given: &Import, folder: &Path) -> Result<Option<u8>, Failure> {
    let read = |source, format| {
        let source = source_of(given, source, Some(format));
        import::read(&source, Some(format)).and_then(|found| match found.content {
            Content::Plan(_) => Ok(None),
            Content::Results(results) => records_of(&source, format, results).map(Some),
        })
    };
    let named = given.named_format().ok().flatten();
    let mut found = archive::scan(folder, named, &read, &mut |why| screen::remark(&format!("warning: {why}\n")))?;
    if found.runs.is_empty() {
        return if found.traces.is_empty() { Err(archive::nothing(folder, &found).into()) } else { Ok(None) };
    }
    let why = format!("is for configurations, and {} is a folder of results", folder.display());
    refuse_given(&[("python", given.python.is_some())], &why)?;
    let (target, runs) = write(given, folder, std::mem::take(&mut found.runs))?;
    let page = history::write_index(&target)?;
    let said = Said { folder, target: &target, page: &page, runs: &runs };
    if given.json {
        return screen::print_json(&archive::as_json(&said, &found)).map(Some);
    }
    let next = ["rankmark", "history", &target.display().to_string()];
    let does = "each case over these runs; `rankmark compare OLD NEW` takes such folders as sides";
    screen::print(&(archive::as_text(&said, &found) + &screen::next(&next, does))).map(Some)
}

/// Writes the records in the order of time, each in a directory with its number.
fn write(given: &Import, folder: &Path, runs: Vec<Run>) -> Result<(PathBuf, Vec<Run>), Failure> {
    let name = folder.canonicalize().ok().and_then(|path| path.file_name().map(std::ffi::OsStr::to_owned));
    let name = name.map_or_else(|| "archive".to_owned(), |name| name.to_string_lossy().into_owned());
    let target = match &given.output_dir {
        Some(directory) => directory.clone(),
        None => record::fresh_directory(Path::new(RESULTS), jiff::Timestamp::now(), &import::directory_stem(&name))?,
    };
    let digits = runs.len().to_string().len();
    let mut written = Vec::with_capacity(runs.len());
    for (number, mut run) in runs.into_iter().enumerate() {
        let name = format!("{:0digits$}-{}", number + 1, run.record.file.experiment);
        let name = FileName::checked(&name)
            .ok_or_else(|| Failure::new(format!("`{}` cannot name a record", name.escape_debug())))?;
        let directory = target.join(name);
        store(&mut run.record, &directory)?;
        written.push(run);
    }
    Ok((target, written))
}
