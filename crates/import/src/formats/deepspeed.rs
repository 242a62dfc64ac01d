//! Logs of DeepSpeed: `[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10,
//! RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec=25.70, MemAllocated=4.32GB, MaxMemAllocated=38.49GB`. `stop` of
//! `deepspeed/utils/timer.py` writes these lines since December 2022. Before that, it counted micro steps (`0/17,
//! CurrSamplesPerSec=159.6`) or told a rate since the start, so the steps of such logs are the lines of the engine:
//! `[Rank 0] step=40, skipped=2, lr=[5e-05]`.
//!
//! With `wall_clock_breakdown`, the engine times the phases of each step on rank 0: `time (ms) | forward: 27.41 | backward:
//! 73.44 | backward_inner: 50.99 | backward_allreduce: 22.40 | step: 72.82`, later `fwd`, `bwd` and `bwd_allreduce`.

use terms::Error;

use super::training_log::{LoggedJob, LoggedStep, Phases};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed, between_lines};
use super::training_text::{TextFault, cut, number_after, number_and_rest, whole, without_colours};
use crate::numbers::{NotANumber, plain};
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct DeepSpeed;

static PROGRAM: Program =
    Program { name: "deepspeed", tool: "DeepSpeed", statistic: "median over the log's lines", time: timed };

impl Format for DeepSpeed {
    fn about(&self) -> (&'static str, &'static str) {
        ("deepspeed", "DeepSpeed: the log of a training, with samples per second by step")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["epoch=", "global_step=", "SamplesPerSec=", "time (ms) | "]
    }

    fn recognises(&self, source: &Source) -> bool {
        StepLines::of(source).is_some()
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut log = Log::new(source, &PROGRAM)?;
        let kind = StepLines::of(source).unwrap_or(StepLines::Timer);
        for line in source.lines() {
            let text = without_colours(line.text);
            let text = log.enter(line.number, &text)?;
            if let Some(phases) = phases(text) {
                match phases {
                    Ok(phases) => log.job.phases.push(phases),
                    Err(fault) => log.fault(line.number, fault)?,
                }
            } else if let Some(at) = kind.step_at(text) {
                log.take(line.number, text, at, kind.step(&text[at..]))?;
            } else if let Some((name, value)) = configuration(text) {
                if log.configure(name, "", value, true)? {
                    let value = value.parse().ok().filter(|value: &u64| *value > 0);
                    match name {
                        "train_batch_size" => log.job.global_batch = value,
                        "dist_world_size" => log.job.ranks = value.unwrap_or(0),
                        _ => {}
                    }
                }
            } else {
                log.other(line.number, text)?;
            }
        }
        log.finish()
    }
}

/// Which lines are those of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepLines {
    /// Lines of the timer.
    Timer,
    /// Lines of the engine, in logs before December 2022.
    Engine,
}

impl StepLines {
    /// The kind of a log; None where it has no line of a step.
    fn of(source: &Source) -> Option<Self> {
        let text = source.text();
        let has = |kind: Self| source.lines().any(|line| kind.step_at(&without_colours(line.text)).is_some());
        if text.contains("CurrSamplesPerSec=") && has(Self::Timer) {
            return Some(Self::Timer);
        }
        let is_of_micro_steps = text.contains("SamplesPerSec=") && !text.contains("/global_step=");
        (is_of_micro_steps && has(Self::Engine)).then_some(Self::Engine)
    }

    /// Where a step begins in a line.
    fn step_at(self, text: &str) -> Option<usize> {
        match self {
            Self::Timer => step_at(text),
            Self::Engine => text.find("] step=").filter(|at| text[*at..].contains(", skipped=")),
        }
    }

    /// What a step says.
    fn step(self, text: &str) -> Result<LoggedStep, TextFault> {
        match self {
            Self::Timer => step(text),
            Self::Engine => engine_step(text),
        }
    }
}

/// `step=40, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]`.
fn engine_step(text: &str) -> Result<LoggedStep, TextFault> {
    if !text.contains(", mom=[") || !text.trim_end().ends_with(']') {
        return Err(cut());
    }
    let number = whole(text, "step=")?;
    let number = number.ok_or_else(|| TextFault::Wrong("expected the number of a step of DeepSpeed".to_owned()))?;
    Ok(LoggedStep { number, ..LoggedStep::default() })
}

/// The times of the phases of a step. Those of micro steps, of the optimizer's parts and of pipelines are others.
fn phases(text: &str) -> Option<Result<Phases, TextFault>> {
    let (_, list) = text.split_once("time (ms) | ")?;
    let mut found = [None; 4];
    for part in list.split(" | ") {
        let (name, value) = part.split_once(':')?;
        let at = match name.trim() {
            "forward" | "fwd" => 0,
            "backward" | "bwd" => 1,
            "backward_allreduce" | "bwd_allreduce" => 2,
            "step" => 3,
            "backward_inner" | "bwd_inner" => continue,
            _ => return None,
        };
        // The last value ends with the line: DeepSpeed prints two decimals.
        let value = value.trim();
        let is_whole = value.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 2);
        match plain(value) {
            Ok(ms) if is_whole && ms >= 0.0 => found[at] = Some(ms * 1e-3),
            Err(why @ NotANumber::Comma) => {
                return Some(Err(TextFault::Wrong(format!("expected a time, {}", why.found(value)))));
            }
            _ => return Some(Err(cut())),
        }
    }
    match found {
        [Some(forward), Some(backward), Some(reduce), Some(step)] => Some(Ok([forward, backward, reduce, step])),
        [None, None, None, None] => None,
        _ => Some(Err(cut())),
    }
}

/// Where a step begins in a line of the timer.
fn step_at(text: &str) -> Option<usize> {
    let at = text.find("epoch=")?;
    (text[at..].contains("/global_step=") && text[at..].contains("SamplesPerSec=")).then_some(at)
}

/// What a step says. `text` begins with the epoch.
fn step(text: &str) -> Result<LoggedStep, TextFault> {
    let wrong = |what: &str| TextFault::Wrong(format!("expected {what} of a step of DeepSpeed"));
    let memory = number_and_rest(text, "MaxMemAllocated=", plain)?;
    if !memory.is_some_and(|(_, rest)| rest.starts_with("GB")) {
        return Err(cut());
    }
    number_after(text, "RunningAvgSamplesPerSec=", plain)?;
    let rate = number_after(text, "CurrSamplesPerSec=", plain)?.filter(|rate| *rate > 0.0);
    Ok(LoggedStep {
        number: whole(text, "global_step=")?.ok_or_else(|| wrong("the number"))?,
        samples_per_s: Some(rate.ok_or_else(|| wrong("the rate `CurrSamplesPerSec`"))?),
        ..LoggedStep::default()
    })
}

/// Name and value of a line on the configuration: `[config.py:964:print]   train_batch_size ............. 8`.
fn configuration(text: &str) -> Option<(&str, &str)> {
    if let Some((_, ranks)) = text.split_once("] dist_world_size=") {
        return Some(("dist_world_size", ranks.trim()));
    }
    let (head, rest) = text.split_once(":print] ")?;
    let rest = rest.trim_start();
    let name = rest.split(' ').next().filter(|_| head.contains("config.py"))?;
    let value = rest[name.len()..].trim_start_matches([' ', '.']).trim_end();
    // Addresses of objects differ between equal runs.
    (!value.is_empty() && !value.contains(" object at 0x")).then_some((name, value))
}

/// The time of a step follows from the batch and the rate, else from the times of lines.
fn timed(job: &LoggedJob, lines: Vec<Logged>, results: &mut Results) -> Result<Timed, String> {
    results.note("MemAllocated counts what tensors hold and not what the allocator reserved: the record leaves it out");
    if !job.phases.is_empty() {
        results.note(
            "forward_s, backward_s, reduce_s and optimizer_s are the times of `wall_clock_breakdown`, which rank 0 measures",
        );
    }
    let has_rates = lines.iter().all(|logged| logged.step.samples_per_s.is_some());
    if let Some(batch) = job.global_batch.filter(|_| has_rates) {
        results.note(
            "the time of a step is `train_batch_size` over the rate `CurrSamplesPerSec`, without the wait for data",
        );
        let time_s = |step: &LoggedStep| batch as f64 / step.samples_per_s.unwrap_or(f64::NAN);
        let steps = lines.into_iter().map(|logged| logged.step);
        let steps = steps.map(|step| LoggedStep { time_s: time_s(&step), global_batch: Some(batch), ..step }).collect();
        return Ok(Timed { steps, has_start: false });
    }
    let steps = between_lines(&lines, results);
    if steps.is_empty() {
        let why = match has_rates {
            true => {
                "the log does not say how long a step took: samples per second need the line `train_batch_size`, which \
                 DeepSpeed prints at its start, and no two lines have times"
            }
            false => {
                "the log does not say how long a step took: its rates are not those of steps, and no two lines have \
                 times"
            }
        };
        return Err(why.to_owned());
    }
    results.note("the time of a step is the time between two lines over the steps between them");
    results.note(match has_rates {
        true => "the log has no line `train_batch_size`, so the rate `CurrSamplesPerSec` gives no time",
        false => {
            "rates of this version are means since the start, or those of micro steps: they give no time of a step"
        }
    });
    results.note("the first line of each run has no time of a step: the log does not say when its steps began");
    Ok(Timed { steps, has_start: false })
}
