//! `trainer_state.json` of the Trainer of Hugging Face transformers (`TrainerState` of
//! `src/transformers/trainer_callback.py`): the last entry of `log_history` is the summary of a training that ended.

use serde::Deserialize;
use serde_json::{Map, Value};
use terms::Error;

use super::trainer_run::{TrainerRun, is_time_of_evaluation, rounding};
use super::training_log::{self, LoggedJob};
use crate::collective;
use crate::{Content, Format, Results, Source, json};

/// The format.
pub(super) struct TrainerState;

/// The keys that are read.
#[derive(Deserialize)]
struct StateKeys {
    global_step: u64,
    log_history: Vec<Map<String, Value>>,
}

impl Format for TrainerState {
    fn about(&self) -> (&'static str, &'static str) {
        ("trainer_state", "Hugging Face Trainer: trainer_state.json of a training that ended (give --ranks)")
    }

    fn marks(&self) -> &'static [&'static str] {
        &["\"log_history\"", "\"train_runtime\""]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        text.trim_start().starts_with('{')
            && ["\"log_history\"", "\"global_step\"", "\"is_world_process_zero\""].iter().all(|key| text.contains(key))
    }

    fn is_document(&self) -> bool {
        true
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let state: StateKeys = json::parsed(source)?;
        let line = |key: &str| source.text().lines().position(|line| line.contains(key)).map_or(1, |at| at + 1);
        let Some(at) = state.log_history.iter().rposition(|entry| entry.contains_key("train_runtime")) else {
            let why = "no entry of `log_history` has `train_runtime`, so nothing tells how long a step took: only the \
                       state of a training that ended has it";
            return Err(source.error(line("\"log_history\""), why));
        };
        let summary = &state.log_history[at];
        let first = line("\"train_runtime\"");
        let ranks = collective::ranks(source, first, None)?;
        let number = |entry: &Map<String, Value>, key: &str| entry.get(key).and_then(Value::as_f64);
        let before = &state.log_history[..at];
        let all = before.iter().flat_map(|entry| entry.iter());
        let evaluations: Vec<f64> =
            all.filter(|(key, _)| is_time_of_evaluation(key)).filter_map(|(_, seconds)| seconds.as_f64()).collect();
        let rate = summary.get("train_steps_per_second");
        let run = TrainerRun {
            runtime_s: number(summary, "train_runtime").unwrap_or(0.0),
            steps_per_s: rate.and_then(Value::as_f64).unwrap_or(0.0),
            rounding: rate.map_or(0.0, |rate| rounding(&rate.to_string())),
            steps: Some(summary.get("step").and_then(Value::as_u64).unwrap_or(state.global_step))
                .filter(|steps| *steps > 0),
            evaluations: (evaluations.iter().sum(), evaluations.len() as u64),
            loss: before.iter().rev().find_map(|entry| number(entry, "loss")),
            global_batch: None,
        };
        let mut results = Results::new("Hugging Face Trainer", "mean over the training");
        let step = run.step(&mut results).map_err(|why| source.error(first, why))?;
        results.note("the file does not say the global batch: `train_batch_size` is that of one process");
        let job = LoggedJob { program: "hf_trainer", ranks: u64::from(ranks), ..LoggedJob::default() };
        training_log::add(&mut results, &job, &[step], false);
        Ok(Content::Results(vec![results]))
    }
}
