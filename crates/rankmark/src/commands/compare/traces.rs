//! Traces instead of records: two are compared by step, phase, collective and kernel, as `rankmark profile --compare` does.

use std::path::Path;

use crate::not_a_record::{is_plan, record_of};
use crate::options::refuse_given;
use crate::{Failure, commands::profile};

/// Compares the sides if all of them are traces; None where they are something else. `of_records` are options that only
/// records have, and whether they were given.
///
/// # Errors
/// More or fewer than two traces, such an option, and what of them cannot be read or explained.
pub(super) fn compared(sides: &[String], of_records: &[(&str, bool)], json: bool) -> Result<Option<u8>, Failure> {
    if sides.is_empty() || !sides.iter().all(|side| is_trace(Path::new(side))) {
        return Ok(None);
    }
    let [before, after] = sides else {
        let failure = Failure::new(format!("{} traces are named, and two are compared", sides.len()));
        return Err(failure.hint("rankmark compare BEFORE AFTER; a folder of traces of all ranks is one side"));
    };
    // A gate that nobody looks at would always hold.
    refuse_given(of_records, &format!("is for records, and {before} is a trace"))?;
    profile::compare_traces([Path::new(before), Path::new(after)], json).map(Some)
}

/// Whether it is a trace, and no part of a record: a folder of traces, or a file.
fn is_trace(path: &Path) -> bool {
    let is_record = path.is_dir() && path.join(record::store::RUN_FILE).is_file() || record_of(path).is_some();
    path.exists() && !is_record && !is_plan(path) && import::traces::recognise(path).is_some()
}
