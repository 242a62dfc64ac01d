//! Logs of DeepSpeed: `[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10,
//! RunningAvgSamplesPerSec=25.02, CurrSamplesPerSec=25.70, MemAllocated=4.32GB, MaxMemAllocated=38.49GB`. `stop` of
//! `deepspeed/utils/timer.py` writes these lines since December 2022. Before that, it counted micro steps under the
//! same names, so those lines are left out.

use terms::Error;

use super::training_log::{Job, Step};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed, between_lines};
use super::training_text::{Fault, cut, number, number_and_rest, time, whole, without_colours, writer};
use crate::numbers::plain;
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct DeepSpeed;

static PROGRAM: Program =
    Program { name: "deepspeed", tool: "DeepSpeed", statistic: "median over the log's lines", time: timed };

impl Format for DeepSpeed {
    fn name(&self) -> &'static str {
        "deepspeed"
    }

    fn doc(&self) -> &'static str {
        "DeepSpeed: the log of a training, with samples per second by step"
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["epoch=", "global_step=", "CurrSamplesPerSec="]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("CurrSamplesPerSec=")
            && source.lines().any(|line| step_at(&without_colours(line.text)).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut log = Log::new(source, &PROGRAM)?;
        for line in source.lines() {
            let text = without_colours(line.text);
            let text = log.enter(line.number, &text)?;
            if let Some(at) = step_at(text) {
                match step(&text[at..]) {
                    Ok(step) => {
                        let (writer, time) = (writer(&text[..at]), time(text));
                        log.step(Logged { line: line.number, writer, time, step })?;
                    }
                    Err(fault) => log.fault(line.number, fault)?,
                }
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

/// Where a step begins in a line.
fn step_at(text: &str) -> Option<usize> {
    let at = text.find("epoch=")?;
    (text[at..].contains("/global_step=") && text[at..].contains("SamplesPerSec=")).then_some(at)
}

/// What a step says. `text` begins with the epoch.
fn step(text: &str) -> Result<Step, Fault> {
    let wrong = |what: &str| Fault::Wrong(format!("expected {what} of a step of DeepSpeed"));
    let memory = number_and_rest(text, "MaxMemAllocated=", plain)?;
    if !memory.is_some_and(|(_, rest)| rest.starts_with("GB")) {
        return Err(cut());
    }
    number(text, "RunningAvgSamplesPerSec=", plain)?;
    let rate = number(text, "CurrSamplesPerSec=", plain)?.filter(|rate| *rate > 0.0);
    Ok(Step {
        number: whole(text, "global_step=")?.ok_or_else(|| wrong("the number"))?,
        samples_per_s: Some(rate.ok_or_else(|| wrong("the rate `CurrSamplesPerSec`"))?),
        ..Step::default()
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
fn timed(job: &Job, lines: Vec<Logged>, results: &mut Results) -> Result<Timed, String> {
    results.note("MemAllocated counts what tensors hold and not what the allocator reserved: the record leaves it out");
    if let Some(batch) = job.global_batch {
        results.note(
            "the time of a step is `train_batch_size` over the rate `CurrSamplesPerSec`, without the wait for data",
        );
        let time_s = |step: &Step| batch as f64 / step.samples_per_s.unwrap_or(f64::NAN);
        let steps = lines.into_iter().map(|logged| logged.step);
        let steps = steps.map(|step| Step { time_s: time_s(&step), global_batch: Some(batch), ..step }).collect();
        return Ok(Timed { steps, has_start: false });
    }
    let steps = between_lines(&lines, results);
    if steps.is_empty() {
        let why = "the log does not say how long a step took: samples per second need the line \
                   `train_batch_size`, which DeepSpeed prints at its start, and no two lines have times";
        return Err(why.to_owned());
    }
    results.note("the time of a step is the time between two lines over the steps between them");
    results.note("the log has no line `train_batch_size`, so the rate `CurrSamplesPerSec` gives no time");
    results.note("the first line of each run has no time of a step: the log does not say when its steps began");
    Ok(Timed { steps, has_start: false })
}
