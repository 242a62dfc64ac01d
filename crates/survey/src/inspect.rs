//! Looking at an MPI library in a process of its own: a library that ends the process which opens it ends that one.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use comm::mpi::{Facts, Vendor};
use process::{ITSELF, child};
use serde_json::{Value, json};

/// The hidden argument of a probe: `__probe_mpi=LIBRARY`, nothing behind the sign meaning the first that there is.
const ARGUMENT: &str = "__probe_mpi=";

/// How long a library may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What a probe process is to print before it ends; None where these are not the arguments of one.
pub fn probe_answer(args: &[OsString]) -> Option<String> {
    let library = args.iter().find_map(|argument| argument.to_str()?.strip_prefix(ARGUMENT))?;
    let answer = match comm::mpi::inspect(Some(library).filter(|library| !library.is_empty())) {
        Ok(Facts { vendor, number, abi, path }) => {
            json!({"vendor": vendor.name(), "number": number, "abi": abi, "path": path})
        }
        Err(why) => json!({ "why": why }),
    };
    // On a line of its own, behind whatever the library may have printed.
    Some(format!("\n{ARGUMENT}{answer}\n"))
}

/// As [`comm::mpi::inspect`], by this program in another process, which must print [`probe_answer`].
///
/// # Errors
/// Why the library cannot be used; how the process ended, where it did not answer.
pub fn inspect_in_child(library: Option<&str>) -> Result<Facts, String> {
    let name = library.unwrap_or_default();
    let argument = format!("{ARGUMENT}{name}");
    let outcome = child::run(Path::new(ITSELF), &[OsStr::new(&argument)], None, LIMIT)
        .map_err(|error| format!("looking at {name}: {error}"))?;
    let answer = outcome.out.lines().find_map(|line| line.strip_prefix(ARGUMENT));
    let answer = answer.and_then(|answer| serde_json::from_str::<Value>(answer).ok());
    let answer = answer.ok_or_else(|| format!("the process that opened {name} {}", outcome.complaint()))?;
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
    let facts = || {
        let vendor = Vendor::of_name(&text("vendor")?)?;
        Some(Facts { vendor, number: text("number")?, abi: text("abi")?, path: text("path")? })
    };
    facts().ok_or_else(|| text("why").unwrap_or_else(|| "an answer that cannot be read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_answers_for_what_is_no_library() {
        assert_eq!(probe_answer(&["rankmark".into(), "list".into()]), None);
        let answer = probe_answer(&[format!("{ARGUMENT}libno-such-mpi.so").into()]).unwrap();
        assert!(answer.contains("\"why\":\"libno-such-mpi.so"), "{answer}");
    }
}
