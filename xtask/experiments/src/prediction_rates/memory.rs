//! How far off predicted memory is: the largest batch under a limit, proven by a step, and what the optimizer and activations hold, each
//! as the difference of two runs, because the system counts pages and not what they are for.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use xtask::runs::{cleared, head, said};

const MESHES: [&str; 4] = ["2x1x1", "1x1x2", "2x1x2", "1x2x2"];
/// What a rank may hold.
const LIMIT: f64 = (1_u64 << 30) as f64;
/// The batches whose difference shows activations, in samples of a micro-batch.
const BATCHES: (u64, u64) = (8, 24);

/// What one run held.
struct Held {
    /// Samples of a step on each replica.
    batch: u64,
    /// Bytes of the rank that held the most.
    most: f64,
    /// Bytes of a rank's process before the case.
    process: f64,
    /// Bytes of all ranks.
    total: f64,
    /// Planned bytes of all ranks, by category.
    planned: Value,
}

impl Held {
    fn read(line: &Value) -> Option<Self> {
        let memory = &line["memory"];
        let ranks: Vec<f64> = memory["measured"]["per_rank"].as_array()?.iter().filter_map(Value::as_f64).collect();
        Some(Self {
            batch: line["parameters"]["batch"].as_u64()?,
            most: ranks.iter().copied().fold(0.0, f64::max),
            process: memory["measured"]["process"].as_f64()? / ranks.len() as f64,
            total: memory["measured"]["total"].as_f64()?,
            planned: memory["predicted"].clone(),
        })
    }

    /// Planned over measured of what this run held and another did not, less one; `categories`: those that differ.
    fn error_of(&self, other: &Self, categories: &[&str]) -> f64 {
        let planned = |held: &Self| categories.iter().filter_map(|name| held.planned[*name].as_f64()).sum::<f64>();
        (planned(self) - planned(other)) / (self.total - other.total) - 1.0
    }
}

/// What grows with the batch.
const OF_SAMPLES: [&str; 5] = ["activations", "communication", "input", "read_ahead", "scratch"];

/// The table of all meshes.
pub(super) fn table(program: &Path, profile: &Path, folder: &Path) -> Result<String, String> {
    let mut text = head(
        "| mesh | largest batch that ran within 1 GiB a rank | held, of that | with one sample more | by `predict`, these two fit | bytes by `predict` | optimizer | activations | the rest |",
    );
    for mesh in MESHES {
        text += &row(program, profile, &folder.join("memory"), mesh)?;
    }
    Ok(text)
}

fn row(program: &Path, profile: &Path, folder: &Path, mesh: &str) -> Result<String, String> {
    let run = |more: &[&str]| -> Result<Held, String> {
        let mut command = Command::new(program);
        command.args(["memory", "--model", "gpt2-mini", "--mesh", mesh, "--trials", "1", "--json"]).args(more);
        command.arg("--ranks").arg(ranks(mesh).to_string());
        command.arg("--output-dir").arg(cleared(folder)?);
        let lines = said(&mut command, &[0])?;
        lines.iter().rev().find_map(Held::read).ok_or_else(|| format!("{command:?} measured nothing"))
    };
    let bytes = |batch: u64| -> Result<f64, String> {
        let mut command = Command::new(program);
        command.args(["predict", "--model", "gpt2-mini", "--precision", "f32", "--json", "--mesh", mesh]);
        command.arg("--batch").arg(batch.to_string()).arg("--profile").arg(profile);
        let lines = said(&mut command, &[0])?;
        let found = lines.iter().find_map(|line| line["prediction"]["memory"]["bytes"].as_f64());
        found.ok_or_else(|| format!("{command:?} predicted no bytes"))
    };
    let stages: u64 = mesh.rsplit('x').next().and_then(|stages| stages.parse().ok()).unwrap_or(1);
    // A pipeline has two micro-batches a stage.
    let unit = if stages > 1 { 2 * stages } else { 1 };
    let sized = |samples: u64, optimizer: &str| {
        run(&["--batch", &(samples * unit).to_string(), "--optimizer", optimizer, "--learning-rate", "0.0001"])
    };
    let largest = run(&["--find-max-batch", "--limit", &format!("{LIMIT:.0}")])?;
    let next = run(&["--batch", &(largest.batch + unit).to_string()])?;
    let (adamw, sgd, many) = (sized(BATCHES.0, "adamw")?, sized(BATCHES.0, "sgd")?, sized(BATCHES.1, "adamw")?);
    let (fits, fits_next) = (bytes(largest.batch)?, bytes(next.batch)?);
    let planned = sgd.planned["total"].as_f64().unwrap_or(f64::NAN);
    let rest = planned / (sgd.total - sgd.process * f64::from(ranks(mesh))) - 1.0;
    let percent = |value: f64| format!("{:+.1}%", 100.0 * value);
    let of_limit = |bytes: f64| format!("{:.1}%", 100.0 * bytes / LIMIT);
    let says = |bytes: f64| if bytes <= LIMIT { "yes" } else { "no" };
    let cells = [
        mesh.to_owned(),
        largest.batch.to_string(),
        of_limit(largest.most),
        of_limit(next.most),
        format!("{}, {}", says(fits + largest.process), says(fits_next + next.process)),
        percent((fits + largest.process) / largest.most - 1.0),
        percent(adamw.error_of(&sgd, &["optimizer"])),
        percent(many.error_of(&adamw, &OF_SAMPLES)),
        percent(rest),
    ];
    Ok(format!("| {} |\n", cells.join(" | ")))
}

fn ranks(mesh: &str) -> u32 {
    mesh.split('x').filter_map(|size| size.parse::<u32>().ok()).product()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn held(optimizer: u64, total: u64) -> Held {
        let line = json!({"parameters": {"batch": 8}, "memory": {
            "measured": {"per_rank": [total / 4, 3 * total / 4], "process": 200, "total": total},
            "predicted": {"optimizer": optimizer, "activations": 500},
        }});
        Held::read(&line).unwrap()
    }

    #[test]
    fn a_category_is_the_difference_of_two_runs() {
        let (more, less) = (held(440, 2_000), held(0, 1_600));
        assert!((more.error_of(&less, &["optimizer"]) - 0.1).abs() < 1e-9, "440 planned, 400 measured");
        assert_eq!((more.most, more.process, ranks("2x1x2")), (1_500.0, 100.0, 4));
        assert!(Held::read(&json!({"memory": {}})).is_none());
    }
}
