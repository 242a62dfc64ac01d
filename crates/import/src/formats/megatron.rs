//! Logs of Megatron-LM, and of programs that follow it (Megatron-DeepSpeed, Megatron-Bridge, Primus): ` iteration       10/
//! 100 | consumed samples: ... | elapsed time per iteration (ms): 3032.1 | ... |`. `training_log` of
//! `megatron/training/training.py` writes these lines. Their form has no version.

use terms::Error;

use super::training_log::{self, Job, Step, number, whole, without_colours};
use crate::collective::{given_ranks, no_ranks};
use crate::counted::counted;
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct Megatron;

/// What every line of steps has, since 2021.
const TIME: &str = "elapsed time per iteration (ms):";

impl Format for Megatron {
    fn name(&self) -> &'static str {
        "megatron"
    }

    fn doc(&self) -> &'static str {
        "Megatron-LM: the log of a training, with time, throughput and memory by iteration"
    }

    fn marks(&self) -> &'static [&'static str] {
        &["iteration ", "elapsed time per iteration (ms):"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains(TIME) && source.lines().any(|line| is_step(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = Reader {
            results: Results::new(
                "Megatron-LM",
                "median over the log's lines, each the mean of the iterations since the line before",
            ),
            source,
            job: Job { program: "megatron", ranks: given_ranks(source)?.map_or(0, u64::from), ..Job::default() },
            steps: Vec::new(),
            reserved: None,
            first: 0,
            bad: 0,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.end_run()?;
        Ok(Content::Results(vec![reader.results]))
    }
}

fn is_step(text: &str) -> bool {
    text.contains(TIME) && text.contains("iteration ") && text.contains(" | ")
}

struct Reader<'s> {
    results: Results,
    source: &'s Source,
    job: Job,
    steps: Vec<Step>,
    /// Most bytes that the allocator of a rank reserved in this run.
    reserved: Option<f64>,
    /// The line on which the run begins.
    first: usize,
    /// Iterations that were skipped, or had no finite gradient.
    bad: u64,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = without_colours(line.text);
        if is_step(&text) {
            return self.step(line.number, &text);
        }
        if text.contains("memory (MB) |") {
            // These megabytes are of 2^20 bytes.
            let reserved = number(&text, "max reserved:").map(|megabytes| megabytes * f64::from(1 << 20));
            self.reserved = [self.reserved, reserved].into_iter().flatten().reduce(f64::max);
        } else if let Some(ranks) = whole(&text, "using world size: ") {
            self.job.ranks = ranks;
        } else if let Some((name, value)) = argument(&text) {
            let value = value.parse::<u64>().ok().filter(|value| *value > 0);
            match (name, value) {
                ("world_size", Some(ranks)) => self.job.ranks = ranks,
                ("seq_length", Some(sequence)) => self.job.sequence = sequence,
                _ => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, line: usize, text: &str) -> Result<(), Error> {
        let wrong = |what: &str| self.source.error(line, format!("expected {what} of a line of Megatron"));
        let iteration = whole(text, "iteration ").ok_or_else(|| wrong("the iteration"))?;
        let time_s = number(text, TIME).filter(|ms| *ms > 0.0).ok_or_else(|| wrong("the time"))? / 1e3;
        // A log may hold several runs. One that goes on from a checkpoint begins before the last line.
        if self.steps.last().is_some_and(|last| iteration <= last.number) {
            self.end_run()?;
        }
        if self.steps.is_empty() {
            self.first = line;
        }
        let first_of = |keys: &[&str]| keys.iter().find_map(|key| number(text, key));
        let count = |key: &str| number(text, key).filter(|count| *count >= 0.0).unwrap_or(0.0) as u64;
        let bad = count("number of skipped iterations:").saturating_add(count("number of nan iterations:"));
        self.bad = self.bad.saturating_add(bad);
        self.steps.push(Step {
            number: iteration,
            time_s,
            global_batch: whole(text, "global batch size:"),
            tokens_per_s_per_rank: first_of(&[
                "(Tok/s/GPU):",
                "(tokens/s/GPU):",
                "tokens/sec/GPU:",
                "tokens per gpu per second (tgs):",
                "tokens per gpu per second(tgs):",
            ]),
            tflops_per_rank: first_of(&["throughput per GPU (TFLOP/s/GPU):", " TFLOPs:"]),
            loss: number(text, "lm loss:"),
            ..Step::default()
        });
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), Error> {
        let mut steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return Ok(());
        }
        if self.job.ranks == 0 {
            return Err(no_ranks(self.source, self.first));
        }
        // The program says it once, after the first lines, and means the whole run.
        let reserved = self.reserved.take();
        steps.iter_mut().for_each(|step| step.reserved_bytes = reserved);
        self.results.begin_run();
        let bad = std::mem::take(&mut self.bad);
        if bad > 0 {
            self.results.note(format!(
                "{} skipped or had no finite gradient: the times count",
                counted(bad, "iteration was", "iterations were")
            ));
        }
        training_log::add(&mut self.results, &self.job, &steps);
        Ok(())
    }
}

/// Name and value of an argument, as Megatron prints all of them: `  seq_length ............ 4096`.
fn argument(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(" ...")?;
    let name = name.trim();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| (name, value.trim_start_matches('.').trim()))
}
