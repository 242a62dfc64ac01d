//! The file of verdicts.

use std::path::Path;

use report::JunitCase;

use crate::Failure;

/// Writes verdicts as JUnit XML, whole or not at all. A property says that a record is incomplete.
pub(super) fn write_cases(file: &Path, properties: &[(&str, String)], cases: &[JunitCase]) -> Result<(), Failure> {
    let text = report::junit("rankmark compare", properties, cases);
    record::file::replace_named(file, text.as_bytes())
        .map_err(|error| Failure::new(format!("cannot write {}", file.display())).cause(error))
}
