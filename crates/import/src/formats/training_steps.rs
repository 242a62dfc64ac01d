//! Lines of steps in training logs: what they hold, the time between two of them, and whether one program wrote them.

use jiff::civil::DateTime;

use super::nccl;
use super::training_log::{LoggedJob, LoggedStep};
use crate::Results;

/// More memory than any device has, in bytes.
pub(super) const MOST_BYTES: f64 = (1u64 << 40) as f64;

/// A training program whose logs are read.
pub(super) struct Program {
    /// Name of the program in the field `program`.
    pub(super) name: &'static str,
    /// Name of the program in the record.
    pub(super) tool: &'static str,
    /// What a time is.
    pub(super) statistic: &'static str,
    /// The steps of a run with their times, or why the log does not tell these.
    pub(super) time: fn(&LoggedJob, Vec<Logged>, &mut Results) -> Result<Timed, String>,
}

/// Steps of a run.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) steps: Vec<LoggedStep>,
    /// Whether the first line has the start of the program, so that it does not count.
    pub(super) has_start: bool,
}

/// One line of steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Logged {
    pub(super) line: usize,
    /// Which rank wrote it; empty where nothing says it.
    pub(super) writer: String,
    /// When it was written.
    pub(super) time: Option<DateTime>,
    pub(super) step: LoggedStep,
}

/// The step numbers of one writer in the run so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) last: u64,
    /// Steps between the last two lines; 0 after the first.
    pub(super) interval: u64,
    pub(super) lines: u32,
    /// Last step and interval of the run before, if this one follows it without anything between.
    pub(super) before: Option<(u64, u64)>,
    /// Runs of at most two lines before this one, without anything between.
    pub(super) short: u32,
}

/// Whether a step cannot be of the program that wrote the lines above.
pub(super) fn is_mixed(known: Written, number: u64, nothing_between: bool) -> bool {
    if number > known.last {
        // A run that went back jumps over the end of the run before, as that would go on.
        return known.before.is_some_and(|(last, interval)| {
            known.last < last && number > last && number - known.last > 2 * interval.max(1)
        });
    }
    nothing_between && (number == known.last || (known.lines <= 2 && known.short >= 2))
}

/// What shows that the lines of two programs, whose steps rise together, stand among each other; with its line. Each rule needs
/// as many lines as a single program would hardly print by chance.
pub(super) fn are_two(lines: &[(usize, Option<DateTime>)], steps: &[LoggedStep]) -> Option<(usize, String)> {
    const FEWEST: usize = 6;
    let alternates = |name: &str, of: fn(&LoggedStep) -> Option<f64>| {
        let values: Vec<f64> = steps.iter().filter_map(of).collect();
        let is_whole = values.len() == steps.len() && values.len() >= FEWEST;
        let apart = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).reduce(f64::min).filter(|_| is_whole)?;
        let within = values.windows(3).map(|three| (three[2] - three[0]).abs()).reduce(f64::max)?;
        let line = lines.get(1)?.0;
        (apart > 4.0 * within).then(|| (line, format!("the {name} of every other line is of another program")))
    };
    let loss = alternates("loss", |step| step.loss);
    loss.or_else(|| alternates("memory", |step| step.reserved_bytes)).or_else(|| too_soon(lines, steps))
}

/// Lines that follow sooner than the steps between them take, for a third of all lines and at least three.
fn too_soon(lines: &[(usize, Option<DateTime>)], steps: &[LoggedStep]) -> Option<(usize, String)> {
    let is_early = |(lines, steps): (&[(usize, Option<DateTime>)], &[LoggedStep])| {
        let seconds = lines[1].1?.duration_since(lines[0].1?).as_secs_f64();
        let needed = steps[1].time_s * steps[1].number.checked_sub(steps[0].number)? as f64;
        // Clocks may have whole seconds.
        (seconds >= 0.0 && 2.0 * (seconds + 1.0) < needed).then_some(lines[1].0)
    };
    // Some logs have one time in all lines.
    if lines.first()?.1? >= lines.last()?.1? {
        return None;
    }
    let early: Vec<usize> = if lines.len() == steps.len() {
        lines.windows(2).zip(steps.windows(2)).filter_map(is_early).collect()
    } else {
        vec![]
    };
    let first = *early.first().filter(|_| early.len() >= 3 && 3 * early.len() >= lines.len())?;
    Some((
        first,
        format!("{} lines follow in less than half of the time that the steps between them take", early.len()),
    ))
}

impl Logged {
    /// What another rank says of the same step: the slowest rank counts, and the one with the most memory. Not each rank has
    /// the loss.
    pub(super) fn merge(&mut self, other: Self) {
        let most = [self.step.reserved_bytes, other.step.reserved_bytes].into_iter().flatten().reduce(f64::max);
        let loss = self.step.loss.or(other.step.loss);
        let rate = |step: &LoggedStep| step.tokens_per_s_per_rank.or(step.samples_per_s).unwrap_or(f64::INFINITY);
        if other.step.time_s > self.step.time_s || rate(&other.step) < rate(&self.step) {
            *self = other;
        }
        (self.step.reserved_bytes, self.step.loss) = (most, loss);
    }
}

/// Steps with the time between their line and the one before, over the steps between. The first line has none.
pub(super) fn between_lines(lines: &[Logged], results: &mut Results) -> Vec<LoggedStep> {
    let mut found = Vec::new();
    for pair in lines.windows(2) {
        let [before, after] = pair else { continue };
        match between(before, after) {
            Some(time_s) => found.push(LoggedStep { time_s, ..after.step }),
            None => results.omit(after.line, "neither batch and rate nor the times of lines tell how long a step took"),
        }
    }
    found
}

/// By which share the clocks of lines may be wrong about the time between two of them, at most. None where a line has no
/// clock, or one goes back.
pub(super) fn clock_error(lines: &[Logged]) -> Option<f64> {
    let seconds = |pair: &[Logged]| {
        let seconds = pair[1].time?.duration_since(pair[0].time?).as_secs_f64();
        Some(seconds).filter(|seconds| *seconds > 0.0)
    };
    let all: Vec<f64> = lines.windows(2).map(seconds).collect::<Option<_>>()?;
    let shortest = all.into_iter().reduce(f64::min)?;
    let has_whole_seconds = lines.iter().filter_map(|logged| logged.time).all(|time| time.subsec_nanosecond() == 0);
    let resolution = if has_whole_seconds { 1.0 } else { 0.001 };
    Some(resolution / shortest)
}

/// Seconds of a step between two lines. None where their clock is missing or goes back.
fn between(before: &Logged, after: &Logged) -> Option<f64> {
    let seconds = after.time?.duration_since(before.time?).as_secs_f64();
    let steps = after.step.number.checked_sub(before.step.number).filter(|steps| *steps > 0)?;
    Some(seconds / steps as f64).filter(|time| *time > 0.0)
}

/// The model's name, as a word of a field.
pub(super) fn model(name: &str) -> String {
    nccl::plain(name)
}
