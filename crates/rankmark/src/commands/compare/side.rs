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

/// Writes verdicts as JUnit XML, whole or not at all. A property says that a record is incomplete.
pub(super) fn write_cases(file: &Path, properties: &[(&str, String)], cases: &[JunitCase]) -> Result<(), Failure> {
    let text = report::junit("rankmark compare", properties, cases);
    record::file::replace_named(file, text.as_bytes())
        .map_err(|error| Failure::new(format!("cannot write {}", file.display())).cause(error))
}
