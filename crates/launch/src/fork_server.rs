//! Fork servers: processes of the user's Python that import torch once, and fork a rank for each request.
//!
//! A server is started as a rank is and lives as long as its starter. It forks each rank through a process between. When that
//! one ends, the rank becomes a child of this process. So its number, its end and its signals are those of a rank that was
//! started, and a server may end without its ranks. The other half is `python/rankmark_worker/fork_server.py`.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use measure::{Verdict, WorldSpec};
use process::{
    Adoption, Courier, Exit, Interest, Output, PollSet, Process, Tie, interrupt, output_pipe, own_name, signal_name,
    spawn,
};
use serde::Deserialize;
use serde_json::json;

use crate::pytorch;
use crate::rank::server_argument;
use crate::starter::Wishes;
use crate::verdict::{Occasion, Phase, not_started, verdict};

/// Servers that live at once: each holds 0.3 GB. The one that was used least recently ends first.
const MOST: usize = 4;

/// How long a server that has closed its connection may take to be gone.
const ENDING: Duration = Duration::from_secs(1);

/// Bytes of an answer, at most.
const LONGEST: usize = 4096;

/// What ranks of one server have in common: the Python that is asked for, and the variables that are added for them.
type ServerKey = (Option<String>, Vec<(String, String)>);

/// The fork servers of a starter and of its clones.
#[derive(Clone, Default)]
pub(crate) struct ForkServers {
    /// The one that was used last is last.
    known: Arc<Mutex<Vec<(ServerKey, ServerState)>>>,
    on_note: Option<fn(&str)>,
}

enum ServerState {
    Serves(ForkServer),
    /// Ranks of this key are started one by one.
    Unable,
}

impl fmt::Debug for ForkServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkServers").finish_non_exhaustive()
    }
}

impl ForkServers {
    /// Sends notes for the user here.
    pub(crate) fn on_note(self, on_note: fn(&str)) -> Self {
        Self { on_note: Some(on_note), ..self }
    }

    /// Whether ranks of this world are forked, as far as is known.
    pub(crate) fn serve(&self, spec: &WorldSpec, wishes: &Wishes) -> bool {
        let key = key(spec, wishes);
        let is_unable =
            |(known, state): &(ServerKey, ServerState)| *known == key && matches!(state, ServerState::Unable);
        pytorch::can_be_forked(spec, wishes) && !self.lock().iter().any(is_unable)
    }

    /// The server of this world's ranks; None where they are started one by one. It is to be given [back](Self::put).
    ///
    /// # Errors
    /// The verdict, when the user ended the run meanwhile, or the server does not get ready.
    pub(crate) fn take(
        &self,
        spec: &WorldSpec,
        wishes: &Wishes,
        program: &PathBuf,
        limit: Duration,
    ) -> Result<Option<ForkServer>, Verdict> {
        if !self.serve(spec, wishes) {
            return Ok(None);
        }
        let key = key(spec, wishes);
        if let Some(mut server) = self.remove(&key) {
            match server.process.exit() {
                None => return Ok(Some(server)),
                Some(exit) => self.note(&format!("{} {}; a new one starts", server.name(), how(exit))),
            }
        }
        let failed = |error: io::Error| not_started(format!("starting the fork server: {error}"), None);
        let mut server = ForkServer::start(&key, wishes, program).map_err(failed)?;
        let why = match server.hear(Instant::now() + limit) {
            Ok(ServerAnswer::Ready) => return Ok(Some(server)),
            // Its ranks say so themselves.
            Ok(ServerAnswer::Missing) => None,
            Ok(ServerAnswer::Refused(why)) => Some(why),
            Ok(other) => Some(format!("it said {other:?}")),
            Err(Lost::Ended(how)) => Some(how),
            Err(Lost::Interrupted(signal)) => return Err(interrupted(signal)),
            Err(Lost::TimeOver) => {
                let message = format!("{} was not ready after {} s", server.name(), limit.as_secs());
                return Err(not_started(message, Some("importing torch hangs or is very slow".to_owned())));
            }
        };
        if let Some(why) = why {
            self.note(&format!("PyTorch ranks are started one by one, each imports torch: fork server: {why}"));
        }
        self.lock().push((key, ServerState::Unable));
        Ok(None)
    }

    /// Keeps a server for the next world.
    pub(crate) fn put(&self, server: ForkServer) {
        let mut known = self.lock();
        known.push((server.key.clone(), ServerState::Serves(server)));
        let serves = |(_, state): &(ServerKey, ServerState)| matches!(state, ServerState::Serves(_));
        if known.iter().filter(|entry| serves(entry)).count() > MOST
            && let Some(oldest) = known.iter().position(serves)
        {
            known.remove(oldest);
        }
    }

    fn remove(&self, key: &ServerKey) -> Option<ForkServer> {
        let mut known = self.lock();
        let at = known.iter().position(|(known, _)| known == key)?;
        match known.remove(at) {
            (_, ServerState::Serves(server)) => Some(server),
            (_, ServerState::Unable) => None,
        }
    }

    fn note(&self, text: &str) {
        if let Some(note) = self.on_note {
            note(text);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(ServerKey, ServerState)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(spec: &WorldSpec, wishes: &Wishes) -> ServerKey {
    (pytorch::named(spec).map(str::to_owned), wishes.environment.clone())
}

fn interrupted(signal: i32) -> Verdict {
    verdict(Phase::Start, Occasion::Interrupted(signal), None, &[])
}

fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with code {code}"),
        Exit::Signal(signal) => format!("died of {}", signal_name(signal)),
        Exit::Unknown => "ended".to_owned(),
    }
}

/// What a server says.
#[derive(Debug, Deserialize)]
enum ServerAnswer {
    /// The server has imported torch.
    Ready,
    /// torch cannot be imported.
    Missing,
    /// Ranks cannot be forked from it.
    Refused(String),
    /// The process number of the rank that was asked for.
    Forked(u32),
    /// Why there is no such rank.
    Failed(String),
}

/// Why a server says nothing.
enum Lost {
    /// The server has ended so.
    Ended(String),
    TimeOver,
    /// The user ended the run, by this signal.
    Interrupted(i32),
}

/// A fork server; killed and reaped when dropped. Its ranks live on.
pub(crate) struct ForkServer {
    key: ServerKey,
    process: Process,
    link: Courier,
    output: Output,
    polls: PollSet,
}

impl ForkServer {
    fn start(key: &ServerKey, wishes: &Wishes, program: &PathBuf) -> io::Result<Self> {
        let (link, other) = Courier::pair()?;
        let (read, write) = output_pipe()?;
        let mut command = Command::new(program);
        command.arg0(own_name()).arg(server_argument(other.as_raw_fd(), key.0.as_deref()));
        command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write);
        command.envs(wishes.environment.iter().map(|(name, value)| (name, value)));
        // As a rank: what ranks inherit from it is then what they would have by themselves.
        let tie = Tie::killed().session(wishes.sessions).deaf_to_interrupt().without_core_file();
        let tie = tie.keeping(&[other.as_raw_fd()]);
        let process = spawn(command, tie)?;
        Ok(Self { key: key.clone(), process, link, output: Output::new(read), polls: PollSet::default() })
    }

    /// Number of the fork server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn name(&self) -> String {
        format!("the fork server of PyTorch ranks (pid {})", self.pid())
    }

    /// Forks a rank that inherits the invitation and the status page and writes its output to `output`.
    ///
    /// # Errors
    /// The verdict on a world without it. The server should then be dropped.
    pub(crate) fn fork(
        &mut self,
        rank: u32,
        [invitation, status]: [&File; 2],
        output: &OwnedFd,
        limit: Duration,
    ) -> Result<Process, Verdict> {
        let failed =
            |server: &Self, why: String| not_started(format!("{} forked no rank {rank}: {why}", server.name()), None);
        let adoption = Adoption::begin().map_err(|error| failed(self, error.to_string()))?;
        let request = json!({"rank": rank}).to_string();
        let sent = self.link.send(request.as_bytes(), &[invitation.as_fd(), status.as_fd(), output.as_fd()]);
        // What it died of says more than a broken pipe.
        let answer = self.hear(Instant::now() + limit);
        drop(adoption);
        match (answer, sent) {
            (Ok(ServerAnswer::Forked(pid)), Ok(())) => {
                Process::watch_descendant(pid).map_err(|error| failed(self, error.to_string()))
            }
            (Ok(ServerAnswer::Failed(why)), _) => Err(failed(self, why)),
            (Ok(other), _) => Err(failed(self, format!("it said {other:?}"))),
            (Err(Lost::Ended(how)), _) => Err(failed(self, how)),
            (Err(Lost::TimeOver), _) => Err(failed(self, format!("no answer within {} s", limit.as_secs()))),
            (Err(Lost::Interrupted(signal)), _) => Err(interrupted(signal)),
        }
    }

    /// Waits for what it says next.
    fn hear(&mut self, deadline: Instant) -> Result<ServerAnswer, Lost> {
        loop {
            self.polls.clear();
            let said = self.polls.add(self.link.descriptor(), Interest::Read);
            let ended = self.polls.add(self.process.descriptor(), Interest::Read);
            // A full pipe would hold it.
            let wrote = self.output.descriptor().map(|pipe| self.polls.add(pipe, Interest::Read));
            if let Some(alarm) = interrupt::descriptor() {
                self.polls.add(alarm, Interest::Read);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            self.polls.wait(Some(left)).map_err(|error| Lost::Ended(error.to_string()))?;
            if wrote.is_some_and(|index| self.polls.happened(index)) {
                self.output.drain();
            }
            if let Some(signal) = interrupt::requested() {
                return Err(Lost::Interrupted(signal));
            }
            if let Some(why) = interrupt::stopped() {
                return Err(Lost::Ended(why));
            }
            if self.polls.happened(said) {
                let mut buffer = [0; LONGEST];
                let message = self.link.receive(&mut buffer).unwrap_or_default();
                return record::from_json(message).map_err(|_| Lost::Ended(self.ending()));
            }
            if self.polls.happened(ended) {
                return Err(Lost::Ended(self.ending()));
            }
            if left.is_zero() {
                return Err(Lost::TimeOver);
            }
        }
    }

    /// How it ended, and the last that it wrote.
    fn ending(&mut self) -> String {
        self.await_end();
        self.output.drain();
        let how = self.process.known_exit().map_or_else(|| "its connection is broken".to_owned(), how);
        let words = self.output.last_words();
        if words.is_empty() { how } else { format!("{how}: {}", words.join(" | ")) }
    }

    fn await_end(&mut self) {
        let deadline = Instant::now() + ENDING;
        while self.process.exit().is_none() && Instant::now() < deadline {
            self.polls.clear();
            self.polls.add(self.process.descriptor(), Interest::Read);
            if self.polls.wait(Some(deadline.saturating_duration_since(Instant::now()))).is_err() {
                return;
            }
        }
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        self.process.kill();
        self.await_end();
    }
}
