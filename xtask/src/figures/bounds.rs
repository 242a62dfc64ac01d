//! What Rankmark itself costs: measuring, planning, reporting.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::Cargo;

/// Cases of the plan that is checked, and of the record that is reported.
const PLANNED: usize = 20_000;
const REPORTED: usize = 10_000;

/// One row a cost, each with its command.
pub(super) fn table(cargo: &Cargo<'_>, about: &Value, folder: &Path) -> Result<String, String> {
    let harness = &about["harness"];
    let mut text = String::from("| what | cost | command |\n|---|---|---|\n");
    let ns = |name: &str| harness[name].as_f64().map_or("-".to_owned(), |ns| format!("{ns:.1} ns"));
    text +=
        &format!("| an empty sample | {} | the run of the first table (`harness` in run.json) |\n", ns("sample_ns"));
    text += &format!("| entering and leaving a call | {} | the same |\n", ns("call_ns"));
    let plan = folder.join("many.yaml");
    std::fs::write(&plan, many()).map_err(|error| format!("{}: {error}", plan.display()))?;
    let plan = plan.display().to_string();
    // With 1 it says that something of this machine is misconfigured, which is no matter of the plan.
    let checked = timed(|| cargo.runs(&["validate", "--quick", "--plan", &plan], &[0, 1]))?;
    text +=
        &format!("| a plan of {PLANNED} cases checked | {checked:.1} s | `rankmark validate --quick --plan PLAN` |\n");
    let record = folder.join("large").display().to_string();
    let large = |words: &[&str]| {
        cargo.ends_well(&[&["run", "--quiet", "--release", "-p", "report", "--example", "large", "--"], words].concat())
    };
    large(&[&record, &REPORTED.to_string()])?;
    let reported = timed(|| large(&[&record]))?;
    text += &format!(
        "| a report of {REPORTED} cases written | {reported:.1} s | `cargo run --release -p report --example large -- DIR` |\n"
    );
    Ok(text)
}

fn timed(act: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    let begun = Instant::now();
    act()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A plan of so many cases.
fn many() -> String {
    let seeds: Vec<String> = (0..PLANNED / 20).map(|seed| seed.to_string()).collect();
    format!(
        "experiment: many\ncases:\n  - {{benchmark: collective, op: [all_reduce, all_gather, broadcast, reduce], ranks: 2, \
         bytes: [1KiB, 2KiB, 4KiB, 8KiB, 16KiB], seed: [{}]}}\n",
        seeds.join(", ")
    )
}
