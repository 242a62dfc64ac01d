//! One rank as its world sees it: process, connection, output, and what is known of it in the command in flight.

use std::time::{Duration, Instant};

use control::{Connection, FromRank, Hex, Lost, ToRank};
use measure::{Failure, Reply};
use process::{Activity, Exit, Interest, Output, PollSet, Process};
use trace::StatusSlot;

use crate::stall::RankProgress;
use crate::verdict::{Outcome, RankState};

/// A rank without a heartbeat for this long has stopped, or is starved: twenty beats.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// What is known of the order in which ranks of another launcher ended.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// When the first one was seen to have ended.
    pub(crate) first: Option<Instant>,
    /// The rank that the launcher says was the first.
    pub(crate) blamed: Option<u32>,
}

/// Ranks that end within this time count as ended together: some launchers kill all ranks when one has ended. On a busy
/// machine the last to be killed may be seen first. So the limit is the time of scheduler turns, not the microseconds
/// that a launcher takes.
const TOGETHER: Duration = Duration::from_millis(50);

/// A rank of a world.
pub(crate) struct Member {
    rank: u32,
    /// None: another started it, and it has not said yet which process it is (or runs on another host).
    process: Option<Process>,
    /// None: the process that started it has its output.
    output: Option<Output>,
    /// When its process was seen to have ended.
    ended_at: Option<Instant>,
    connection: Option<Connection>,
    /// The rank's host, where it is another one.
    host: Option<String>,
    /// The last reports on its process, if that runs on another host.
    remote: RemoteState,
    lost: Option<Lost>,
    answer: Option<Answer>,
    exchange: Option<Hex>,
    beats: u64,
    beat_at: Instant,
    watched: Watched,
}

/// What the agent of a rank on another host reports.
#[derive(Clone, Copy, Default)]
struct RemoteState {
    pid: u32,
    exit: Option<Exit>,
    stopped: bool,
    /// The agent says nothing any more.
    silent: bool,
    /// The process that was to start it, where that was lost before it said which process the rank is.
    agent: Option<u32>,
}

/// What a rank answers.
pub(crate) enum Answer {
    /// The rank is ready to take commands.
    Started,
    /// The rank did what the command says.
    Reply(Reply),
    /// The rank could not do it.
    Failed(Failure),
}

/// Indices in the current wait.
#[derive(Default)]
struct Watched {
    process: Option<usize>,
    output: Option<usize>,
    connection: Option<usize>,
}

impl Member {
    /// A rank with a process that was started just now.
    pub(crate) fn new(rank: u32, process: Process, output: Output) -> Self {
        Self::from_parts(rank, Some(process), Some(output))
    }

    /// A rank that another program starts.
    pub(crate) fn launched(rank: u32) -> Self {
        Self::from_parts(rank, None, None)
    }

    fn from_parts(rank: u32, process: Option<Process>, output: Option<Output>) -> Self {
        Self {
            rank,
            process,
            output,
            ended_at: None,
            connection: None,
            host: None,
            remote: RemoteState::default(),
            lost: None,
            answer: None,
            exchange: None,
            beats: 0,
            beat_at: Instant::now(),
            watched: Watched::default(),
        }
    }

    /// A rank that is started on another host, where a process tells of it.
    pub(crate) fn remote(rank: u32, host: String) -> Self {
        Self { host: Some(host), ..Self::launched(rank) }
    }

    /// Which rank it is.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Process number of the rank; zero while it is not known.
    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().map_or(self.remote.pid, Process::pid)
    }

    /// What it shows of its work.
    pub(crate) fn seen(&self, slot: &StatusSlot) -> RankProgress {
        RankProgress { operation: slot.state(), exchanging: self.exchange.is_some(), answered: self.answer.is_some() }
    }

    /// What its process has done so far, where it is on this host.
    pub(crate) fn activity(&self) -> Option<Activity> {
        Activity::of_process(self.process.as_ref()?.pid())
    }

    /// Notes of a rank on another host whether its process there is stopped.
    pub(crate) fn tell_stopped(&mut self, stopped: bool) {
        self.remote.stopped = stopped;
    }

    /// Notes of a rank on another host that its process there has ended so.
    pub(crate) fn tell_end(&mut self, pid: u32, exit: Exit) {
        (self.remote.pid, self.remote.exit) = (pid, Some(exit));
        self.ended_at.get_or_insert_with(Instant::now);
    }

    /// Whether nobody has said yet which process it is.
    pub(crate) fn is_unknown(&self) -> bool {
        self.process.is_none() && self.remote.pid == 0
    }

    /// The process that was to start it is lost, and nobody knows whether it did.
    pub(crate) fn tell_agent_lost(&mut self, pid: u32, lost: Lost) {
        self.remote.agent = Some(pid);
        self.tell_silence(lost);
    }

    /// No more reports come from the rank's host.
    pub(crate) fn tell_silence(&mut self, lost: Lost) {
        self.remote.silent = true;
        self.lost.get_or_insert(lost);
    }

    /// The rank has proved itself, and says that its process has this number.
    pub(crate) fn join(&mut self, connection: Connection, host: Option<String>, pid: u32) {
        if self.process.is_none() && host.is_none() {
            // One that is gone already is found out by its connection.
            self.process = Process::watch_foreign(pid).ok();
        }
        self.remote.pid = pid;
        (self.connection, self.host) = (Some(connection), host);
    }

    /// Begins the next command; `beats` of its status slot so far.
    pub(crate) fn begin(&mut self, now: Instant, beats: u64) {
        (self.answer, self.exchange) = (None, None);
        (self.beats, self.beat_at) = (beats, now);
    }

    /// Sends a message; a connection that refuses it is lost.
    pub(crate) fn send(&mut self, message: &ToRank) {
        self.on_connection(|connection| connection.send(message));
    }

    /// As [`Member::send`], for what was written once for all ranks.
    pub(crate) fn send_payload(&mut self, payload: &[u8]) {
        self.on_connection(|connection| connection.send_payload(payload));
    }

    fn on_connection(&mut self, act: impl FnOnce(&mut Connection) -> Result<(), Lost>) {
        if let Some(connection) = &mut self.connection
            && let Err(lost) = act(connection)
        {
            (self.connection, self.lost) = (None, Some(lost));
        }
    }

    /// Adds what to wait for.
    pub(crate) fn register(&mut self, polls: &mut PollSet) {
        let alive = !self.has_ended();
        self.watched = Watched {
            process: self
                .process
                .as_ref()
                .filter(|_| alive)
                .map(|process| polls.add(process.descriptor(), Interest::Read)),
            output: self.output.as_ref().and_then(Output::descriptor).map(|pipe| polls.add(pipe, Interest::Read)),
            connection: self.connection.as_ref().map(|connection| {
                let interest = if connection.is_sending() { Interest::ReadWrite } else { Interest::Read };
                polls.add(connection.descriptor(), interest)
            }),
        };
    }

    /// Takes in what happened.
    pub(crate) fn serve(&mut self, polls: &PollSet, inbox: &mut Vec<FromRank>) {
        let happened = |index: Option<usize>| index.is_some_and(|index| polls.happened(index));
        if happened(self.watched.connection) {
            self.on_connection(|connection| connection.flush().and_then(|()| connection.receive(inbox)));
            for message in inbox.drain(..) {
                self.take(message);
            }
        }
        let mut drain = happened(self.watched.output);
        if happened(self.watched.process) && self.process.as_mut().is_some_and(|process| process.exit().is_some()) {
            self.ended_at = Some(Instant::now());
            drain = true;
        }
        if let Some(output) = self.output.as_mut().filter(|_| drain) {
            output.drain();
        }
    }

    fn take(&mut self, message: FromRank) {
        let unasked = self.answer.is_some() || self.exchange.is_some();
        match message {
            FromRank::Here(_)
            | FromRank::Shows { .. }
            | FromRank::Ended { .. }
            | FromRank::Clock { .. }
            | FromRank::Listens { .. }
            | FromRank::Reached { .. }
            | FromRank::Links { .. }
            | FromRank::LauncherEnded(_) => {
                self.lost = Some(Lost::Broken("it sent what only the process that keeps it may".to_owned()));
            }
            _ if unasked => self.lost = Some(Lost::Broken("it sent what it was not asked for".to_owned())),
            FromRank::Gather(bytes) => self.exchange = Some(bytes),
            FromRank::Started(None) => self.answer = Some(Answer::Started),
            FromRank::Started(Some(failure)) => self.answer = Some(Answer::Failed(failure)),
            FromRank::Reply(reply) => {
                self.answer = Some(match *reply {
                    Reply::Failed(failure) => Answer::Failed(failure),
                    reply => Answer::Reply(reply),
                });
            }
        }
    }

    /// Answer of the rank, if it has given one.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Takes its answer.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        self.answer.take()
    }

    /// The rank's part of an exchange that it waits in.
    pub(crate) fn exchange(&mut self) -> &mut Option<Hex> {
        &mut self.exchange
    }

    /// Whether its process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.exit().is_some()
    }

    fn exit(&self) -> Option<Exit> {
        self.remote.exit.or_else(|| self.process.as_ref().and_then(Process::known_exit))
    }

    /// When its process was seen to have ended.
    pub(crate) fn ended_at(&self) -> Option<Instant> {
        self.ended_at
    }

    /// Whether its process runs, as far as is known.
    pub(crate) fn runs(&self) -> bool {
        match &self.process {
            Some(_) => self.exit().is_none(),
            None => self.host.is_some() && self.remote.exit.is_none() && !self.remote.silent,
        }
    }

    /// Whether its connection ended. Its process, most likely, is about to, or its whole host is out of reach.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.lost, Some(Lost::Closed | Lost::Silent))
    }

    /// Whether it sent what no rank sends.
    pub(crate) fn is_broken(&self) -> bool {
        matches!(self.lost, Some(Lost::Broken(_)))
    }

    /// Looks at its heartbeat; true when it has been silent for too long and its process is stopped.
    pub(crate) fn has_stopped(&mut self, slot: &StatusSlot, now: Instant) -> bool {
        let beats = slot.beats();
        if beats != self.beats {
            (self.beats, self.beat_at) = (beats, now);
        }
        self.answer.is_none() && now.duration_since(self.beat_at) >= SILENCE && self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.remote.stopped || self.process.as_ref().is_some_and(Process::is_stopped)
    }

    /// Kills its process.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.as_mut().filter(|process| process.known_exit().is_none())
            && process.exit().is_none()
        {
            process.kill();
        }
    }

    /// What is known of it now. `ends`: which rank's process ended first.
    pub(crate) fn state(&self, slot: &StatusSlot, now: Instant, ends: Ends) -> RankState {
        RankState {
            rank: self.rank,
            pid: self.pid(),
            host: self.host.clone(),
            outcome: self.outcome(now, ends),
            operation: slot.state(),
            last_words: self.output.as_ref().map(Output::last_words).unwrap_or_default(),
        }
    }

    fn outcome(&self, now: Instant, ends: Ends) -> Outcome {
        match (self.exit(), &self.lost, &self.answer) {
            (Some(Exit::Unknown), ..) => {
                let after = self.ended_at.zip(ends.first).map(|(own, first)| own.saturating_duration_since(first));
                let after = after.is_some_and(|after| after > TOGETHER);
                Outcome::Ended { after: ends.blamed.map_or(after, |blamed| blamed != self.rank) }
            }
            (Some(Exit::Signal(signal)), ..) => Outcome::Signalled(signal),
            (Some(Exit::Code(code)), ..) => Outcome::Exited(code),
            (_, Some(Lost::Closed), _) => Outcome::Lost(match self.remote.agent {
                Some(pid) => format!("the control connection of the process that starts it (pid {pid}) ended"),
                None => "its control connection ended".to_owned(),
            }),
            (_, Some(Lost::Silent), _) => {
                Outcome::Lost(format!("nothing has come from its host for {} s", control::SILENT))
            }
            (_, Some(Lost::Broken(what)), _) => Outcome::Lost(what.clone()),
            (.., Some(Answer::Failed(failure))) => Outcome::Failed(failure.clone()),
            (.., Some(_)) => Outcome::Answered,
            (.., None) if self.is_stopped() => Outcome::Stopped,
            (.., None) => {
                let silence = now.duration_since(self.beat_at);
                let silent = (silence >= SILENCE).then_some(silence.as_secs());
                Outcome::Pending { silent, exchanging: self.exchange.is_some() }
            }
        }
    }
}
