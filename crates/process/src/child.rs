//! A short-lived child process: what it said and how it ended, within a deadline. Whatever a library or a program does
//! in it (abort, hang, print without end, leave children) happens to the child.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::descriptor::{memory_of, output_pipe};
use crate::pidfd::{Exit, Process};
use crate::poll::{Interest, PollSet};
use crate::signal::keep_children;
use crate::start::{ITSELF, Tie, own_name, spawn};

/// Bytes kept of each stream; the rest is read and dropped, so that nobody blocks.
const KEPT: usize = 64 << 10;
/// What a killed process may take to be gone: one in an uninterruptible call of a driver may take for ever.
const GRACE: Duration = Duration::from_secs(2);

/// Whether a text holds the answer that was waited for.
pub type Answered = fn(&str) -> bool;

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Ended by itself, with this code.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// The child said what it was to say, and was not waited for.
    Answered,
    /// The child was killed at the deadline.
    Deadline(Duration),
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The beginning of its standard output.
    pub out: String,
    /// The beginning of its standard error.
    pub err: String,
    /// How it ended.
    pub ended: Ended,
}

impl Outcome {
    /// What it said first of all, on either stream.
    pub fn first_line(&self) -> Option<&str> {
        [&self.out, &self.err].into_iter().flat_map(|text| text.lines()).map(str::trim).find(|line| !line.is_empty())
    }

    /// How it ended, in words, with the last that it said; for outcomes that are not as hoped.
    pub fn complaint(&self) -> String {
        let how = match &self.ended {
            Ended::Code(code) => format!("ended with code {code}"),
            Ended::Signal(signal) => format!("ended by signal {signal}"),
            Ended::Answered => "gave no answer that can be read".to_owned(),
            Ended::Deadline(limit) => format!("hung: killed after {} s", limit.as_secs_f64()),
        };
        let last = |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        match last(&self.err).or_else(|| last(&self.out)) {
            Some(line) => format!("{how}: {}", printable(&line)),
            None => how,
        }
    }
}

/// Fit for a line of ours: no control characters, not too long.
pub fn printable(text: &str) -> String {
    const LONGEST: usize = 160;
    text.chars().filter(|character| !character.is_control()).take(LONGEST).collect()
}

/// Runs a program to its end, to the deadline, or until what it has written to its standard output
/// holds the answer that was waited for.
///
/// The kernel kills it when the calling *thread* ends before it does.
///
/// # Errors
/// When it cannot be started.
pub fn run(program: &Path, arguments: &[&OsStr], answer: Option<Answered>, limit: Duration) -> io::Result<Outcome> {
    keep_children()?;
    let ((out_read, out_write), (err_read, err_write)) = (output_pipe()?, output_pipe()?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(out_write).stderr(err_write);
    if program == Path::new(ITSELF) {
        command.arg0(own_name());
    }
    // A library that aborts is a row, not a file of its whole memory.
    let process = spawn(command, Tie::killed().without_core_file())?;
    let streams = [ChildStream::new(out_read), ChildStream::new(err_read)];
    watch(process, streams, answer, limit)
}

/// Runs a program that reads `input` and writes its result to its standard output, both without bound. Gives what it wrote
/// there, and how it ended; `out` of the outcome is empty.
///
/// Both are memory: a child that does not read, or writes more than a pipe holds, blocks nobody.
///
/// # Errors
/// When it cannot be started.
pub fn filter(program: &Path, arguments: &[&OsStr], input: &[u8], limit: Duration) -> io::Result<(Vec<u8>, Outcome)> {
    keep_children()?;
    let (from, mut to) = (memory_of(c"input", input)?, memory_of(c"output", &[])?);
    let ((out_read, _), (err_read, err_write)) = (output_pipe()?, output_pipe()?);
    let mut command = Command::new(program);
    command.args(arguments).stdin(from).stdout(to.try_clone()?).stderr(err_write);
    let process = spawn(command, Tie::killed().without_core_file())?;
    let outcome = watch(process, [ChildStream::new(out_read), ChildStream::new(err_read)], None, limit)?;
    let mut result = Vec::new();
    to.rewind()?;
    to.read_to_end(&mut result)?;
    Ok((result, outcome))
}

fn watch(
    mut process: Process,
    mut streams: [ChildStream; 2],
    answer: Option<Answered>,
    limit: Duration,
) -> io::Result<Outcome> {
    let deadline = Instant::now() + limit;
    let mut set = PollSet::default();
    let ended = loop {
        streams.iter_mut().for_each(ChildStream::drain);
        if answer.is_some_and(|answered| answered(&String::from_utf8_lossy(&streams[0].kept))) {
            kill(&mut process);
            break Ended::Answered;
        }
        if let Some(exit) = process.exit() {
            break match exit {
                Exit::Code(code) => Ended::Code(code),
                Exit::Signal(signal) => Ended::Signal(signal),
                // Another waited for it, which nobody in this program does.
                Exit::Unknown => return Err(Errno::CHILD.into()),
            };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            kill(&mut process);
            break Ended::Deadline(limit);
        }
        set.clear();
        set.add(process.descriptor(), Interest::Read);
        streams.iter().filter_map(|stream| stream.pipe.as_ref()).for_each(|pipe| {
            set.add(pipe.as_fd(), Interest::Read);
        });
        set.wait(Some(left))?;
    };
    streams.iter_mut().for_each(ChildStream::drain);
    let [out, err] = streams.map(|stream| String::from_utf8_lossy(&stream.kept).into_owned());
    // What it said between the last look and its end counts, too.
    Ok(Outcome { out, err, ended })
}

/// Kills the child and what it started in its group, and waits a little until it is gone.
fn kill(process: &mut Process) {
    process.kill_group();
    process.kill();
    let deadline = Instant::now() + GRACE;
    let mut set = PollSet::default();
    while process.exit().is_none() && Instant::now() < deadline {
        set.clear();
        set.add(process.descriptor(), Interest::Read);
        if set.wait(Some(Duration::from_millis(100))).is_err() {
            return;
        }
    }
}

/// One stream of the child. Only its beginning is kept.
struct ChildStream {
    pipe: Option<File>,
    kept: Vec<u8>,
}

impl ChildStream {
    fn new(pipe: OwnedFd) -> Self {
        Self { pipe: Some(File::from(pipe)), kept: Vec::new() }
    }

    /// Takes what is there, at most so much that a child that writes without end cannot hold us.
    fn drain(&mut self) {
        let mut piece = [0; 16 << 10];
        for _ in 0..64 {
            let Some(pipe) = &mut self.pipe else { return };
            match pipe.read(&mut piece) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = KEPT.saturating_sub(self.kept.len());
                    self.kept.extend(&piece[..count.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, answer: Option<Answered>, limit_ms: u64) -> Outcome {
        let arguments = ["-c", script].map(OsStr::new);
        run(Path::new("/bin/sh"), &arguments, answer, Duration::from_millis(limit_ms)).unwrap()
    }

    #[test]
    fn ends_are_told_apart() {
        let ended = shell("echo out; echo err >&2; exit 3", None, 10_000);
        assert_eq!((ended.out.as_str(), ended.err.as_str(), &ended.ended), ("out\n", "err\n", &Ended::Code(3)));
        assert_eq!(ended.complaint(), "ended with code 3: err");
        assert_eq!(shell("kill -ABRT $$", None, 10_000).ended, Ended::Signal(libc::SIGABRT));
        assert!(run(Path::new("/nowhere"), &[], None, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn what_passes_through_a_filter_has_no_bound() {
        let input: Vec<u8> = (0..3 * KEPT).map(|at| at as u8).collect();
        let (same, outcome) =
            filter(Path::new("/bin/cat"), &[OsStr::new("-")], &input, Duration::from_secs(20)).unwrap();
        assert!(same == input);
        assert_eq!((outcome.out.as_str(), outcome.ended), ("", Ended::Code(0)));
        // One that never reads, and one that fails.
        let (none, outcome) = filter(Path::new("/bin/false"), &[], &input, Duration::from_secs(20)).unwrap();
        assert_eq!((none.len(), outcome.ended), (0, Ended::Code(1)));
        assert!(filter(Path::new("/nowhere"), &[], &[], Duration::from_secs(1)).is_err());
    }

    #[test]
    fn who_hangs_is_killed_with_what_it_started() {
        let begun = Instant::now();
        // The second sleeper holds the pipe; it must not hold us.
        let ended = shell("sleep 60 & echo $!; sleep 60", None, 200);
        assert!(matches!(ended.ended, Ended::Deadline(_)), "{ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(5));
        let sleeper = ended.out.trim();
        let lives = || {
            let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        let gone = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            !lives()
        });
        assert!(gone, "{sleeper} lives on");
    }

    #[test]
    fn one_that_writes_without_end_is_cut_and_one_that_answered_is_not_waited_for() {
        let ended = shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", None, 300);
        assert!(matches!(ended.ended, Ended::Deadline(_)) && ended.out.len() == KEPT, "{}", ended.out.len());
        let begun = Instant::now();
        let ended = shell("echo noise; echo answer 7; sleep 60", Some(|out| out.contains("answer 7\n")), 30_000);
        assert_eq!((ended.ended, ended.out.as_str()), (Ended::Answered, "noise\nanswer 7\n"));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
