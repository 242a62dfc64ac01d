//! Logs of torchtitan: `step: 100  loss:  2.3367  ...  memory: 69.83GiB(88.19%)  tps: 42,332  tflops: 270.71  mfu:
//! 27.37%`. `torchtitan/components/metrics.py` writes these lines (`train.py` before 2025). Their form has no version:
//! since March 2024 they end in `mfu: N%`, or in `mfu: N/A` with FP8 since 2026; for two weeks before that they ended
//! in `peak_memory: N%`.

use terms::Error;

use super::training_log::{LoggedJob, LoggedStep};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed, between_lines, clock_error, model};
use super::training_text::{TextFault, cut, number_after, number_and_rest, time, whole, without_colours, writer};
use crate::numbers::{grouped, plain};
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct Torchtitan;

static PROGRAM: Program = Program {
    name: "torchtitan",
    tool: "torchtitan",
    statistic: "median over the log's lines, each of the steps since the line before",
    time: timed,
};

impl Format for Torchtitan {
    fn about(&self) -> (&'static str, &'static str) {
        ("torchtitan", "torchtitan: the log of a training, with throughput, MFU and memory by step")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["step: ", "loss: ", "tps: ", "memory: "]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        let is_step = |line: &str| step_at(line).is_some_and(|at| line[at..].contains("ps: "));
        text.contains("step: ")
            && text.contains("ps: ")
            && source.lines().any(|line| is_step(&without_colours(line.text)))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut log = Log::new(source, &PROGRAM)?;
        for line in source.lines() {
            let text = without_colours(line.text);
            let text = log.enter(line.number, &text)?;
            if let Some(at) = step_at(text) {
                log.take(line.number, text, at, step(&text[at..]))?;
            } else if let Some((name, at, starts)) = configuration(text) {
                let value = &text[at..];
                // A start has several lines such as `Applied FSDP to the model`: each counts.
                let key = if starts { name } else { value };
                if log.configure(key, &writer(&text[..at]), if starts { value } else { "told" }, starts)?
                    && let Err(fault) = configure(&mut log.job, name, value)
                {
                    log.fault(line.number, fault)?;
                }
            } else {
                log.other(line.number, text)?;
            }
        }
        log.finish()
    }
}

/// Where a step begins in a line: `step: 10  loss: `. Lines of validation have a step and a loss, too.
fn step_at(text: &str) -> Option<usize> {
    let at = text.find("step: ").filter(|at| !text[..*at].ends_with("validate "))?;
    let number = text[at + "step: ".len()..].trim_start();
    let behind = number.trim_start_matches(|letter: char| letter.is_ascii_digit());
    (behind.len() < number.len() && behind.trim_start().starts_with("loss: ")).then_some(at)
}

/// What a step says. `text` begins with the step.
fn step(text: &str) -> Result<LoggedStep, TextFault> {
    if !is_whole(text) {
        return Err(cut());
    }
    let wrong = |what: &str| TextFault::Wrong(format!("expected {what} of a step of torchtitan"));
    // `wps` was the key in 2024: tokens of a rank per second.
    let rate = match number_after(text, "tps: ", grouped)? {
        Some(rate) => Some(rate),
        None => number_after(text, "wps: ", grouped)?,
    };
    // The only thing that is read of it is whether it has a decimal comma.
    number_after(text, "grad_norm: ", plain)?;
    Ok(LoggedStep {
        number: whole(text, "step: ")?.ok_or_else(|| wrong("the number"))?,
        tokens_per_s_per_rank: Some(rate.filter(|rate| *rate > 0.0).ok_or_else(|| wrong("the rate `tps`"))?),
        tflops_per_rank: number_after(text, "tflops: ", grouped)?,
        mfu: number_after(text, "mfu: ", plain)?.map(|percent| percent / 100.0),
        reserved_bytes: memory(text)?,
        // A rank without the last stage of the pipeline prints -1, or the sum of that over ranks.
        loss: number_after(text, "loss: ", plain)?.filter(|loss| *loss >= 0.0),
        ..LoggedStep::default()
    })
}

/// Whether the line has its last field whole.
fn is_whole(text: &str) -> bool {
    let last = text.split_once("mfu: ").or_else(|| text.split_once("peak_memory: ")).map(|(_, last)| last.trim_start());
    last.is_some_and(|last| {
        let behind = last.trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ','));
        last.starts_with("N/A") || (behind.len() < last.len() && behind.starts_with('%'))
    })
}

/// `memory: 49.66GiB(52.28%)` in bytes. `peak_memory` is a share alone.
fn memory(text: &str) -> Result<Option<f64>, TextFault> {
    let Some((gib, rest)) = number_and_rest(text, " memory: ", plain)? else { return Ok(None) };
    if let Some(share) = rest.strip_prefix("GiB(") {
        let share = number_after(share, "", plain)?;
        if let Some(share) = share.filter(|share| *share > 100.0) {
            return Err(TextFault::Wrong(format!("{share}% of the memory is more than all")));
        }
    }
    Ok(rest.starts_with("GiB").then_some(gib * f64::from(1 << 30)))
}

/// A line on the configuration: its name, where its text begins, and whether it is written at the start alone.
fn configuration(text: &str) -> Option<(&'static str, usize, bool)> {
    const STARTS: &[(&str, &str)] = &[
        ("mesh", "Building device mesh with parallelism:"),
        ("batch", "with local batch size"),
        ("batch", "tokens per DP rank"),
        ("job", "Starting job:"),
    ];
    const WORDS: &[&str] = &[
        "Applied ",
        "Applying ",
        "Compiling ",
        "Compiled ",
        "torch.compile",
        "Float8",
        "float8",
        "MXFP8",
        "activation checkpoint",
        "Peak FLOPS",
        " capacity: ",
        "torchtitan version",
        "Running with args",
        "Pipeline schedule",
        "Using ",
    ];
    if let Some(found) = STARTS.iter().find_map(|(name, words)| Some((*name, text.find(words)?, true))) {
        return Some(found);
    }
    if let (Some(at), true) = (text.find("Building "), text.contains("-D device mesh with ")) {
        return Some(("mesh", at, true));
    }
    if let Some(at) = text.find("Model ").filter(|at| text[*at..].contains(" size: ")) {
        return Some(("model", at, true));
    }
    // Such words may stand in a heading, too.
    let is_logged = text.contains("INFO") || text.contains("[titan]") || time(text).is_some();
    WORDS.iter().filter(|_| is_logged).find_map(|words| Some((*words, text.find(words)?, false)))
}

fn configure(job: &mut LoggedJob, name: &str, text: &str) -> Result<(), TextFault> {
    match name {
        "mesh" => job.ranks = ranks(text)?,
        "model" => {
            let name = text.strip_prefix("Model ").and_then(|rest| rest.split_once(" size: "));
            job.model = name.map_or(String::new(), |(name, _)| model(name));
        }
        "batch" => {
            job.global_batch = whole(text, "global batch size ")?;
            let sequence = whole(text, "sequence length ")?.or(whole(text, "sequence length: ")?);
            job.sequence = sequence.unwrap_or(0);
            // Since August 2026 the log counts tokens alone.
            job.tokens_of_step = text
                .split_once(" tokens per train step")
                .and_then(|(before, _)| before.rsplit([' ', ',']).next()?.parse().ok().filter(|tokens| *tokens > 0));
        }
        _ => {}
    }
    Ok(())
}

/// The ranks of a mesh.
fn ranks(text: &str) -> Result<u64, TextFault> {
    let cut =
        || TextFault::Cut("the line is cut: the sizes of the mesh are not whole, so they are not read".to_owned());
    let product = |sizes: Vec<u64>| sizes.into_iter().try_fold(1u64, u64::checked_mul);
    if let Some((_, sizes)) = text.split_once("-D device mesh with ") {
        let (_, sizes) = sizes.rsplit_once('[').ok_or_else(cut)?;
        let (sizes, _) = sizes.split_once(']').ok_or_else(cut)?;
        let sizes: Option<Vec<u64>> = sizes.split(',').map(|size| size.trim().parse().ok()).collect();
        return product(sizes.ok_or_else(cut)?).filter(|ranks| *ranks > 0).ok_or_else(cut);
    }
    // Experts share the ranks of other dimensions.
    let mut sizes = Vec::new();
    for name in ["pp=", "dp_replicate=", "dp_shard=", "cp=", "tp="] {
        sizes.push(whole(text, name).map_err(|_| cut())?.ok_or_else(cut)?);
    }
    product(sizes).ok_or_else(cut)
}

/// The time of a step follows from the rate, where the log has batch and sequence and the rate has enough digits; else from
/// the times of its lines.
fn timed(job: &LoggedJob, lines: Vec<Logged>, results: &mut Results) -> Result<Timed, String> {
    let of_batch = || job.global_batch?.checked_mul(job.sequence);
    let tokens = job.tokens_of_step.or_else(of_batch).filter(|tokens| *tokens > 0);
    let Some(tokens) = tokens else { return by_clocks(&lines, results) };
    if let Some(error) = rate_error(&lines).filter(|error| *error > MOST_ERROR) {
        let percent = format!("{:.1}%", 100.0 * error);
        if clock_error(&lines).is_some_and(|of_clocks| of_clocks < error) {
            results.note(format!(
                "`tps` is a whole number, so times by it may be off by {percent}: the times of the lines count, and \
                 tokens per second follow from them"
            ));
            let Timed { steps, has_start } = by_clocks(&lines, results)?;
            let steps = steps.into_iter().map(|step| with_rate(step, job, tokens)).collect();
            return Ok(Timed { steps, has_start });
        }
        results.note(format!("`tps` is a whole number: the times of steps may be off by {percent}"));
    }
    results.note("the time of a step is the tokens of a step over the rate `tps` of all ranks");
    let time_s =
        |step: &LoggedStep| tokens as f64 / (step.tokens_per_s_per_rank.unwrap_or(f64::NAN) * job.ranks as f64);
    let steps = lines.into_iter().map(|logged| logged.step);
    let steps =
        steps.map(|step| LoggedStep { time_s: time_s(&step), global_batch: job.global_batch, ..step }).collect();
    Ok(Timed { steps, has_start: true })
}

/// By which share a time may be off because of rounding before it is said.
const MOST_ERROR: f64 = 0.005;

/// By which share the rate of a usual line may be off: it is a whole number. The first line counts only if it is the only one,
/// as it does in the record.
fn rate_error(lines: &[Logged]) -> Option<f64> {
    let counted = lines.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(lines);
    let rates: Vec<f64> = counted.iter().filter_map(|logged| logged.step.tokens_per_s_per_rank).collect();
    (!rates.is_empty()).then(|| 0.5 / stats::median(&rates))
}

/// A step whose time is known, with the rate that follows from it.
fn with_rate(step: LoggedStep, job: &LoggedJob, tokens: u64) -> LoggedStep {
    let rate = tokens as f64 / (step.time_s * job.ranks as f64);
    LoggedStep { tokens_per_s_per_rank: Some(rate), global_batch: job.global_batch, ..step }
}

/// The time of a step follows from the times of the lines.
fn by_clocks(lines: &[Logged], results: &mut Results) -> Result<Timed, String> {
    let between = between_lines(lines, results);
    if between.is_empty() {
        let why = "the log does not say how long a step took: it has no line with the batch size, and no \
                   two lines with times";
        return Err(why.to_owned());
    }
    results.note("the time of a step is the time between two lines over the steps between them");
    results.note("the first line of each run has no time of a step: the log does not say when its steps began");
    let starts = lines.first().is_some_and(|first| first.step.number <= 1) && between.len() > 1;
    if starts {
        results
            .note("the steps behind step 1 up to the next line are left out, too: they have the start of the program");
    }
    let steps = between.into_iter().skip(usize::from(starts)).collect();
    Ok(Timed { steps, has_start: false })
}
