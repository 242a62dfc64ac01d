//! A folder of other tools' results: one record a run, in the order of time. Files of other kinds are counted.

use std::path::Path;

use import::Content;
use import::archive::{self, Said};

use super::{Import, records_of, source_of};
use crate::commands::history;
use crate::options::refuse_given;
use crate::{Failure, environment, screen};

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
    let place = (given.output_dir.as_deref(), jiff::Timestamp::now());
    let target = found.write(folder, place, &environment::command_line())?;
    let page = history::write_index(&target)?;
    let said = Said { folder, target: &target, page: &page, runs: &found.runs };
    if given.json {
        return screen::print_json(&archive::as_json(&said, &found)).map(Some);
    }
    let next = ["rankmark", "history", &target.display().to_string()];
    let does = "each case over these runs; `rankmark compare OLD NEW` takes such folders as sides";
    screen::print(&(archive::as_text(&said, &found) + &screen::next(&next, does))).map(Some)
}
