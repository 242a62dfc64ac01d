//! A program of others that starts the ranks of a world and ends with them: an `mpirun`. A child of the coordinator, as
//! ranks are elsewhere.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use process::{Exit, Interest, Output, PollSet, Process, Tie, output_pipe, signal_name, spawn};

/// After a launcher has ended: so long ranks that it started have to show what they died of.
const SETTLING: Duration = Duration::from_millis(200);

/// Lines of its output that are quoted.
const QUOTED: usize = 4;
/// What Hydra begins its lines with.
const TRIM: [char; 2] = ['=', ' '];

/// A launcher and its output, which is also that of its ranks.
pub(crate) struct Launcher {
    name: String,
    process: Process,
    output: Output,
    ended_at: Option<Instant>,
    watched: [Option<usize>; 2],
}

impl Launcher {
    /// Starts it, with the ends of its output that belong together.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn start(name: String, mut command: Command) -> io::Result<Self> {
        let (read, write) = output_pipe()?;
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write);
        // When the coordinator dies its launcher is asked to end, not killed: it then takes its ranks with it and removes
        // its files; ranks leave by themselves besides.
        let process = spawn(command, Tie::asked().without_core_file())?;
        Ok(Self { name, process, output: Output::new(read), ended_at: None, watched: [None; 2] })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn register(&mut self, polls: &mut PollSet) {
        let alive = !self.has_ended();
        self.watched = [
            alive.then(|| polls.add(self.process.descriptor(), Interest::Read)),
            self.output.descriptor().map(|pipe| polls.add(pipe, Interest::Read)),
        ];
    }

    pub(crate) fn serve(&mut self, polls: &PollSet) {
        let happened = |index: Option<usize>| index.is_some_and(|index| polls.happened(index));
        if happened(self.watched[1]) {
            self.output.drain();
        }
        if happened(self.watched[0]) && self.process.exit().is_some() {
            self.ended_at.get_or_insert_with(Instant::now);
            self.output.drain();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.process.known_exit().is_some()
    }

    /// Whether a signal ended it.
    pub(crate) fn was_killed(&self) -> bool {
        matches!(self.process.known_exit(), Some(Exit::Signal(_)))
    }

    /// When its end, if it has ended, counts as news.
    pub(crate) fn settled(&self) -> Option<Instant> {
        self.ended_at.map(|at| at + SETTLING)
    }

    /// "/usr/bin/mpirun ended with code 1 while ranks were needed; /usr/bin/mpirun says: ...".
    pub(crate) fn ending(&self) -> String {
        let how = match self.process.known_exit() {
            Some(Exit::Code(code)) => format!("ended with code {code}"),
            Some(Exit::Signal(signal)) => format!("died of signal {signal} ({})", signal_name(signal)),
            Some(Exit::Unknown) | None => "ended".to_owned(),
        };
        let words = self.last_words().map_or(String::new(), |words| format!("; {words}"));
        format!("{} (pid {}, this host) {how} while ranks were needed{words}", self.name, self.pid())
    }

    /// "mpirun says: ...", in the lines that tell of an end where there are any; None where it said nothing.
    pub(crate) fn last_words(&self) -> Option<String> {
        const TELLING: [&str; 4] = ["signal", "PID ", "EXIT CODE", "exited"];
        let lines = self.output.lines();
        let telling: Vec<&String> =
            lines.iter().filter(|line| TELLING.iter().any(|word| line.contains(word))).collect();
        let words = if telling.is_empty() { lines.iter().collect() } else { telling };
        let last: Vec<&str> =
            words.iter().skip(words.len().saturating_sub(QUOTED)).map(|line| line.trim_matches(TRIM)).collect();
        (!last.is_empty()).then(|| format!("{} says: {}", self.name, last.join(" | ")))
    }

    /// The rank that it says has ended first. Open MPI says that; Hydra names a process, but merely the first in its own
    /// list of those that it killed itself.
    pub(crate) fn blames(&self) -> Option<u32> {
        self.output.lines().iter().find_map(|line| {
            let (_, rest) = line.split_once("noticed that process rank ")?;
            rest.split_whitespace().next()?.parse().ok()
        })
    }

    /// Asks it to end, which takes its ranks and what it left in the file system with it.
    pub(crate) fn ask_to_end(&mut self) {
        if !self.has_ended() && self.process.exit().is_none() {
            self.process.ask_to_end();
        }
    }

    pub(crate) fn kill(&mut self) {
        if !self.has_ended() && self.process.exit().is_none() {
            self.process.kill();
        }
    }
}
