//! One of the sides that are compared with the base, and the file of verdicts.

use std::path::Path;

use diagnose::compare::Comparison;
use report::JunitCase;

use crate::Failure;

/// One record and what its comparison with the base says.
pub(in crate::commands) struct Side<'r> {
    pub(in crate::commands) name: String,
    pub(in crate::commands) comparison: Comparison<'r>,
}

/// Writes verdicts as JUnit XML, whole or not at all.
pub(super) fn write_cases(file: &Path, cases: &[JunitCase]) -> Result<(), Failure> {
    let text = report::junit("rankmark compare", cases);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| Failure::new(format!("{} is not a file", file.display())))?;
    let beside = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
    record::file::replace(folder, Path::new(name), &beside, text.as_bytes())
        .map_err(|error| Failure::new(format!("cannot write {}", file.display())).cause(error))
}
