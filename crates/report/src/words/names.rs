//! A case in words, as lists of cases name it.

use record::CaseLine;
use serde_json::Value;

use crate::study;

/// The operation, where the case has one; else its benchmark.
pub(crate) fn what(case: &CaseLine) -> &str {
    case.parameters.get("op").and_then(Value::as_str).unwrap_or(&case.benchmark)
}

/// `all_reduce 64 MiB, 4 ranks, shm (id 0123)`. Plain text from the record: callers escape it.
pub(crate) fn described(case: &CaseLine) -> String {
    let name = study::named(what(case), case.bytes, case.ranks, &study::backend(case));
    format!("{name} (id {})", view::one_line(&case.id))
}
