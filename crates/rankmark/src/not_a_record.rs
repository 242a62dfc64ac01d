//! Files where a command takes the directory of a record: what each is, and the line to type.

use std::path::Path;

use record::store::RUN_FILE;
use report::shell;

use crate::Failure;

/// Larger files are not looked into.
const LARGEST: u64 = 1 << 20;

/// Refuses a file where the directory of a record is wanted. What is not there at all is left to the reader.
///
/// # Errors
/// A plan, a file of a record, or another file.
pub(crate) fn refuse_file(path: &Path) -> Result<(), Failure> {
    if !path.is_file() {
        return Ok(());
    }
    let name = path.display().to_string();
    if is_plan(path) {
        return Err(plan(&name).hint(format!("`rankmark run {}` makes a record of it", shell(&name))));
    }
    if let Some(record) = record_of(path) {
        let failure = Failure::new(format!("{name} is a file of a record"));
        return Err(failure.hint(format!("name the record's directory: {}", shell(&record))));
    }
    let hint = "a record is a directory; `rankmark import FILE` makes one of another tool's results";
    Err(Failure::new(format!("{name} is a file, not a record")).hint(hint))
}

/// Refuses what `predict` wrote where a measurement is wanted.
///
/// # Errors
/// When the file holds a prediction.
pub(crate) fn refuse_prediction(path: &Path) -> Result<(), Failure> {
    let is_small = path.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
    let text = if is_small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    let keys: Option<serde_json::Map<String, serde_json::Value>> = record::from_json(&text).ok();
    match keys.is_some_and(|keys| keys.get("predicted") == Some(&true.into())) {
        true => Err(Failure::new(format!("{} is a prediction, not a measurement", path.display()))
            .cause("nothing was measured for it, so it has no trials to compare")
            .hint("`rankmark predict --check PLAN` measures what it predicts, and says the errors")),
        false => Ok(()),
    }
}

/// Says that a plan is not what is wanted.
pub(crate) fn plan(name: &str) -> Failure {
    Failure::new(format!("{name} is a plan, not a record"))
}

/// Whether a file is a plan: YAML, or JSON with the keys of one.
pub(crate) fn is_plan(path: &Path) -> bool {
    let is_small = || path.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
    match path.extension().and_then(|kind| kind.to_str()) {
        Some("yaml" | "yml") => path.is_file(),
        Some("json") if is_small() => {
            let text = std::fs::read(path).unwrap_or_default();
            let keys: Option<serde_json::Map<String, serde_json::Value>> = record::from_json(&text).ok();
            keys.is_some_and(|keys| keys.contains_key("experiment") && keys.contains_key("cases"))
        }
        _ => false,
    }
}

/// The directory of the record that a file is part of.
pub(crate) fn record_of(file: &Path) -> Option<String> {
    let folder = file.parent()?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    (file.is_file() && folder.join(RUN_FILE).is_file()).then(|| folder.display().to_string())
}
