//! Logs of NeMo with Lightning, in two forms. NeMo 2 prints a line for each step (`nemo/lightning/pytorch/callbacks/
//! progress_printer.py`): `Training epoch 0, iteration 45/99 | global_batch_size: 128 | ... | train_step_timing in s:
//! 6.08 | ...`. Its last field has no end, so it is not read. NeMo 1 prints a progress bar with the same values
//! (`nemo/utils/exp_manager.py`), which ends in `]`: `Epoch 0: : 12%|..| 60/500 [.., train_step_timing in s=3.21]`.
//! Both round times, to four and to three digits.

use terms::Error;

use super::training_log::{LoggedJob, LoggedStep};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed};
use super::training_text::{
    TextFault, as_whole, cut, is_command, is_mark, number_after, number_and_rest, time, without_colours, writer,
};
use crate::numbers::plain;
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct Nemo;

static PROGRAM: Program = Program {
    name: "nemo",
    tool: "NeMo",
    statistic: "median over the log's steps, each as the program times it, without the wait for data",
    time: timed,
};

const TIME: &str = "train_step_timing in s";

impl Format for Nemo {
    fn about(&self) -> (&'static str, &'static str) {
        ("nemo", "NeMo: the log of a training, with the time of each step (give --ranks)")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["train_step_timing in s", "global_step"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let is_step = |text: &str| step_at(text).is_some_and(|(at, _)| text[at..].contains(TIME));
        source.text().contains(TIME) && source.lines().any(|line| is_step(&without_colours(line.text)))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut log = Log::new(source, &PROGRAM)?;
        let mut held: Option<Logged> = None;
        for line in source.lines() {
            let text = without_colours(line.text);
            if log.is_of_other_file(&text) {
                held.take().map_or(Ok(()), |held| log.step(held))?;
            }
            let text = log.enter(line.number, &text)?;
            let Some((at, is_bar)) = step_at(text) else {
                if is_mark(text.trim()) || is_command(text.trim()) {
                    held.take().map_or(Ok(()), |held| log.step(held))?;
                }
                log.other(line.number, text)?;
                continue;
            };
            let step = match if is_bar { bar(&text[at..]) } else { row(&text[at..]) } {
                Ok(Some(step)) => step,
                Ok(None) => continue,
                Err(fault) => {
                    log.fault(line.number, fault)?;
                    continue;
                }
            };
            let logged = Logged { line: line.number, writer: writer(&text[..at]), time: time(text), step };
            if held.as_ref().is_some_and(|before| is_of_another(&before.step, &step)) {
                return Err(log.mixed(line.number, &format!("step {} comes again with another time", step.number)));
            }
            // The last of the bars that show one step has its values.
            if let Some(before) = held.replace(logged).filter(|before| !is_again(&before.step, &step)) {
                log.step(before)?;
            }
        }
        held.map_or(Ok(()), |held| log.step(held))?;
        log.finish()
    }
}

/// Where a step begins in a line, and whether it is a progress bar.
fn step_at(text: &str) -> Option<(usize, bool)> {
    if let Some(at) = text.find("Training epoch ").filter(|at| text[*at..].contains(", iteration ")) {
        return Some((at, false));
    }
    let at = text.find("Epoch ")?;
    let (epoch, rest) = text[at + "Epoch ".len()..].split_once(':')?;
    let is_bar = epoch.bytes().all(|byte| byte.is_ascii_digit()) && rest.contains("%|") && rest.contains(" [");
    is_bar.then_some((at, true))
}

/// Whether a progress bar shows a step again, as it does when one of its values changes. Where it rounds the number of
/// steps, the first bar of a position may have the values of the step before.
fn is_again(before: &LoggedStep, step: &LoggedStep) -> bool {
    let is_bar = before.is_rounded && step.is_rounded;
    is_bar && before.number == step.number && (before.time_s.to_bits() == step.time_s.to_bits() || step.number >= 1000)
}

/// Whether a progress bar shows the step of the bar before it with another time: another program wrote it.
fn is_of_another(before: &LoggedStep, step: &LoggedStep) -> bool {
    let is_bar = before.is_rounded && step.is_rounded && step.number < 1000;
    is_bar && before.number == step.number && before.time_s.to_bits() != step.time_s.to_bits()
}

/// A line of NeMo 2. None where it has no time yet.
fn row(text: &str) -> Result<Option<LoggedStep>, TextFault> {
    // What stands behind the last `|` may be cut.
    let (fields, last) = text.rsplit_once(" | ").ok_or_else(cut)?;
    if !fields.contains(TIME) && last.contains(TIME) {
        let why = "the time is the last field and has no end, so it may be cut";
        return Err(TextFault::Cut(why.to_owned()));
    }
    if !fields.contains(TIME) {
        return Err(cut());
    }
    let text = format!("{fields} |");
    let of = |key: &str| number_after(&text, key, plain);
    let wrong = |what: &str| TextFault::Wrong(format!("expected {what} of a step of NeMo"));
    let position = exact(&text, "global_step: ")?.or(exact(&text, "iteration ")?);
    let step = LoggedStep {
        // Steps count from 0.
        number: position.ok_or_else(|| wrong("the number"))?.saturating_add(1),
        time_s: of("train_step_timing in s: ")?.filter(|time| *time > 0.0).ok_or_else(|| wrong("the time"))?,
        global_batch: exact(&text, "global_batch_size: ")?.filter(|batch| *batch > 0),
        tokens_per_s_per_rank: of("tokens_per_sec_per_gpu: ")?,
        tflops_per_rank: of("TFLOPS_per_GPU: ")?,
        reserved_bytes: of("max_memory_reserved: ")?,
        loss: of("reduced_train_loss: ")?,
        ..LoggedStep::default()
    };
    Ok(Some(step))
}

/// A progress bar of NeMo 1. None where it has no time.
fn bar(text: &str) -> Result<Option<LoggedStep>, TextFault> {
    if !text.contains(TIME) {
        return Ok(None);
    }
    let (_, values) = text.split_once(" [").ok_or_else(cut)?;
    let (values, _) = values.split_once(']').ok_or_else(cut)?;
    let values = format!("{values} ]");
    // Before the first value is known, its place is empty.
    let behind = values.split_once(TIME).map_or("", |(_, behind)| behind.trim_start_matches('=').trim_start());
    if behind.starts_with([',', ']']) {
        return Ok(None);
    }
    let wrong = |what: &str| TextFault::Wrong(format!("expected {what} of a progress bar of NeMo"));
    let epoch = exact(text, "Epoch ")?.ok_or_else(|| wrong("the epoch"))?;
    let (done, all) = position(text).ok_or_else(|| wrong("the position, as in `60/500`"))?;
    let number = match all {
        Some(all) => epoch.checked_mul(all).and_then(|before| before.checked_add(done)),
        None => (epoch == 0).then_some(done),
    };
    // Large numbers of steps are rounded here; then the position counts.
    let global = exact(&values, "global_step=")?.and_then(|step| step.checked_add(1));
    if all.is_none() && global.or(number).is_none() {
        let why = "neither the position of the bar nor `global_step` tells which step it shows";
        return Err(TextFault::Cut(why.to_owned()));
    }
    let time_s = number_after(&values, "train_step_timing in s=", plain)?.filter(|time| *time > 0.0);
    Ok(Some(LoggedStep {
        number: global.or(number).ok_or_else(|| wrong("the position"))?,
        time_s: time_s.ok_or_else(|| wrong("the time"))?,
        loss: number_after(&values, "reduced_train_loss=", plain)?,
        is_rounded: true,
        ..LoggedStep::default()
    }))
}

/// `60/500` before the bracket of a progress bar; `60/?` where the number of all steps is not known.
fn position(text: &str) -> Option<(u64, Option<u64>)> {
    let (before, _) = text.split_once(" [")?;
    let (done, all) = before.rsplit([' ', '|']).next()?.split_once('/')?;
    let done = done.parse::<u64>().ok()?;
    if all == "?" {
        return Some((done, None));
    }
    let all = all.parse::<u64>().ok().filter(|all| done <= *all)?;
    Some((done, Some(all)))
}

/// A whole number that is printed with all its digits; None where it is rounded, as `2e+3` is.
fn exact(text: &str, key: &str) -> Result<Option<u64>, TextFault> {
    let Some((value, rest)) = number_and_rest(text, key, plain)? else { return Ok(None) };
    let word = text.split_once(key).map_or("", |(_, behind)| behind);
    let is_rounded = word[..word.len() - rest.len()].contains(['e', 'E']);
    let value = if value == 0.0 { Some(0) } else { as_whole(value) };
    Ok(value.filter(|_| !is_rounded))
}

fn timed(_: &LoggedJob, lines: Vec<Logged>, results: &mut Results) -> Result<Timed, String> {
    if lines.iter().any(|logged| logged.step.is_rounded) {
        results.note("progress bars round the time of a step to three digits");
    }
    let has_start = lines.first().is_some_and(|first| first.step.number <= 1);
    Ok(Timed { steps: lines.into_iter().map(|logged| logged.step).collect(), has_start })
}
