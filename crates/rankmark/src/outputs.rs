//! What a run writes and prints beside its record and report, because another tool's user expects it there.

use std::path::{Path, PathBuf};

use clap::ArgMatches;
use record::Plan;

use crate::arguments::STUDY_CSV;
use crate::{Failure, terminal};

/// The format of configurations that have a table of their own.
const CANDLE: &str = "candle";

/// Writes the files that options name, and prints the table of the Candle suite after a run of its configuration.
pub(crate) fn after(matches: &ArgMatches, plan: &Plan, directory: &Path) -> Result<(), Failure> {
    let study = matches.try_get_one::<String>(STUDY_CSV).ok().flatten();
    let json = matches.try_get_one::<PathBuf>("output").ok().flatten();
    let table = plan.read_as.as_deref() == Some(CANDLE) && !matches.get_flag("quiet");
    if study.is_none() && json.is_none() && !table {
        return Ok(());
    }
    let run = report::Run::read(directory, benchmarks::VIEWS)?;
    if let Some(file) = study {
        report::write_study_csv(&run, Path::new(file))?;
    }
    if let Some(file) = json {
        report::write_results_json(&run, file)?;
    }
    let text = if table { report::candle_table(&run, terminal::width()) } else { String::new() };
    match matches.get_flag("json") {
        true => terminal::remark(&text),
        false => drop(terminal::print(&text)?),
    }
    Ok(())
}
