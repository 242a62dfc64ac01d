//! Plans among records: the line that measures them, or compares both.

use std::path::Path;

use report::shell;

use crate::Failure;
use crate::not_a_record::{is_plan, plan, record_of};

/// Refuses files among the records, with the line that compares what they stand for.
///
/// # Errors
/// A file among them.
pub(super) fn refuse(sides: &[String]) -> Result<(), Failure> {
    let plans: Vec<&String> = sides.iter().filter(|side| is_plan(Path::new(side))).collect();
    match plans.as_slice() {
        [] => refuse_files(sides),
        [first, ..] if plans.len() == sides.len() && plans.len() <= 2 => {
            let words = plans.iter().map(|plan| shell(plan)).collect::<Vec<_>>().join(" ");
            let line = format!("rankmark compare --interleave {words}");
            Err(plan(first).hint(format!("{line}\nmeasures both sides now")))
        }
        [first, ..] => Err(plan(first).hint(measured(sides))),
    }
}

/// The line that makes a record of each plan, and compares those.
fn measured(sides: &[String]) -> String {
    let mut line = String::new();
    let mut names = Vec::new();
    for side in sides {
        let path = Path::new(side);
        let Some(stem) = path.file_stem().filter(|_| is_plan(path)) else {
            names.push(shell(side));
            continue;
        };
        let record = Path::new(record::store::RESULTS).join(stem).display().to_string();
        line += &format!("rankmark run {} --output-dir {} && ", shell(side), shell(&record));
        names.push(shell(&record));
    }
    format!("{line}rankmark compare {}", names.join(" "))
}

/// A file of a record stands for its directory.
fn refuse_files(sides: &[String]) -> Result<(), Failure> {
    let Some(file) = sides.iter().find(|side| Path::new(side).is_file()) else { return Ok(()) };
    if record_of(Path::new(file)).is_none() {
        return crate::not_a_record::refuse_file(Path::new(file));
    }
    let names: Vec<String> =
        sides.iter().map(|side| shell(&record_of(Path::new(side)).unwrap_or_else(|| side.clone()))).collect();
    let failure = Failure::new(format!("{file} is a file of a record, and `rankmark compare` takes directories"));
    Err(failure.hint(format!("rankmark compare {}", names.join(" "))))
}
