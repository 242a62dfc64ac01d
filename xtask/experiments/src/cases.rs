//! Case lines of a record, as `coverage` and `figures` read them: JSON, and the last line of an identity counts.

use std::path::Path;

use serde_json::Value;

/// The last line of each case, in the order of identities.
///
/// # Errors
/// What cannot be read, with its path.
pub(crate) fn read(record: &Path) -> Result<Vec<Value>, String> {
    let path = record.join("cases.jsonl");
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let mut lines: Vec<Value> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| failed(&error))?;
        match lines.iter_mut().find(|known| known["id"] == line["id"]) {
            Some(known) => *known = line,
            None => lines.push(line),
        }
    }
    lines.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
    Ok(lines)
}

/// An interval of a case line: `time_s`, `ci95`.
pub(crate) fn ends(of: &Value, name: &str) -> Option<[f64; 2]> {
    let ends = of.get(name)?.as_array()?;
    Some([ends.first()?.as_f64()?, ends.get(1)?.as_f64()?])
}

/// Bytes as a person writes them.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{} MiB", b >> 20),
        b => format!("{} KiB", b >> 10),
    }
}
