//! The report on ranks that do not move: who waits, who has not arrived, and where those stand in their code.

use std::path::PathBuf;
use std::time::Duration;

use process::stack::{Stack, Thread, python_stack};
use terms::{Bytes, Seconds};

use super::{Doing, OnStall, Stall, StallWatch};
use crate::verdict::{Outcome, Phase, RankState, grouped, identity, place, suspects, waits};

/// Stacks that are shown, at most.
const STACKS: usize = 2;
/// How long reading one stack may take; a notice is there 15 s after the last movement at the latest.
const READING: Duration = Duration::from_secs(1);
/// How long Python's own stack may take.
const PYTHON: Duration = Duration::from_secs(2);
/// Frames in a notice, and in a failure report, which is one line.
const FRAMES: (usize, usize) = (16, 8);
/// Characters of a function's name in a failure report.
const NAME: usize = 80;
/// Other threads that are named in a notice.
const THREADS: usize = 4;
/// Ranks that are named with their process numbers.
const NAMED: usize = 8;

/// Tells of a stall. `limit`: of the command.
pub(crate) fn tell(
    on: &OnStall,
    watch: &StallWatch,
    (phase, bytes): (Phase, Option<Bytes>),
    states: &[RankState],
    doing: &[Doing],
    limit: Duration,
) {
    let sentence = sentence(watch.still, (phase, bytes), states, doing);
    let (missing, _) = parts(states);
    let mut details: Vec<String> = missing.iter().take(STACKS).flat_map(|state| stack(state, &on.search)).collect();
    if missing.len() > STACKS {
        details.push(format!("{} more ranks are in the same state", missing.len() - STACKS));
    }
    details.push(format!("the run goes on; this command ends {} after it began", Seconds(limit.as_secs_f64())));
    (on.tell)(&Stall { sentence, details });
}

/// Ranks that others wait for, and the others that have not answered.
fn parts(states: &[RankState]) -> (Vec<&RankState>, Vec<&RankState>) {
    let (missing, others) = suspects(states);
    let pending = |state: &&RankState| !matches!(state.outcome, Outcome::Answered | Outcome::Failed(_));
    (missing.into_iter().filter(pending).collect(), others.into_iter().filter(pending).collect())
}

/// "no progress for 10 s in `sample`: ranks 0-2 wait in all_reduce #17; rank 3 (pid 4711, this host) is after all_reduce #16,
/// before #17, and uses no processor time".
pub(super) fn sentence(
    still: Duration,
    (phase, bytes): (Phase, Option<Bytes>),
    states: &[RankState],
    doing: &[Doing],
) -> String {
    let command = match phase {
        Phase::Start => "the start".to_owned(),
        Phase::Command(command) => format!("`{command}`"),
    };
    let (missing, others) = parts(states);
    let mut clauses = grouped(&others, |state| {
        let verb = if waits(state) { "wait" } else { "are" };
        format!("{verb} {}", place(state, phase, bytes))
    });
    let and_does = |state: &RankState| {
        let doing = doing.get(state.rank as usize).copied().unwrap_or(Doing::Unknown);
        let does = match (&state.outcome, doing) {
            (Outcome::Stopped, _) => ", stopped by a signal",
            (_, Doing::Computes) => ", computing",
            (_, Doing::Transfers) => ", reading or writing data",
            (_, Doing::Queues) => ", waiting for a core that other processes use",
            (_, Doing::Nothing) => ", using no processor time",
            (_, Doing::Unknown) => "",
        };
        format!("{}{does}", place(state, phase, bytes))
    };
    if missing.len() > NAMED {
        clauses.extend(grouped(&missing, |state| format!("are {}", and_does(state))));
    } else {
        clauses.extend(missing.iter().map(|state| format!("{} is {}", identity(state), and_does(state))));
    }
    format!(
        "no progress for {} s in {command}: {}",
        still.as_secs(),
        clauses.iter().map(|clause| agreed(clause)).collect::<Vec<_>>().join("; ")
    )
}

/// With the verb of one rank, where it is one.
fn agreed(clause: &str) -> String {
    if clause.starts_with("rank ") {
        clause.replacen(" wait ", " waits ", 1).replacen(" are ", " is ", 1)
    } else {
        clause.to_owned()
    }
}

/// The stack of a rank, a line each, with its heading.
fn stack(state: &RankState, search: &[PathBuf]) -> Vec<String> {
    let who = identity(state);
    if let Some(host) = &state.host {
        return vec![format!(
            "no stack of rank {}: it is on {host}, but stacks can be read on this host only",
            state.rank
        )];
    }
    let stack = match Stack::read(state.pid, READING) {
        Ok(stack) => stack,
        Err(error) => return vec![format!("no stack of {who}: {error}")],
    };
    let Some(main) = stack.main() else { return vec![format!("no stack of {who}: it has no threads")] };
    let mut lines = vec![format!("{who}, thread {}, {}:", main.name, main.doing())];
    lines.extend(main.frames.iter().take(FRAMES.0).map(|frame| format!("  {frame}")));
    if main.frames.len() > FRAMES.0 {
        lines.push(format!("  ... {} more frames", main.frames.len() - FRAMES.0));
    }
    lines.extend(stack.lacking.as_ref().map(|why| format!("  no native frames: {why}")));
    lines.extend(others(&stack));
    if stack.python {
        lines.extend(python(state.pid, search));
    }
    lines
}

/// Threads that are at work besides the main one.
fn others(stack: &Stack) -> Vec<String> {
    let at_work = stack.threads.iter().skip(1).filter(|thread| matches!(thread.state, 'R' | 'D'));
    let line = |thread: &Thread| {
        let top = thread.frames.first().map(|frame| format!(" at {frame}")).unwrap_or_default();
        format!("  thread {} {}{top}", thread.name, thread.doing())
    };
    at_work.take(THREADS).map(line).collect()
}

fn python(pid: u32, search: &[PathBuf]) -> Vec<String> {
    let Some(program) = process::first_program(search, "py-spy") else {
        return vec!["  these are the interpreter's own frames; `pip install py-spy` adds those of Python".to_owned()];
    };
    match python_stack(&program, pid, PYTHON) {
        Ok(lines) => lines.into_iter().map(|line| format!("  {line}")).collect(),
        Err(why) => vec![format!("  no frames of Python: py-spy {why}")],
    }
}

/// Where ranks that hang stand, for a failure report: "stack of rank 1: clock_nanosleep <- std::thread::sleep <- ...".
pub(crate) fn standing<'a>(states: impl Iterator<Item = &'a RankState>) -> Vec<String> {
    let here = states.filter(|state| state.host.is_none() && state.pid != 0);
    let line = |state: &RankState| {
        let stack = Stack::read(state.pid, READING).ok()?;
        let main = stack.main()?;
        if main.frames.is_empty() {
            let why = stack.lacking.as_ref().map(|why| format!(" (no stack: {why})")).unwrap_or_default();
            return Some(format!("rank {} {}{why}", state.rank, main.doing()));
        }
        Some(format!("stack of rank {}: {}", state.rank, chain(main)))
    };
    here.take(STACKS).filter_map(line).collect()
}

/// The functions of a thread, innermost first, on one line.
fn chain(thread: &Thread) -> String {
    let name = |frame: &process::stack::Frame| {
        let name = frame.function.clone().or_else(|| frame.module.clone());
        let name = name.unwrap_or_else(|| format!("{:#x}", frame.address));
        process::child::printable(&name).chars().take(NAME).collect::<String>()
    };
    thread.frames.iter().take(FRAMES.1).map(name).collect::<Vec<_>>().join(" <- ")
}
