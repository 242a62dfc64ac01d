//! Logs of Megatron-LM, and of programs that follow it (Megatron-DeepSpeed, -Bridge, Primus, GPT-NeoX): ` iteration
//! 10/ 100 | consumed samples: ... | elapsed time per iteration (ms): 3032.1 | ... |`. `training_log` of
//! `megatron/training/training.py` writes these lines. Their form has no version: each field ends with ` |`, and since
//! 2020 the last ones are the numbers of skipped and of nan iterations. Some programs put fields of their own behind
//! them.

use terms::Error;

use super::training_log::{LoggedJob, LoggedStep};
use super::training_runs::Log;
use super::training_steps::{Logged, Program, Timed};
use super::training_text::{TextFault, cut, number_after, number_and_rest, whole, without_colours};
use crate::counted::counted;
use crate::numbers::plain;
use crate::{Content, Format, Results, Source};

/// The format.
pub(super) struct Megatron;

static PROGRAM: Program = Program {
    name: "megatron",
    tool: "Megatron-LM",
    statistic: "median over the log's lines, each the mean of the iterations since the line before",
    time: timed,
};

/// What every line of steps has, since 2019.
const TIME: &str = "elapsed time per iteration (ms):";
/// The last fields, by version.
const LAST: &[&str] = &["number of nan iterations:", "number of skipped iterations:", "grad norm:", "loss scale:"];
/// Arguments that differ between the starts of one job.
const VOLATILE: &[&str] = &[
    "rank",
    "local_rank",
    "load",
    "save",
    "tensorboard_dir",
    "wandb_exp_name",
    "wandb_save_dir",
    "wandb_id",
    "iteration",
    "curr_iteration",
    "consumed_train_samples",
    "consumed_valid_samples",
    "skipped_train_samples",
    "start_time",
    "master_addr",
    "master_port",
    "data_cache_path",
    "exit_duration_in_mins",
    "app_tag_run_name",
    "log_path",
    "timestamp",
];

impl Format for Megatron {
    fn about(&self) -> (&'static str, &'static str) {
        ("megatron", "Megatron-LM: the log of a training, with time, throughput and memory by iteration")
    }

    fn is_of_trainings(&self) -> bool {
        true
    }

    fn marks(&self) -> &'static [&'static str] {
        &["iteration ", "elapsed time per iteration (ms):"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let is_step = |text: &str| step_at(text).is_some_and(|at| text[at..].contains(TIME));
        source.text().contains(TIME) && source.lines().any(|line| is_step(&without_colours(line.text)))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut log = Log::new(source, &PROGRAM)?;
        for line in source.lines() {
            let text = without_colours(line.text);
            let text = log.enter(line.number, &text)?;
            if let Some(at) = step_at(text) {
                log.take(line.number, text, at, step(&text[at..]))?;
            } else if text.contains("memory (MB) |") {
                match memory(text) {
                    Ok(bytes) => bytes.into_iter().for_each(|bytes| log.reserve(bytes)),
                    Err(fault) => log.fault(line.number, fault)?,
                }
            } else if let Some((name, value)) = configuration(text) {
                if VOLATILE.contains(&name) || log.configure(name, "", value, true)? {
                    configure(&mut log.job, name, value);
                }
            } else {
                log.other(line.number, text)?;
            }
        }
        log.finish()
    }
}

/// Where a step begins in a line: `iteration       10/     100 |`.
fn step_at(text: &str) -> Option<usize> {
    let digits = |text: &str| text.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let at = text.find("iteration ")?;
    let behind = text[at + "iteration ".len()..].trim_start();
    let rest = &behind[behind.len() - digits(behind)..];
    let end = rest.strip_prefix('/').filter(|_| rest.len() < behind.len())?;
    end[end.len() - digits(end)..].trim_start().starts_with('|').then_some(at)
}

/// What a step says. `text` begins with the iteration.
fn step(text: &str) -> Result<LoggedStep, TextFault> {
    let (fields, _) = text.rsplit_once('|').ok_or_else(cut)?;
    if !fields.contains(TIME) || !LAST.iter().any(|last| fields.contains(last)) {
        return Err(cut());
    }
    // What stands behind the last `|` may be cut; each field before it ends.
    let text = format!("{fields}|");
    commas(&text)?;
    let wrong = |what: &str| TextFault::Wrong(format!("expected {what} of a line of Megatron"));
    let of = |key: &str| number_after(&text, key, plain);
    let first_of = |keys: &[&str]| keys.iter().find_map(|key| of(key).transpose()).transpose();
    let time_s = of(TIME)?.filter(|ms| *ms > 0.0).ok_or_else(|| wrong("the time"))? / 1e3;
    let count = |key: &str| Ok(of(key)?.filter(|count| *count >= 0.0).unwrap_or(0.0) as u64);
    Ok(LoggedStep {
        number: whole(&text, "iteration ")?.ok_or_else(|| wrong("the iteration"))?,
        time_s,
        global_batch: whole(&text, "global batch size:")?,
        tokens_per_s_per_rank: first_of(&[
            "(Tok/s/GPU):",
            "(tokens/s/GPU):",
            "tokens/sec/GPU:",
            "tokens per gpu per second (tgs):",
            "tokens per gpu per second(tgs):",
        ])?,
        tflops_per_rank: first_of(&["throughput per GPU (TFLOP/s/GPU):", " TFLOPs:"])?.or(neox_tflops(&text)?),
        loss: first_of(&["lm loss:", "lm_loss:"])?,
        bad: count("number of skipped iterations:")?.saturating_add(count("number of nan iterations:")?),
        ..LoggedStep::default()
    })
}

/// The operations of GPT-NeoX: `approx flops per GPU: 112.9TFLOPS`. Small models have another unit.
fn neox_tflops(text: &str) -> Result<Option<f64>, TextFault> {
    let found = number_and_rest(text, "approx flops per GPU:", plain)?;
    Ok(found.filter(|(_, rest)| rest.starts_with("TFLOPS")).map(|(value, _)| value))
}

/// Refuses a number with a comma: Megatron prints none.
fn commas(text: &str) -> Result<(), TextFault> {
    let is_digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let mut all = text.match_indices(',').map(|(at, _)| at);
    match all.find(|at| *at > 0 && is_digit(at - 1) && is_digit(at + 1)) {
        Some(at) => {
            let from = text[..at].rfind([' ', '/', '|']).map_or(0, |from| from + 1);
            let word = text[from..].split([' ', '/', '|']).next().unwrap_or_default();
            Err(TextFault::Wrong(format!("expected a number, {}", crate::numbers::NotANumber::Comma.found(word))))
        }
        None => Ok(()),
    }
}

/// The most memory that the allocator of a rank reserved, in bytes. These megabytes are of 2^20 bytes, and have
/// decimals.
fn memory(text: &str) -> Result<Option<f64>, TextFault> {
    commas(text)?;
    let Some((_, value)) = text.split_once("max reserved:") else { return Ok(None) };
    let value = format!("{} ", value.trim());
    let Some((megabytes, _)) = number_and_rest(&value, "", plain)? else { return Ok(None) };
    if !value.split(' ').next().is_some_and(|word| word.contains('.')) {
        return Err(TextFault::Cut("the line is cut: its last number has no decimals, so it is not read".to_owned()));
    }
    let bytes = megabytes * f64::from(1 << 20);
    if bytes > super::training_steps::MOST_BYTES {
        return Err(TextFault::Wrong(format!("{megabytes} MB of memory is more than a device has")));
    }
    Ok(Some(bytes))
}

/// Name and value of an argument, as Megatron prints all of them: `  seq_length ............ 4096`, and its line on
/// ranks.
fn configuration(text: &str) -> Option<(&str, &str)> {
    if let Some((_, sizes)) = text.split_once("using world size: ") {
        return Some(("using world size", sizes));
    }
    let (name, value) = text.split_once(" ...")?;
    // Launchers and container engines put a prefix before it: `node-a: `, `> `, `2026-02-16T10:00:00.1Z stdout F `.
    let name = name.trim_end();
    let (prefix, name) =
        name.rsplit_once([' ', ':', '>']).map_or(("", name), |(prefix, name)| (prefix.trim_end(), name));
    let is_prefix = prefix.is_empty()
        || prefix.ends_with([':', '>', '|', ']'])
        || prefix.ends_with("stdout F")
        || prefix.ends_with("stderr F")
        || name.is_empty()
        || text.as_bytes().get(prefix.len()).is_some_and(|behind| matches!(behind, b':' | b'>'));
    let value = without_origin(value.trim_start_matches('.').trim());
    let is_name =
        is_prefix && !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Times of parts of a step, and what DeepSpeed says of its operations, look like arguments.
    let is_value = !value.is_empty() && !value.starts_with(':') && !value.contains("[OKAY]") && !value.contains("[NO]");
    (is_name && is_value).then_some((name, value))
}

/// A value without what GPT-NeoX puts behind it: `8...........................updated`.
fn without_origin(value: &str) -> &str {
    let bare = ["updated", "default"].into_iter().find_map(|word| value.strip_suffix(word)?.strip_suffix(".."));
    bare.map_or(value, |bare| bare.trim_end_matches('.'))
}

fn configure(job: &mut LoggedJob, name: &str, value: &str) {
    let number = |text: &str| text.parse::<u64>().ok().filter(|value| *value > 0);
    match name {
        "using world size" => {
            let ranks = value.split_once(',').and_then(|(ranks, _)| number(ranks.trim()));
            job.ranks = ranks.unwrap_or(job.ranks);
        }
        "world_size" => job.ranks = number(value).unwrap_or(job.ranks),
        "seq_length" => job.sequence = number(value).unwrap_or(job.sequence),
        // An argument of GPT-NeoX, whose lines do not have it.
        "train_batch_size" => job.global_batch = number(value),
        _ => {}
    }
}

fn timed(job: &LoggedJob, lines: Vec<Logged>, results: &mut Results) -> Result<Timed, String> {
    let bad = lines.iter().fold(0, |bad: u64, logged| bad.saturating_add(logged.step.bad));
    if bad > 0 {
        results.note(format!(
            "{} skipped or had no finite gradient: the times count",
            counted(bad, "iteration was", "iterations were")
        ));
    }
    // The program says it once, after the first lines, and means the whole run.
    let of_run = |step: LoggedStep| {
        let global_batch = step.global_batch.or(job.global_batch);
        LoggedStep { reserved_bytes: job.reserved_bytes, global_batch, ..step }
    };
    Ok(Timed { steps: lines.into_iter().map(|logged| of_run(logged.step)).collect(), has_start: true })
}
