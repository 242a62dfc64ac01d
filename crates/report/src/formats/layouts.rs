//! Layouts: the files of another tool's report, by its own names. A new one is a module with a [`Format`] and a line here.

mod allreduce_study;
mod candle;
mod nccl_tests_json;
mod results_json;

use std::path::Path;

use crate::formats::write::put_at;
use crate::{Error, Format, Run, error};

use allreduce_study::AllreduceStudy;
use candle::Candle;
use nccl_tests_json::NcclTestsJson;
use results_json::ResultsJson;

/// Every layout.
pub static LAYOUTS: &[&dyn Format] = &[&AllreduceStudy, &Candle, &ResultsJson, &NcclTestsJson];

/// The layout of this name.
///
/// # Errors
/// When there is none, with the valid values.
pub fn layout(name: &str) -> Result<&'static dyn Format, Error> {
    let wanted = terms::normalize(name);
    LAYOUTS.iter().copied().find(|layout| terms::normalize(layout.name()) == wanted).ok_or_else(|| {
        let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name()).collect();
        error::unknown_format(format!("there is no layout `{name}` (valid values: {})", names.join(", ")))
    })
}

/// Writes the study's CSV of all its cases to a file that the user names.
///
/// # Errors
/// When the run has no such case, or the file cannot be written.
pub fn write_study_csv(run: &Run, file: &Path) -> Result<(), Error> {
    let content = allreduce_study::all_rows(run)?;
    write_at(file, &content)
}

/// Writes the JSON of the distributed training benchmarks to a file that the user names.
///
/// # Errors
/// When the file cannot be written.
pub fn write_results_json(run: &Run, file: &Path) -> Result<(), Error> {
    write_at(file, &results_json::text(run))
}

/// The result table of the Candle suite, in so many columns; empty where the record has no training case.
pub fn candle_table(run: &Run, width: usize) -> String {
    candle::table(run, width)
}

fn write_at(file: &Path, content: &str) -> Result<(), Error> {
    put_at(file, content.as_bytes())
}
