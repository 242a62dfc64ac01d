//! What a run writes and prints in addition to its record and report, because users of another tool expect it.

use std::path::Path;

use record::Plan;

use crate::options::RunOptions;
use crate::{Failure, screen};

/// The format of configurations that have a table of their own.
const CANDLE: &str = "candle";

/// Writes the files that options name, and prints the table of the Candle suite after a run of its configuration.
pub(crate) fn after(options: &RunOptions, plan: &Plan, directory: &Path) -> Result<(), Failure> {
    let (study, json) = (options.extra_files.study_csv.as_deref(), options.extra_files.results_json.as_deref());
    let table = plan.read_as.as_deref() == Some(CANDLE) && !options.output.quiet;
    if study.is_none() && json.is_none() && !table {
        return Ok(());
    }
    let run = report::Run::read(directory, benchmarks::VIEWS)?;
    if let Some(file) = study {
        report::write_study_csv(&run, file)?;
    }
    if let Some(file) = json {
        report::write_results_json(&run, file)?;
    }
    let text = if table { report::candle_table(&run, screen::width()) } else { String::new() };
    match options.output.json {
        true => screen::remark(&text),
        false => drop(screen::print(&text)?),
    }
    Ok(())
}
