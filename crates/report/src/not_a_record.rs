//! Files where a command takes the directory of a record: what each is, and the line to type. Of plans among the records of a
//! comparison, the line that measures them.

use std::path::Path;

use record::store::{RESULTS, RUN_FILE};
use terms::Error;
use view::number::list;

use crate::shell;

/// Larger files are not looked into.
const LARGEST: u64 = 1 << 20;

/// Refuses a file where the directory of a record is wanted. What is not there at all is left to the reader.
///
/// # Errors
/// A plan, a file of a record, or another file.
pub fn refuse_file(path: &Path) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    let name = path.display().to_string();
    if is_plan(path) {
        return Err(plan(&name).hint(format!("`rankmark run {}` makes a record of it", shell(&name))));
    }
    if let Some(record) = record_of(path) {
        let failure = Error::new(format!("{name} is a file of a record"));
        return Err(failure.hint(format!("name the record's directory: {}", shell(&record))));
    }
    let hint = "a record is a directory; `rankmark import FILE` makes one of another tool's results";
    Err(Error::new(format!("{name} is a file, not a record")).hint(hint))
}

/// Refuses what `predict` wrote where a measurement is wanted.
///
/// # Errors
/// When the file holds a prediction.
pub fn refuse_prediction(path: &Path) -> Result<(), Error> {
    match keys_of(path).is_some_and(|keys| keys.get("predicted") == Some(&true.into())) {
        true => Err(Error::new(format!("{} is a prediction, not a measurement", path.display()))
            .cause("nothing was measured for it, so it has no trials to compare")
            .hint("`rankmark predict --check PLAN` measures what it predicts, and says the errors")),
        false => Ok(()),
    }
}

/// Says that a plan is not what is wanted.
pub fn plan(name: &str) -> Error {
    Error::new(format!("{name} is a plan, not a record"))
}

/// Whether a file is a plan: YAML, or JSON with the keys of one.
pub fn is_plan(path: &Path) -> bool {
    match path.extension().and_then(|kind| kind.to_str()) {
        Some("yaml" | "yml") => path.is_file(),
        Some("json") => keys_of(path).is_some_and(|keys| keys.contains_key("experiment") && keys.contains_key("cases")),
        _ => false,
    }
}

/// The keys of a small file of JSON.
fn keys_of(path: &Path) -> Option<serde_json::Map<String, serde_json::Value>> {
    let is_small = path.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
    let text = is_small.then(|| std::fs::read(path).ok()).flatten()?;
    record::from_json(text).ok()
}

/// The directory of the record that a file is part of.
pub fn record_of(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    (file.is_file() && folder.join(RUN_FILE).is_file()).then(|| folder.display().to_string())
}

/// Refuses what is not there, all of it at once.
///
/// # Errors
/// Where one of them is not there.
pub fn refuse_missing(named: &[String]) -> Result<(), Error> {
    let missing: Vec<&String> = named.iter().filter(|name| !Path::new(name).exists()).collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(Error::new(format!("there is no folder {one}"))),
        all => Err(Error::new(format!("there are no folders {}", list(all)))),
    }
}

/// Refuses files among the records, with the line that compares what they stand for.
///
/// # Errors
/// A file among them.
pub fn refuse_files(sides: &[String]) -> Result<(), Error> {
    let plans: Vec<&String> = sides.iter().filter(|side| is_plan(Path::new(side))).collect();
    match plans.as_slice() {
        [] => refuse_parts(sides),
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
        let record = Path::new(RESULTS).join(stem).display().to_string();
        line += &format!("rankmark run {} --output-dir {} && ", shell(side), shell(&record));
        names.push(shell(&record));
    }
    format!("{line}rankmark compare {}", names.join(" "))
}

/// A file of a record stands for its directory.
fn refuse_parts(sides: &[String]) -> Result<(), Error> {
    let Some(file) = sides.iter().find(|side| Path::new(side).is_file()) else { return Ok(()) };
    if record_of(Path::new(file)).is_none() {
        return refuse_file(Path::new(file));
    }
    let names: Vec<String> =
        sides.iter().map(|side| shell(&record_of(Path::new(side)).unwrap_or_else(|| side.clone()))).collect();
    let failure = Error::new(format!("{file} is a file of a record, and `rankmark compare` takes directories"));
    Err(failure.hint(format!("rankmark compare {}", names.join(" "))))
}
