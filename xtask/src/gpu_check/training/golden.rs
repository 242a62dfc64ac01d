//! Losses of small models on the GPU beside those of the CPU: the same seed, samples and steps.

use serde_json::Value;

use super::{Row, Training};
use crate::gpu_check::rows::Outcome;
use crate::gpu_check::stages::Stage;
use crate::gpu_check::units::{Unit, Work};

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

/// Models with convolutions.
const CONVOLUTIONAL: &[(&str, &str)] = &[
    ("resnet18", "--image 33 --classes 7 --width 8 --stage1 1 --stage2 1 --stage3 1 --stage4 1"),
    ("resnet50", "--image 33 --classes 7 --width 8 --stage1 1 --stage2 1 --stage3 1 --stage4 1"),
];

/// How models of a kind are trained, and how far losses may be apart.
pub(in crate::gpu_check) struct Golden {
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
static ALL: [Golden; 2] = [
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

/// What is said of a type; an error where it is not as it must be.
fn cell(gpu: &[Value], cpu: &[Value], (dtype, bound): (&str, f64)) -> Result<String, String> {
    let row = |lines: &[Value], device: &str| {
        let found = lines.iter().find(|line| line["parameters"]["precision"] == dtype);
        found.map_or_else(|| Row::Failed("no row".to_owned()), |line| Row::of(line, device))
    };
    match (row(gpu, "cuda"), row(cpu, "cpu")) {
        (Row::Ok(gpu), Row::Ok(cpu)) => match apart(&gpu, &cpu)? {
            apart if apart <= bound => Ok(format!("{dtype} {apart:.1e} (at most {bound:.1e})")),
            apart => Err(format!("{dtype} {apart:.1e}, and at most {bound:.1e} is right")),
        },
        (Row::Failed(why), _) | (_, Row::Failed(why)) => Err(format!("{dtype}: {why}")),
        (Row::Skipped(why), _) | (_, Row::Skipped(why)) => Ok(format!("{dtype} skipped: {why}")),
    }
}

/// Models whose losses decide the most, and the types that do.
const EARLY: &[&str] = &["gpt2-mini", "llama-tiny", "bert-base", "mlp", "resnet18"];
const EARLY_TYPES: &[&str] = &["f32", "bf16"];
const LATE_TYPES: &[&str] = &["f64", "f16"];
const TYPES: &[&str] = &["f64", "f32", "bf16", "f16"];

/// A row of each model; two of those that come early.
pub(in crate::gpu_check) fn units() -> impl Iterator<Item = Unit> {
    ALL.iter()
        .flat_map(|golden| golden.models.iter().enumerate().map(move |(at, (model, _))| (golden, at, *model)))
        .flat_map(|(golden, at, model)| {
            let unit = |name: String, stage, types| Unit {
                name,
                stage,
                seconds: 10,
                command: format!("rankmark train --model {model}, small, on the GPU and on the CPU"),
                work: Work::Losses(golden, at, types),
            };
            match EARLY.contains(&model) {
                true => vec![
                    unit(format!("losses_{model}"), Stage::Losses, EARLY_TYPES),
                    unit(format!("losses_{model}_further"), Stage::Rest, LATE_TYPES),
                ],
                false => vec![unit(format!("losses_{model}"), Stage::Rest, TYPES)],
            }
        })
}

impl Golden {
    /// The largest relative differences of a model's losses in these types.
    pub(in crate::gpu_check) fn row(&self, training: &Training<'_>, at: usize, types: &[&str]) -> Outcome {
        let (model, dimensions) = self.models[at];
        let list = types.join(",");
        // The keys' bias has no gradient but rounding, of which AdamW would make whole steps.
        let words = format!(
            "--model {model} {dimensions} --batch 4 --precision {list} --optimizer sgd --learning-rate {} --momentum 0.9 \
             --clip 1 --steps 4 --warmup 0 --trials 1 --spacing 0s --limits false",
            self.rate
        );
        let on = |device: &str, more: &str| {
            let name = format!("losses_{model}_{}_{device}", types[0]);
            training.lines(&name, &format!("{words} --device {device} {more}"))
        };
        let cells = on("cuda", "--attention own").and_then(|gpu| {
            let cpu = on("cpu", "")?;
            Ok(self.bounds.iter().filter(|(of, _)| types.contains(of)).map(|of| cell(&gpu, &cpu, *of)).collect())
        });
        let cells: Vec<Result<String, String>> = match cells {
            Ok(cells) => cells,
            Err(why) => return Outcome::Failed(why),
        };
        let is_right = cells.iter().all(Result::is_ok);
        let said: Vec<String> = cells.into_iter().map(|cell| cell.unwrap_or_else(|why| why)).collect();
        if is_right { Outcome::Passed(said.join(", ")) } else { Outcome::Failed(said.join(", ")) }
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
            cell(&[line(status, gpu, "cuda")], &[line("ok", cpu, "cpu")], ("f64", 1e-9)).is_ok()
        };
        assert!(judge("ok", &[3.0, 2.0], &[3.0, 2.0]) && judge("ok", &[3.0, 2.0 + 1e-9], &[3.0, 2.0]));
        assert!(!judge("ok", &[3.0, 2.0 + 1e-8], &[3.0, 2.0]));
        assert!(!judge("ok", &[3.0], &[3.0, 2.0]) && !judge("ok", &[], &[]));
        assert!(!judge("failed", &[], &[3.0]) && judge("skipped", &[], &[3.0]));
        let rows = ["cuda", "cpu"].map(|device| [line("ok", &[3.0], device)]);
        assert!(cell(&rows[0], &rows[1], ("f32", 1e-9)).is_err(), "no row of that type");
        assert!(cell(&rows[1], &rows[1], ("f64", 1e-9)).is_err(), "not on the GPU");
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
        // Each type of each model once.
        let types = |unit: &Unit| if let Work::Losses(_, _, types) = unit.work { types.len() } else { 0 };
        assert_eq!(units().map(|unit| types(&unit)).sum::<usize>(), TYPES.len() * names.len());
        assert!(EARLY.iter().all(|name| own.contains(name)));
    }
}
