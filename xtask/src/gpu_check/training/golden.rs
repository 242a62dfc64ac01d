//! Losses of small models on the GPU beside those of the CPU: the same seed, samples and steps.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Row, Training};

/// Every built-in model that has no convolutions, as small as its layers permit, but for heads as wide as tensor cores take them.
const MODELS: &[(&str, &str)] = &[
    ("gpt2", "--layers 2 --width 128 --heads 2 --vocabulary 96 --sequence 40 --dropout 0.1"),
    ("gpt2-medium", "--layers 1 --width 128 --heads 1 --vocabulary 96 --sequence 33"),
    ("gpt2-mini", "--layers 2 --width 128 --heads 2 --vocabulary 96 --sequence 64"),
    ("llama-1b", "--layers 1 --width 128 --heads 2 --kv-heads 1 --ffn 176 --vocabulary 96 --sequence 40"),
    ("llama-tiny", "--layers 2 --width 96 --heads 4 --kv-heads 2 --ffn 176 --vocabulary 96 --sequence 40"),
    ("bert-base", "--layers 2 --width 128 --heads 2 --ffn 176 --vocabulary 96 --sequence 40 --dropout 0.1"),
    ("bert-large", "--layers 1 --width 96 --heads 4 --ffn 176 --vocabulary 96 --sequence 33"),
    ("transformer-small", "--layers 1 --width 96 --heads 2 --vocabulary 96 --sequence 40"),
    ("transformer-medium", "--layers 1 --width 64 --heads 4 --vocabulary 96 --sequence 40"),
    ("transformer-large", "--layers 1 --width 64 --heads 2 --vocabulary 96 --sequence 40"),
    ("mlp", "--width 48 --features 40 --layers 3"),
];

/// Those with convolutions.
const CONVOLUTIONAL: &[(&str, &str)] = &[
    ("resnet18", "--image 33 --classes 7 --width 8 --stage1 1 --stage2 1 --stage3 1 --stage4 1"),
    ("resnet50", "--image 33 --classes 7 --width 8 --stage1 1 --stage2 1 --stage3 1 --stage4 1"),
];

/// How models of a kind are trained, and how far losses may be apart.
struct Golden {
    models: &'static [(&'static str, &'static str)],
    /// The four steps change losses by at least 0.2%: an update that is left out shows in every type.
    rate: f64,
    /// Largest relative difference by type. In f64 it is that of the order of sums; in the others, of so many roundings.
    bounds: [(&'static str, f64); 4],
}

/// One unit in the last place of f32, bf16 and f16.
const UNITS: [f64; 3] = [1.0 / 16_777_216.0, 1.0 / 512.0, 1.0 / 4096.0];

const fn bounds(roundings: f64) -> [(&'static str, f64); 4] {
    [("f64", 1e-9), ("f32", 30.0 * UNITS[0]), ("bf16", roundings * UNITS[1]), ("f16", roundings * UNITS[2])]
}

/// Batch norm over a few numbers makes large differences of small ones.
const ALL: [Golden; 2] = [
    Golden { models: MODELS, rate: 0.3, bounds: bounds(1.0) },
    Golden { models: CONVOLUTIONAL, rate: 0.05, bounds: bounds(30.0) },
];

/// The largest relative difference of losses; an error says why there is none.
fn apart(one: &Value, other: &Value) -> Result<f64, String> {
    let of = |line: &Value| -> Vec<f64> {
        line["loss"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    };
    let (one, other) = (of(one), of(other));
    if one.is_empty() || one.len() != other.len() {
        return Err(format!("{} losses on the GPU, {} on the CPU", one.len(), other.len()));
    }
    Ok(one.iter().zip(&other).map(|(a, b)| (a - b).abs() / b.abs()).fold(0.0, f64::max))
}

/// What stands in a cell, and whether it is as it must be.
fn cell(gpu: &[Value], cpu: &[Value], (dtype, bound): (&str, f64)) -> (String, bool) {
    let row = |lines: &[Value], device: &str| {
        let found = lines.iter().find(|line| line["parameters"]["precision"] == dtype);
        found.map_or_else(|| Row::Failed("no row".to_owned()), |line| Row::of(line, device))
    };
    match (row(gpu, "cuda"), row(cpu, "cpu")) {
        (Row::Ok(gpu), Row::Ok(cpu)) => match apart(&gpu, &cpu) {
            Ok(apart) if apart <= bound => (format!("{apart:.1e}"), true),
            Ok(apart) => (format!("**{apart:.1e}**, at most {bound:.1e}"), false),
            Err(why) => (format!("**failed**: {why}"), false),
        },
        (Row::Failed(why), _) | (_, Row::Failed(why)) => (format!("**failed**: {why}"), false),
        (Row::Skipped(why), _) | (_, Row::Skipped(why)) => (format!("skipped: {why}"), true),
    }
}

/// A table of each kind of models. False where losses are too far apart, or there are none.
///
/// # Errors
/// What could not be kept.
pub(super) fn table(training: &Training<'_>) -> Result<(String, bool), String> {
    let (mut text, mut passed) = (String::new(), true);
    for golden in &ALL {
        let heads = golden.bounds.map(|(dtype, bound)| format!("{dtype} (at most {bound:.1e})")).join(" | ");
        let _ =
            writeln!(text, "\n| losses on GPU and CPU, largest relative difference | {heads} |\n|---|---|---|---|---|");
        for (model, dimensions) in golden.models {
            let cells = golden.compared(training, model, dimensions);
            passed &= cells.iter().all(|(_, is_right)| *is_right);
            let same = cells.iter().all(|cell| *cell == cells[0]);
            // What holds for all types is said once.
            let said = cells.iter().enumerate().map(|(at, (said, _))| if same && at > 0 { "" } else { said.as_str() });
            let _ = writeln!(text, "| {model} | {} |", said.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok((text, passed))
}

impl Golden {
    /// The cells of a model, by type.
    fn compared(&self, training: &Training<'_>, model: &str, dimensions: &str) -> [(String, bool); 4] {
        let types = self.bounds.map(|(dtype, _)| dtype).join(",");
        // The keys' bias has no gradient but rounding, of which AdamW would make whole steps.
        let words = format!(
            "--model {model} {dimensions} --batch 4 --precision {types} --optimizer sgd --learning-rate {} --momentum 0.9 \
             --clip 1 --steps 4 --warmup 0 --trials 1 --spacing 0s --limits false",
            self.rate
        );
        let on = |device: &str, more: &str| {
            training.lines(&format!("golden_{model}_{device}"), &format!("{words} --device {device} {more}"))
        };
        match (on("cuda", "--attention own"), on("cpu", "")) {
            (Ok(gpu), Ok(cpu)) => self.bounds.map(|of| cell(&gpu, &cpu, of)),
            (Err(why), _) | (_, Err(why)) => self.bounds.map(|_| (format!("**failed**: {why}"), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn line(status: &str, losses: &[f64], device: &str) -> Value {
        json!({"status": status, "device": device, "reason": "none", "parameters": {"precision": "f64"}, "loss": losses})
    }

    #[test]
    fn losses_that_are_apart_or_missing_fail() {
        let judge = |status: &str, gpu: &[f64], cpu: &[f64]| {
            cell(&[line(status, gpu, "cuda")], &[line("ok", cpu, "cpu")], ("f64", 1e-9)).1
        };
        assert!(judge("ok", &[3.0, 2.0], &[3.0, 2.0]) && judge("ok", &[3.0, 2.0 + 1e-9], &[3.0, 2.0]));
        assert!(!judge("ok", &[3.0, 2.0 + 1e-8], &[3.0, 2.0]));
        assert!(!judge("ok", &[3.0], &[3.0, 2.0]) && !judge("ok", &[], &[]));
        assert!(!judge("failed", &[], &[3.0]) && judge("skipped", &[], &[3.0]));
        let rows = ["cuda", "cpu"].map(|device| [line("ok", &[3.0], device)]);
        assert!(!cell(&rows[0], &rows[1], ("f32", 1e-9)).1, "no row of that type");
        assert!(!cell(&rows[1], &rows[1], ("f64", 1e-9)).1, "not on the GPU");
    }

    #[test]
    fn every_model_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/model/src/models");
        let mut names: Vec<String> = Vec::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let entries = text.split(": Entry = Entry {").skip(1);
            names.extend(entries.filter_map(|rest| Some(rest.split_once("name: \"")?.1.split_once('"')?.0.to_owned())));
        }
        names.sort();
        let mut own: Vec<&str> = ALL.iter().flat_map(|golden| golden.models).map(|(name, _)| *name).collect();
        own.sort_unstable();
        assert_eq!(own, names);
    }
}
