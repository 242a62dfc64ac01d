//! How far off `rankmark predict` is on this machine: of schedules whose blocks sleep, of models that were not seen, of exchanges that
//! hide behind computation, of exchanges alone, of choices, and of memory.
//!
//! Not part of CI: it measures the machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod hidden;
mod memory;

use xtask::runs::{Given, cleared, head, printed, program};

/// The plan of a part: of so many drawn cases, by a seed.
type PlanOf = fn(usize, u64) -> String;

/// What is checked, each by a plan of its own.
const PARTS: [(&str, PlanOf); 5] = [
    ("schedules", schedules),
    ("models", models),
    ("overlap", overlap),
    ("collectives", collectives),
    ("choice", choice),
];
/// The part that compares bytes and not times.
const MEMORY: &str = "memory";
/// `predict --check` ends with 1 where a gate is missed.
const CODES: [i32; 2] = [0, 1];

/// Checks each part, and prints a table.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let valid = "--part PART, --cases N, --seed N, --profile FILE, --program PATH, --records DIR";
    let given = Given::read(words, valid)?;
    let cases = given.number("--cases", 1, 200)?;
    let seed = given.number("--seed", 0, 1)? as u64;
    let only = given.text("--part");
    if let Some(unknown) = only.filter(|part| *part != MEMORY && PARTS.iter().all(|(name, _)| name != part)) {
        return Err(format!("no part is called {unknown}: {}, {MEMORY}", PARTS.map(|(name, _)| name).join(", ")));
    }
    let folder = given.records("prediction-rates");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = program(root, given.path("--program").as_deref())?;
    let profile = match given.path("--profile") {
        Some(profile) => profile,
        None => calibrated(&program, &folder)?,
    };
    let columns = head(
        "| part | cases | mean | median | p90 | p95 | bias | a constant rate, mean | 90% intervals hold | their width over a constant rate's | lost by the first choice | by the best of three | by a random one |",
    );
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    let (mut rows, mut more) = (String::new(), String::new());
    for (name, plan) in PARTS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let path = folder.join(format!("{name}.yaml"));
        std::fs::write(&path, plan(cases, seed)).map_err(|error| format!("{}: {error}", path.display()))?;
        match checked(&program, &profile, &path, &folder.join(name)) {
            Ok(found) => {
                rows += &row(name, &found);
                if name == "overlap" {
                    more += &hidden::sentence(&found);
                }
            }
            Err(why) => eprintln!("{name}: {why}"),
        }
    }
    if is_wanted(MEMORY) {
        match memory::table(&program, &profile, &folder) {
            Ok(found) => more += &format!("\n{found}"),
            Err(why) => eprintln!("{MEMORY}: {why}"),
        }
    }
    Ok(printed(Ok(tables(&columns, &rows, &more))))
}

/// The table of times, if it has a row, and what follows.
fn tables(columns: &str, rows: &str, more: &str) -> String {
    if rows.is_empty() { more.trim_start().to_owned() } else { format!("{columns}{rows}{more}") }
}

/// The profile of this machine, made once.
fn calibrated(program: &Path, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("machine-profile.json");
    if !path.exists() {
        let mut command = Command::new(program);
        command.args(["calibrate", "--quick", "--quiet", "--output"]).arg(&path);
        command.arg("--output-dir").arg(cleared(&folder.join("calibration"))?);
        let ended = command.status().map_err(|error| format!("{command:?}: {error}"))?;
        if !ended.success() {
            return Err(format!("{command:?} ended with {ended}"));
        }
    }
    Ok(path)
}

fn checked(program: &Path, profile: &Path, plan: &Path, record: &Path) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.arg("predict").arg("--check").arg(plan).arg("--profile").arg(profile).arg("--json");
    command.arg("--output-dir").arg(cleared(record)?);
    xtask::runs::said(&mut command, &CODES)?
        .into_iter()
        .find(|line| line["errors"].is_object())
        .ok_or_else(|| format!("{command:?} printed no errors"))
}

fn row(name: &str, found: &Value) -> String {
    let errors: Vec<f64> = found["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| Some(row["predicted_s"].as_f64()? / row["measured_s"].as_f64()? - 1.0))
        .collect();
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let at = |share: usize| sizes.get(sizes.len() * share / 100).or(sizes.last()).copied();
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{:.1}%", 100.0 * value));
    let gate = |what: &str| {
        let gates = found["gates"].as_array();
        gates.into_iter().flatten().find(|gate| gate["what"] == what).and_then(|gate| gate["value"].as_f64())
    };
    let regret = |which: &str| {
        found["regret"]["choices"].as_u64().filter(|count| *count > 0).and(found["regret"][which].as_f64())
    };
    let mean = (!sizes.is_empty()).then(|| sizes.iter().sum::<f64>() / sizes.len() as f64);
    let cells = [
        mean,
        at(50),
        at(90),
        at(95),
        found["bias"].as_f64(),
        found["constant_rate"]["mean"].as_f64(),
        found["coverage90"].as_f64(),
        gate("width of intervals over that of a constant rate's"),
        regret("first"),
        regret("best_of_three"),
        regret("random"),
    ];
    format!("| {name} | {} | {} |\n", errors.len(), cells.map(percent).join(" | "))
}

fn begin(seconds: &str) -> String {
    format!(
        "experiment: predict\ndefaults: {{backend: shm, precision: f32, trials: 3, max_seconds: {seconds}, limits: 'false'}}\ncases:\n"
    )
}

/// A stream of drawn numbers.
struct Draw(u64);

impl Draw {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        // The constants of Knuth's MMIX; the high bits are the random ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        choices[(self.0 >> 33) as usize % choices.len()]
    }
}

/// A model whose blocks sleep, and whose gradients are small enough for two cores to move them beside a slow link.
const SLEEPS: &str = "benchmark: training, model: gpt2-mini, compute: sleep, sleep_jitter: 0, width: 64, heads: 4, vocabulary: 1024, sequence: 64";

/// Drawn steps of 2 to 16 ranks: data x tensor x pipeline, schedules, stages that are uneven, with and without overlap, three links.
fn schedules(cases: usize, seed: u64) -> String {
    let mut text = begin("1s");
    let mut draw = Draw(seed);
    for _ in 0..cases {
        let (data, tensor, pipeline) = loop {
            let mesh = (draw.one_of(&[1, 2, 4]), draw.one_of(&[1, 1, 2]), draw.one_of(&[1, 2, 3, 4]));
            if (2..=16).contains(&(mesh.0 * mesh.1 * mesh.2)) {
                break mesh;
            }
        };
        // 6 to 10 layers, the embedding and the head do not divide by 3 or 4.
        let layers = draw.one_of(&[6, 7, 10]);
        let schedule = if pipeline > 1 { draw.one_of(&["gpipe", "1f1b", "interleaved"]) } else { "1f1b" };
        let chunks = if schedule == "interleaved" { ", chunks: 2" } else { "" };
        let micros = pipeline * draw.one_of(&[1, 2, 3]);
        let (bandwidth, latency) = draw.one_of(&[("50MB/s", "100us"), ("200MB/s", "50us"), ("1GB/s", "20us")]);
        let schedule = if pipeline > 1 {
            format!(", schedule: {schedule}{chunks}, micro_batches: {micros}")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "  - {{{SLEEPS}, layers: {layers}, sleep_time: {}, ranks: {}, mesh: {data}x{tensor}x{pipeline}{schedule}, batch: {micros}, \
             overlap: {}, pace_bandwidth: {bandwidth}, pace_latency: {latency}}}",
            // Two cores wake so many ranks in time only if they sleep longer.
            draw.one_of(if data * tensor * pipeline > 8 { &["4ms", "6ms", "8ms"] } else { &["1ms", "2ms", "4ms"] }),
            data * tensor * pipeline,
            draw.one_of(&["true", "false"]),
        );
    }
    text
}

/// Steps that no calibration has: other batches, widths, heads, sequences, models, on one and two ranks.
fn models(_: usize, _: u64) -> String {
    let mini = "benchmark: training, model: gpt2-mini";
    let mut text = begin("4s");
    for line in [
        "ranks: [1, 2], batch: [4, 8]",
        "ranks: 1, batch: 2, width: 128, heads: 4",
        "ranks: 1, batch: 2, width: 384, heads: 6",
        "ranks: 1, batch: 2, heads: [2, 8]",
        "ranks: 1, batch: 2, sequence: [64, 256]",
        "ranks: 2, strategy: [tensor, pipeline], batch: 4",
    ] {
        let _ = writeln!(text, "  - {{{mini}, {line}}}");
    }
    for line in [
        "model: llama-tiny, ranks: [1, 2], batch: 2",
        "model: transformer-small, ranks: 1, batch: 1, sequence: 128",
        "model: bert-base, ranks: 1, batch: 1, sequence: 64",
        "model: mlp, ranks: 1, batch: 32",
        "model: resnet18, ranks: 1, batch: 2, image: 64",
        "model: gpt2, ranks: 1, batch: 1, sequence: 64",
    ] {
        let _ = writeln!(text, "  - {{benchmark: training, {line}}}");
    }
    text
}

/// Exchanges that computation hides, and some that it does not.
fn overlap(_: usize, _: u64) -> String {
    let mut text = begin("4s");
    for overlap in ["true", "false"] {
        for bandwidth in hidden::BANDWIDTHS {
            let _ = writeln!(
                text,
                "  - {{benchmark: training, model: gpt2-mini, ranks: 2, batch: 2, bucket: 2MiB, overlap: {overlap}, \
                 pace_bandwidth: {bandwidth}MB/s}}"
            );
        }
    }
    text
}

/// Exchanges of sizes between those that are measured.
fn collectives(_: usize, _: u64) -> String {
    // Six sizes of five exchanges, between powers of two.
    begin("1s")
        + "  - {benchmark: collective, op: [all_reduce, all_gather, reduce_scatter, broadcast, send_recv], ranks: 2, \
           bytes: [768B, 12KiB, 96KiB, 768KiB, 6MiB, 48MiB]}\n"
}

/// Meshes and settings of one job each on two and on eight ranks: who chooses by prediction loses how much?
fn choice(_: usize, _: u64) -> String {
    let mut text = begin("2s");
    text.push_str(
        "  - {benchmark: training, model: gpt2-mini, ranks: 2, strategy: [data, tensor], global_batch: 8, recompute: [false, true]}\n  \
         - {benchmark: training, model: gpt2-mini, ranks: 2, strategy: pipeline, global_batch: 8, micro_batches: [2, 4, 8], \
         schedule: [gpipe, 1f1b]}\n",
    );
    for (mesh, micros) in [
        ("8x1x1", &[1][..]),
        ("4x2x1", &[1]),
        ("4x1x2", &[2, 4]),
        ("2x2x2", &[2, 4, 8]),
        ("2x1x4", &[4, 8]),
        ("1x2x4", &[4, 8]),
    ] {
        for micros in micros {
            for overlap in ["true", "false"] {
                let _ = writeln!(
                    text,
                    "  - {{{SLEEPS}, layers: 6, ranks: 8, mesh: {mesh}, global_batch: 32, micro_batches: {micros}, overlap: {overlap}, \
                     pace_bandwidth: 100MB/s, pace_latency: 50us}}"
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drawn_schedules_repeat_with_their_seed() {
        let (one, other) = (schedules(50, 1), schedules(50, 2));
        assert_eq!(one, schedules(50, 1));
        assert_ne!(one, other);
        assert_eq!(one.matches("compute: sleep").count(), 50);
        for word in ["gpipe", "interleaved, chunks: 2", "overlap: false", "50MB/s", "1GB/s", "x2x", "layers: 7"] {
            assert!(one.contains(word), "{word} is never drawn");
        }
    }

    #[test]
    fn a_table_without_rows_has_no_head() {
        assert_eq!(tables("| part |\n|---|\n", "", "\n| mesh |\n"), "| mesh |\n");
        assert_eq!(tables("| part |\n|---|\n", "| x |\n", "\nmore\n"), "| part |\n|---|\n| x |\n\nmore\n");
    }

    #[test]
    fn errors_are_those_of_rows() {
        let rows: Vec<Value> =
            (0..20).map(|at| json!({"predicted_s": 1.0 + 0.01 * f64::from(at), "measured_s": 1.0})).collect();
        let found = json!({"rows": rows, "errors": {}, "bias": 0.095, "constant_rate": {"mean": 0.3}, "coverage90": 1.0,
            "gates": [{"what": "width of intervals over that of a constant rate's", "value": 0.4}],
            "regret": {"choices": 0, "first": 0.0}});
        assert_eq!(
            row("x", &found),
            "| x | 20 | 9.5% | 10.0% | 18.0% | 19.0% | 9.5% | 30.0% | 100.0% | 40.0% | - | - | - |\n"
        );
    }
}
