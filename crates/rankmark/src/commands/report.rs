//! `rankmark report DIR`: the report of a record, again; of each record where DIR is a folder of records.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use record::store::RUN_FILE;

use crate::exports::Exports;
use crate::session::RESULTS;
use crate::typesetter::{self, Typesetter};
use crate::{Failure, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let of = matches.subcommand_matches("generate").unwrap_or(matches);
    let source = of.get_one::<String>("source").map_or(RESULTS, String::as_str);
    let directories = records(Path::new(source))?;
    let output = of.get_one::<PathBuf>("output-dir");
    if output.is_some() && directories.len() > 1 {
        let what = format!("{source} holds {} records, and `--output-dir` is for one", directories.len());
        return Err(Failure::new(what).hint("name one record"));
    }
    let layout = of.get_one::<String>("layout").map(|name| report::layout(name)).transpose()?;
    let formats: Vec<&dyn report::Format> = match of.get_many::<String>("format") {
        _ if layout.is_some() => layout.into_iter().collect(),
        Some(names) => names.map(|name| report::format(name)).collect::<Result<_, _>>()?,
        None => report::default_formats(),
    };
    let exports = Exports::read(of)?;
    if exports.names_a_file() && directories.len() > 1 {
        let what = format!("{source} holds {} records, and a named file is for one", directories.len());
        return Err(Failure::new(what).hint("name one record, or use `--format` without a file"));
    }
    let typesetter = Typesetter::of_formats(&formats)?;
    let set = |document: &[u8]| typesetter.as_ref().map_or_else(|| Err(typesetter::missing()), |own| own.set(document));
    let mut text = String::new();
    for directory in &directories {
        let run = report::Run::read(directory, benchmarks::VIEWS)?;
        let into = match (output, layout) {
            (Some(output), _) => output.clone(),
            (None, Some(layout)) => directory.join(layout.name()),
            (None, None) => directory.clone(),
        };
        let written = report::write_formats(&run, &into, &formats, Some(&set))?;
        exports.write(&run)?;
        terminal::remark(&typesetter.as_ref().map(Typesetter::take_remarks).unwrap_or_default());
        let damaged: Vec<String> =
            run.damaged.iter().map(|line| format!("warning: {line}; it is left out\n")).collect();
        terminal::remark(&damaged.concat());
        written.iter().for_each(|path| text += &format!("{}\n", path.display()));
    }
    terminal::print(&text)
}

/// The record itself; else the records in the folder, the oldest first. A folder without any is taken for a record, so that
/// the reader says what is missing.
fn records(source: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_record = |path: &Path| path.join(RUN_FILE).symlink_metadata().is_ok();
    if is_record(source) {
        return Ok(vec![source.to_owned()]);
    }
    let Ok(entries) = std::fs::read_dir(source) else {
        let what = format!("there is no record in {}", source.display());
        return Err(Failure::new(what).hint("rankmark report results/DIR"));
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_record(path)).collect();
    // Names of records begin with the time.
    found.sort();
    if found.is_empty() {
        found.push(source.to_owned());
    }
    Ok(found)
}
