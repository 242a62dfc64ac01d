//! `rankmark history DIR...`: the records of one machine over time: a series for each case, and the runs at which it changed.

mod found;
mod json;
mod names;
mod page;
mod records;
mod text;
mod words;

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use diagnose::history::{History, histories};

use crate::cli::parts;
use crate::directory::RESULTS;
use crate::{Failure, terminal};

use found::{Found, Named};
pub(crate) use page::INDEX_FILE;

pub(crate) fn command() -> Command {
    let switch =
        |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    parts::named("history")
        .about("How results changed over the runs of a machine: a series for each case, noise between runs, change points")
        .after_help(
            "Examples:\n  rankmark history\n  rankmark history results nightly --html history.html\n  \
             rankmark history results --machine node-b --json\n\n\
             Change points need eight runs. Over all cases and runs together, equal runs raise a false one with a chance of at \
             most 5%. The noise between runs needs five. Simulated runs have a part of their own; imported and merged records \
             are left out.",
        )
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .num_args(0..)
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(PathBuf))
                .help("records, or folders of them (default: results)"),
        )
        .arg(
            Arg::new("machine")
                .long("machine")
                .value_name("TEXT")
                .help("only machines with this text in their name: host, processor"),
        )
        .arg(switch("any-host", "equal machines with different host names count as one (containers, cloud instances)"))
        .arg(
            Arg::new("html")
                .long("html")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("also write it as a page with charts and links to the reports"),
        )
        .arg(parts::json())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let given: Vec<PathBuf> = matches.get_many("folder").into_iter().flatten().cloned().collect();
    let folders = if given.is_empty() { vec![PathBuf::from(RESULTS)] } else { given };
    let mut found = found(&folders, matches.get_flag("any-host"))?;
    if let Some(wanted) = matches.get_one::<String>("machine") {
        found.keep(wanted)?;
    }
    if let Some(file) = matches.get_one::<PathBuf>("html") {
        let written = page::write(&found, &titled(&folders), file)?;
        terminal::remark(&format!("page     {}\n", written.display()));
    }
    if matches.get_flag("json") {
        return terminal::print_json(&format!("{}\n", json::json(&found)));
    }
    terminal::print(&text::text(&found, terminal::width()))
}

/// Writes the index page of these records into their folder.
pub(super) fn write_index(folder: &Path) -> Result<PathBuf, Failure> {
    let found = found(&[folder.to_owned()], false)?;
    page::write(&found, &titled(&[folder.to_owned()]), &folder.join(INDEX_FILE))
}

fn found(folders: &[PathBuf], any_host: bool) -> Result<Found, Failure> {
    let (runs, left_out) = records::read(folders, any_host)?;
    if runs.is_empty() && left_out.is_empty() {
        let hint = "runs make `results`; `rankmark history DIR` names another folder";
        return Err(Failure::new(format!("there is no record in {}", titled(folders))).hint(hint));
    }
    let named = |history: History| Named { names: names::of(&history), history };
    Ok(Found { machines: histories(runs).into_iter().map(named).collect(), left_out })
}

fn titled(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}
