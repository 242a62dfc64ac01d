//! Looks at the ranks of this host, several times: the first look says where each stands, and the others whether it moved.

use std::time::{Duration, Instant};

use process::Activity;
use process::stack::{PythonFrame, PythonReader, PythonThread, Stack, Thread};

use super::call::{of_python, of_threads, outside};
use super::{Call, CallKind, CodeLine, Doing, Observed, RankProcess};

/// How long reading the native stack of one process may take. It is not stopped for that long.
const READING: Duration = Duration::from_secs(5);
/// How often a native stack is asked for.
const ATTEMPTS: usize = 3;
/// Looks at Python's frames after the first: programs that repeat a loop are seen at several of its lines.
const LOOKS: u32 = 8;
/// Frames that are kept.
const FRAMES: usize = 32;
/// Bytes a second from which a rank counts as one that moves data.
const MOVES: f64 = 1_048_576.0;
/// The share of one core from which a rank counts as one that computes.
const COMPUTES: f64 = 0.1;

/// How far the first and the last look are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval(pub Duration);

/// One rank while it is looked at.
struct Watched {
    process: RankProcess,
    /// When it began: a later process may get its number.
    began: Option<u64>,
    reader: Result<PythonReader, String>,
    python: Vec<PythonFrame>,
    stack: Stack,
    activity: Option<Activity>,
    looked: Instant,
    moved: bool,
    stopped: Duration,
    lacking: Vec<String>,
}

/// What these processes of this host do.
pub fn look(ranks: Vec<RankProcess>, interval: Interval) -> Vec<Observed> {
    let host = process::host_name();
    let mut all: Vec<Watched> = ranks.into_iter().map(Watched::begin).collect();
    let begun = Instant::now();
    for number in 1..=LOOKS {
        let due = begun + interval.0.mul_f64(f64::from(number) / f64::from(LOOKS));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        all.iter_mut().for_each(Watched::again);
    }
    all.into_iter().map(|one| one.end(&host)).collect()
}

impl Watched {
    fn begin(process: RankProcess) -> Self {
        let pid = process.pid;
        let began = process::began(pid);
        let stack = read(pid);
        let mut lacking: Vec<String> = stack.lacking.iter().map(|why| format!("no native frames: {why}")).collect();
        let mut reader = if stack.python { PythonReader::open(pid) } else { Err(String::new()) };
        let mut python = Vec::new();
        if let Ok(opened) = &mut reader {
            match main_frames(opened, pid) {
                Ok(frames) => python = frames,
                Err(why) => reader = Err(why),
            }
        }
        if let (Err(why), true, true) = (&reader, stack.python, stack.lacking.is_none()) {
            lacking.push(format!("no frames of Python: {why}"));
        }
        let (activity, looked) = (Activity::of_process(pid), Instant::now());
        let stopped = stack.stopped;
        Self { process, began, reader, python, stack, activity, looked, moved: false, stopped, lacking }
    }

    fn again(&mut self) {
        if let (Ok(reader), false) = (&mut self.reader, self.python.is_empty())
            && let Ok(now) = main_frames(reader, self.process.pid)
            && !now.is_empty()
        {
            self.moved |= !is_same_place(&self.python, &now);
        }
    }

    fn end(mut self, host: &str) -> Observed {
        let pid = self.process.pid;
        let native = of_threads(&self.stack.threads);
        let is_native = self.python.is_empty();
        let mut state = self.stack.main().map_or('X', |main| main.state);
        let has_ended = process::began(pid) != self.began || self.began.is_none();
        if !has_ended && (is_native || native.is_some()) {
            // Native frames tell whether a rank without Python moved, and whether a worker is in its call still.
            let again = read(pid);
            self.stopped += again.stopped;
            self.moved |= is_native && has_moved(self.stack.main(), again.main());
            self.moved |= again.lacking.is_none() && of_threads(&again.threads) != native;
            state = again.main().map_or(state, |main| main.state);
        }
        let (now, seconds) = (Activity::of_process(pid), self.looked.elapsed().as_secs_f64().max(1e-3));
        let (mut computed, mut moved_bytes) = (0.0, 0.0);
        if let (Some(before), Some(now)) = (self.activity, now) {
            computed = now.computed.saturating_sub(before.computed).as_secs_f64() / seconds;
            moved_bytes = now.moved.saturating_sub(before.moved) as f64 / seconds;
        }
        let call = self.call(native);
        let doing = match () {
            () if has_ended => Doing::Ended,
            () if matches!(state, 'T' | 't') => Doing::Stopped,
            () if self.moved || moved_bytes >= MOVES => Doing::Moves,
            () if call.is_some() => Doing::Waits,
            () if computed >= COMPUTES => Doing::Computes,
            () => Doing::Sleeps,
        };
        let RankProcess { rank, world, pid } = self.process;
        Observed {
            rank,
            world,
            host: host.to_owned(),
            pid,
            call,
            frames: if is_native { native_lines(self.stack.main()) } else { lines(&self.python) },
            doing,
            stopped_us: self.stopped.as_micros().try_into().unwrap_or(u64::MAX),
            lacking: self.lacking,
        }
    }

    /// Python says more than native frames; only these show a call that a worker makes for the autograd engine.
    fn call(&mut self, native: Option<Call>) -> Option<Call> {
        let call = of_python(&self.python);
        let is_transfer = call.as_ref().is_some_and(|call| matches!(call.kind, CallKind::Receive | CallKind::Send));
        if let (true, Ok(reader)) = (is_transfer, &mut self.reader) {
            // Arguments are read only where they matter: a reading with them takes longer.
            let with_numbers = reader.threads(true).ok().and_then(|threads| main(threads, self.process.pid));
            let named = with_numbers.filter(|frames| is_same_place(&self.python, frames));
            return named.and_then(|frames| of_python(&frames)).or(call);
        }
        call.or(native)
    }
}

/// The native stack of a process. One that is about to run is asked again: on a busy machine it waits for a core.
fn read(pid: u32) -> Stack {
    let mut stack = Stack::default();
    for _ in 0..ATTEMPTS {
        stack = Stack::read(pid, READING).unwrap_or_default();
        let is_complete = stack.main().is_none_or(|main| !main.frames.is_empty() || main.state != 'R');
        if is_complete {
            break;
        }
    }
    stack
}

fn main_frames(reader: &mut PythonReader, pid: u32) -> Result<Vec<PythonFrame>, String> {
    reader.threads(false).map(|threads| main(threads, pid).unwrap_or_default())
}

/// The main thread: the kernel gives it the number of the process; before Python 3.11 it is the first.
fn main(mut threads: Vec<PythonThread>, pid: u32) -> Option<Vec<PythonFrame>> {
    let at = threads.iter().position(|thread| thread.number == Some(pid)).unwrap_or(0);
    (at < threads.len()).then(|| threads.swap_remove(at).frames)
}

fn is_same_place(before: &[PythonFrame], now: &[PythonFrame]) -> bool {
    let place = |frame: &PythonFrame| (frame.function.clone(), frame.file.clone(), frame.line);
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| place(before) == place(now))
}

/// Whether a native thread left the call that it was in, or its place where it was in none.
fn has_moved(before: Option<&Thread>, now: Option<&Thread>) -> bool {
    let (Some(before), Some(now)) = (before, now) else { return false };
    if before.frames.is_empty() || now.frames.is_empty() {
        return false;
    }
    let (kept, later) = (outside(before), outside(now));
    let addresses = |thread: &Thread, count: usize| -> Vec<u64> {
        thread.frames.iter().rev().take(count).map(|frame| frame.address).collect()
    };
    kept != later || addresses(before, kept) != addresses(now, later)
}

fn lines(frames: &[PythonFrame]) -> Vec<CodeLine> {
    let line =
        |frame: &PythonFrame| CodeLine { function: frame.function.clone(), file: frame.file.clone(), line: frame.line };
    frames.iter().take(FRAMES).map(line).collect()
}

fn native_lines(thread: Option<&Thread>) -> Vec<CodeLine> {
    let line = |frame: &process::stack::Frame| CodeLine {
        function: frame.function.clone().unwrap_or_else(|| format!("{:#x}", frame.address)),
        file: frame.module.clone().unwrap_or_default(),
        line: 0,
    };
    thread.into_iter().flat_map(|thread| &thread.frames).take(FRAMES).map(line).collect()
}
