//! `rankmark report DIR`: the report of a record, again; of each record where DIR is a folder of records, with an index page.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use record::store::RUN_FILE;

use crate::session::RESULTS;
use crate::{Failure, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let of = matches.subcommand_matches("generate").unwrap_or(matches);
    let named = of.get_one::<String>("source").or_else(|| of.try_get_one::<String>("from").ok().flatten());
    let source = named.map_or(RESULTS, String::as_str);
    let directories = records(Path::new(source))?;
    let output = of.get_one::<PathBuf>("output-dir");
    let file = of.get_one::<PathBuf>("output");
    if let Some(option) = output.map(|_| "--output-dir").or(file.map(|_| "--output")).filter(|_| directories.len() > 1)
    {
        let what = format!("{source} holds {} records, and `{option}` is for one", directories.len());
        return Err(Failure::new(what).hint("name one record"));
    }
    let layout = of.get_one::<String>("layout").map(|name| report::layout(name)).transpose()?;
    let formats: Vec<&dyn report::Format> = match of.get_many::<String>("format") {
        _ if layout.is_some() => layout.into_iter().collect(),
        Some(names) => names.map(|name| report::format(name)).collect::<Result<_, _>>()?,
        None => report::FORMATS.to_vec(),
    };
    let mut text = String::new();
    for directory in &directories {
        let run = report::Run::read(directory, benchmarks::VIEWS)?;
        if of.get_flag("verbose") {
            let ok = run.cases.iter().filter(|case| case.status == terms::Status::Ok).count();
            terminal::remark(&format!(
                "{}: {ok} of {} cases ok, {}\n",
                directory.display(),
                run.cases.len(),
                run.started
            ));
        }
        if let Some(file) = file {
            let [format] = formats.as_slice() else {
                return Err(Failure::new("`--output` is for one format").hint("--format csv --output FILE"));
            };
            report::write_one(&run, *format, file)?;
            text += &format!("{}\n", file.display());
            continue;
        }
        let into = match (output, layout) {
            (Some(output), _) => output.clone(),
            (None, Some(layout)) => directory.join(layout.name()),
            (None, None) => directory.clone(),
        };
        let written = report::write_formats(&run, &into, &formats)?;
        let damaged: Vec<String> =
            run.damaged.iter().map(|line| format!("warning: {line}; it is left out\n")).collect();
        terminal::remark(&damaged.concat());
        written.iter().for_each(|path| text += &format!("{}\n", path.display()));
    }
    // What is asked for by name is all that is written.
    if directories.len() > 1 && layout.is_none() && of.get_many::<String>("format").is_none() {
        text += &format!("{}\n", super::history::write_index(Path::new(source))?.display());
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
