//! Layouts: the files of another tool's report, by its own names. A new one is a module with a [`Format`] and a line here.

mod allreduce_study;

use std::path::Path;

use crate::write::Out;
use crate::{Error, Format, Run, error};

use allreduce_study::AllreduceStudy;

/// Every layout.
pub static LAYOUTS: &[&dyn Format] = &[&AllreduceStudy];

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
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = Path::new(file.file_name().unwrap_or_default());
    Out::below(folder, None).file(name, |to| to.write_all(content.as_bytes()))
}
