//! Logs of torchtitan: `step: 100  loss:  2.3367  ...  memory: 69.83GiB(88.19%)  tps: 42,332  tflops: 270.71  mfu: 27.37%`.
//! `torchtitan/components/metrics.py` writes these lines. Their form has no version.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use terms::Error;

use super::nccl::plain;
use super::training_log::{self, Job, Step, number, whole, without_colours};
use crate::collective::{given_ranks, no_ranks};
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct Torchtitan;

impl Format for Torchtitan {
    fn name(&self) -> &'static str {
        "torchtitan"
    }

    fn doc(&self) -> &'static str {
        "torchtitan: the log of a training, with throughput, MFU and memory by step"
    }

    fn marks(&self) -> &'static [&'static str] {
        &["step: ", "loss: ", "tps: ", "memory: "]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        text.contains("step: ")
            && text.contains("ps: ")
            && source.lines().any(|line| is_step(&without_colours(line.text)))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = Reader {
            results: Results::new("torchtitan", "median over the log's lines, each of the steps since the line before"),
            source,
            job: Job { program: "torchtitan", ranks: given_ranks(source)?.map_or(0, u64::from), ..Job::default() },
            batch: None,
            lines: BTreeMap::new(),
            first: 0,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.end_run()?;
        Ok(Content::Results(vec![reader.results]))
    }
}

/// A line of training steps. Lines of validation have a step and a rate, too.
fn is_step(text: &str) -> bool {
    let Some(at) = text.find("step: ") else { return false };
    !text[..at].ends_with("validate ") && text.contains("loss: ") && rate(text).is_some() && text.contains("memory: ")
}

/// Tokens of a rank per second. The key was `wps` in 2024.
fn rate(text: &str) -> Option<f64> {
    number(text, "tps: ").or_else(|| number(text, "wps: "))
}

/// The product of sizes; None without any.
fn product(sizes: impl Iterator<Item = u64>) -> Option<u64> {
    sizes.map(Some).reduce(|product, size| product?.checked_mul(size?)).flatten().filter(|ranks| *ranks > 0)
}

/// What ranks say of the same steps: the slowest rank counts, and the one with the most memory.
#[derive(Clone, Copy, Default)]
struct Logged {
    line: usize,
    time: Option<DateTime>,
    step: Step,
}

struct Reader<'s> {
    results: Results,
    source: &'s Source,
    job: Job,
    batch: Option<u64>,
    /// By step.
    lines: BTreeMap<u64, Logged>,
    /// The line of the file on which the run begins.
    first: usize,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = without_colours(line.text);
        if is_step(&text) {
            return self.step(line.number, &text);
        }
        let mesh = text.split_once("Building device mesh with parallelism:").map(|(_, mesh)| mesh);
        let sizes = text.split_once("-D device mesh with ").and_then(|(_, mesh)| mesh.rsplit_once('['));
        let has_batch = text.contains("sequence length") && text.contains("batch size");
        let model = text.split_once("Model ").and_then(|(_, rest)| rest.split_once(" size: "));
        if mesh.is_none() && sizes.is_none() && !has_batch && model.is_none() {
            return Ok(());
        }
        // The program says what it is about to do: steps before this line are of another run.
        self.end_run()?;
        if let Some(mesh) = mesh {
            // Experts share the ranks of other dimensions.
            let sizes = ["pp=", "dp_replicate=", "dp_shard=", "cp=", "tp="].map(|name| whole(mesh, name));
            self.job.ranks = product(sizes.into_iter().flatten()).unwrap_or(self.job.ranks);
        }
        if let Some((_, sizes)) = sizes {
            let sizes = sizes.split([',', ']']).map_while(|size| size.trim().parse().ok());
            self.job.ranks = product(sizes).unwrap_or(self.job.ranks);
        }
        if has_batch {
            self.batch = whole(&text, "global batch size ").or(self.batch);
            self.job.sequence = whole(&text, "sequence length ").unwrap_or(self.job.sequence);
        }
        if let Some((model, _)) = model {
            self.job.model = plain(model);
        }
        Ok(())
    }

    fn step(&mut self, line: usize, text: &str) -> Result<(), Error> {
        let wrong = |what: &str| self.source.error(line, format!("expected {what} of a step of torchtitan"));
        let step = whole(text, "step: ").ok_or_else(|| wrong("the number"))?;
        let tokens = rate(text).filter(|tokens| *tokens > 0.0).ok_or_else(|| wrong("the rate `tps`"))?;
        let memory = number(text, "memory: ").map(|gib| gib * f64::from(1 << 30));
        let logged = Logged {
            line,
            time: time(text),
            step: Step {
                number: step,
                tokens_per_s_per_rank: Some(tokens),
                tflops_per_rank: number(text, "tflops: "),
                mfu: number(text, "mfu: ").map(|percent| percent / 100.0),
                reserved_bytes: memory,
                loss: number(text, "loss: "),
                ..Step::default()
            },
        };
        if self.lines.is_empty() {
            self.first = line;
        }
        let known = self.lines.entry(step).or_insert(logged);
        let most = [known.step.reserved_bytes, memory].into_iter().flatten().reduce(f64::max);
        if known.step.tokens_per_s_per_rank.is_some_and(|slowest| tokens < slowest) {
            *known = logged;
        }
        known.step.reserved_bytes = most;
        Ok(())
    }

    /// Adds the run so far. The time of a step follows from the rate, where the log has batch and sequence; else from the times
    /// of its lines.
    fn end_run(&mut self) -> Result<(), Error> {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return Ok(());
        }
        if self.job.ranks == 0 {
            return Err(no_ranks(self.source, self.first));
        }
        let tokens_of_step =
            self.batch.map(|batch| batch as f64 * self.job.sequence as f64).filter(|tokens| *tokens > 0.0);
        let (mut steps, mut before): (Vec<Step>, Option<Logged>) = (Vec::new(), None);
        for logged in lines.into_values() {
            let rate = logged.step.tokens_per_s_per_rank.unwrap_or(f64::NAN) * self.job.ranks as f64;
            let by_clock = before.replace(logged).and_then(|before| between(&before, &logged));
            match tokens_of_step.map(|tokens| tokens / rate).or(by_clock) {
                Some(time_s) => steps.push(Step { time_s, global_batch: self.batch, ..logged.step }),
                // Its steps began before the log.
                None if steps.is_empty() => {}
                None => self
                    .results
                    .omit(logged.line, "neither batch and sequence nor the times of lines tell how long a step took"),
            }
        }
        if steps.is_empty() {
            let why = "the log does not say how long a step took: it has no line with the batch size, and no two lines with times";
            return Err(self.source.error(self.first, why));
        }
        self.results.note(match tokens_of_step {
            Some(_) => "the time of a step is the tokens of a step over the rate `tps` of all ranks",
            None => "the time of a step is the time between two lines over the steps between them",
        });
        self.results.begin_run();
        training_log::add(&mut self.results, &self.job, &steps);
        Ok(())
    }
}

/// Seconds of a step between two lines. None where their clock is missing or goes back.
fn between(before: &Logged, after: &Logged) -> Option<f64> {
    let seconds = after.time?.duration_since(before.time?).as_secs_f64();
    let steps = after.step.number.checked_sub(before.step.number).filter(|steps| *steps > 0)?;
    Some(seconds / steps as f64).filter(|time| *time > 0.0)
}

/// The time at which a line was written: `[titan] 2026-01-16 02:43:35,918 - root - INFO`.
fn time(text: &str) -> Option<DateTime> {
    let is_time = |at: usize| {
        let shape = b"9999-99-99 99:99:99";
        let bytes = text.as_bytes().get(at..at + shape.len())?;
        let fits =
            bytes.iter().zip(shape).all(|(byte, of)| if *of == b'9' { byte.is_ascii_digit() } else { byte == of });
        fits.then_some(at)
    };
    let at = (0..text.len().min(160)).find_map(is_time)?;
    let milliseconds: String = text[at + 19..].trim_start_matches([',', '.']).chars().take(3).collect();
    let text = format!(
        "{}.{}",
        &text[at..at + 19],
        milliseconds.parse::<u16>().map_or("0".to_owned(), |ms| format!("{ms:03}"))
    );
    text.parse().ok()
}
