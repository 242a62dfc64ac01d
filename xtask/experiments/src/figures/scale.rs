//! What Rankmark itself costs: measuring, planning, reporting.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use xtask::scale;

/// One row a cost, each with its command.
pub(super) fn table(root: &Path, about: &Value, folder: &Path) -> Result<String, String> {
    let overhead = &about["overhead"];
    let mut text = String::from("| what | cost | command |\n|---|---|---|\n");
    let ns = |name: &str| overhead[name].as_f64().map_or("-".to_owned(), |ns| format!("{ns:.1} ns"));
    text +=
        &format!("| an empty sample | {} | the run of the first table (`overhead` in run.json) |\n", ns("sample_ns"));
    text += &format!("| entering and leaving a call | {} | the same |\n", ns("call_ns"));
    for measured in scale::full(root, folder)? {
        let (what, cost, command) = (&measured.what, measured.cost(), &measured.command);
        let _ = writeln!(text, "| {what} | {:.1} s, {:.0} MB | `{command}` |", cost.wall, cost.megabytes);
    }
    Ok(text)
}
