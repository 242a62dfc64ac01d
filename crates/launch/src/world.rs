//! A world of rank processes: sends commands, sleeps until all answers are there, and ends the world when a rank is
//! lost. Nothing here knows how the processes were started.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use control::{FromRank, Rendezvous, ToRank, write};
use measure::{Clocks, Command, Reply, Verdict, VerdictKind, World};
use process::{Interest, PollSet, host_name, interrupt};
use terms::{Bytes, Rank, Seconds};

use crate::launcher::Launcher;
use crate::member::{Answer, Ends, Member};
use crate::remote::Remote;
use crate::stall::{OnStall, StallWatch, standing, tell};
use crate::status::StatusPage;
use crate::verdict::{Occasion, Phase, RankState, verdict};
use crate::watch::{AnswerWatch, Wait};

/// How long ranks have for leaving in peace before they are killed.
const FAREWELL: Duration = Duration::from_millis(500);

/// How long ranks have for leaving in peace where another program started them: their library says farewell among all of them,
/// and that program cleans up.
const LONG_FAREWELL: Duration = Duration::from_secs(10);

/// How long a launcher has to tell how a rank ended, and after that to end by itself when its ranks are gone.
const LAUNCHER_TELLS: Duration = Duration::from_millis(500);
const LAUNCHER_ENDS: Duration = Duration::from_secs(2);

/// How long a killed process may take to be gone. Only one that hangs inside the kernel takes longer, and then nobody
/// can do anything about it.
const REAPING: Duration = Duration::from_secs(5);

/// The ranks of one world, as processes.
pub struct ProcessWorld {
    members: Vec<Member>,
    /// The program that starts and ends the ranks, where it is not this one.
    launcher: Option<Launcher>,
    /// What ranks open while the world starts.
    invited_by: Vec<File>,
    /// Ranks of the world on other hosts.
    remote: Option<Remote>,
    /// Who gets reports of commands that stall.
    on_stall: Option<OnStall>,
    /// Ranks that do not move for so long may be computing.
    patience: Duration,
    farewell: Duration,
    page: StatusPage,
    /// Open while the world starts.
    rendezvous: Option<Rendezvous>,
    phase: Phase,
    /// Size of the case that was prepared last.
    bytes: Option<Bytes>,
    up: bool,
    ended: Option<Verdict>,
    host: String,
    polls: PollSet,
    inbox: Vec<FromRank>,
}

impl ProcessWorld {
    /// A world of ranks that will come to this rendezvous.
    pub(crate) fn new(page: StatusPage, rendezvous: Rendezvous) -> Self {
        Self {
            members: Vec::new(),
            launcher: None,
            invited_by: Vec::new(),
            remote: None,
            on_stall: None,
            patience: Duration::ZERO,
            farewell: FAREWELL,
            page,
            rendezvous: Some(rendezvous),
            phase: Phase::Start,
            bytes: None,
            up: false,
            ended: None,
            host: host_name(),
            polls: PollSet::default(),
            inbox: Vec::new(),
        }
    }

    /// Receives the commands that stall.
    pub(crate) fn tell_stalls(&mut self, on_stall: Option<OnStall>) {
        self.on_stall = on_stall;
    }

    /// A rank's process was started.
    pub(crate) fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    /// Lets another program start all ranks, which open these files until they have joined.
    pub(crate) fn start_by(&mut self, launcher: Launcher, ranks: u32, invited_by: Vec<File>) {
        self.launcher = Some(launcher);
        self.farewell = LONG_FAREWELL;
        self.members = (0..ranks).map(Member::launched).collect();
        self.invited_by = invited_by;
    }

    /// Ranks are started by processes of an external launcher, those of `remote` on other hosts; those here open
    /// these files until they have joined.
    pub(crate) fn start_elsewhere(&mut self, ranks: u32, invited_by: Vec<File>, remote: Option<Remote>) {
        self.farewell = LONG_FAREWELL;
        let host = |rank| remote.as_ref().and_then(|remote| remote.host(rank));
        let member = |rank| host(rank).map_or_else(|| Member::launched(rank), |host| Member::remote(rank, host));
        self.members = (0..ranks).map(member).collect();
        (self.invited_by, self.remote) = (invited_by, remote);
    }

    /// The process numbers of its ranks, in rank order.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Member::pid).collect()
    }

    /// The process number of the program that started them, where it was not this one.
    pub fn launcher_pid(&self) -> Option<u32> {
        self.launcher.as_ref().map(Launcher::pid)
    }

    /// Waits until every rank has joined and is ready.
    ///
    /// # Errors
    /// The verdict, when they do not come up.
    pub(crate) fn come_up(&mut self, limit: Duration) -> Result<(), Verdict> {
        self.begin(Phase::Start);
        self.await_answers(limit)?;
        self.invited_by.clear();
        self.up = true;
        Ok(())
    }

    fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        let now = Instant::now();
        for (member, rank) in self.members.iter_mut().zip(0..) {
            member.begin(now, self.page.slot(rank).beats());
        }
    }

    /// Sleeps until every rank has answered that it could, or ends in a verdict.
    fn await_answers(&mut self, limit: Duration) -> Result<(), Verdict> {
        let mut watch = AnswerWatch::new(Instant::now(), limit);
        // Not while they start: each then has much to do that no page shows.
        let on_stall = self.on_stall.clone().filter(|_| self.phase != Phase::Start);
        let mut stalls = on_stall.map(|on| (StallWatch::new(Instant::now(), &on, self.patience), on));
        loop {
            let stall_look = stalls.as_ref().and_then(|(stall, _)| stall.next_look());
            let until = stall_look.map_or(watch.next_look(), |look| look.min(watch.next_look()));
            if let Err(error) = self.pump(until) {
                return Err(self.end_for(format!("waiting for ranks: {error}")));
            }
            self.complete_exchange();
            if let Some(signal) = interrupt::requested() {
                return Err(self.end(Occasion::Interrupted(signal)));
            }
            if let Some(why) = interrupt::stopped() {
                return Err(self.end_for(why));
            }
            if let Some(how) = self.launcher_is_gone() {
                return Err(self.end_for(how));
            }
            let now = Instant::now();
            match watch.look(&mut self.members, &self.page, now) {
                Wait::Over => return self.refused_by_any(now),
                Wait::GoesOn => self.look_for_stall(&mut stalls, now, limit),
                Wait::Evidence => return Err(self.end(Occasion::Evidence)),
                Wait::TimeOver => return Err(self.end(Occasion::Deadline(Seconds(limit.as_secs_f64())))),
            }
        }
    }

    fn look_for_stall(&self, stalls: &mut Option<(StallWatch, OnStall)>, now: Instant, limit: Duration) {
        let Some((watch, on)) = stalls else { return };
        let seen = || self.members.iter().zip(0..).map(|(member, rank)| member.seen(self.page.slot(rank))).collect();
        if let Some(doing) = watch.look(now, seen, |rank| self.members.get(rank)?.activity()) {
            tell(on, watch, (self.phase, self.bytes), &self.states(now), &doing, limit);
        }
    }

    /// Sleeps until something happens, and takes it in.
    fn pump(&mut self, until: Instant) -> io::Result<()> {
        self.polls.clear();
        if let Some(alarm) = interrupt::descriptor() {
            self.polls.add(alarm, Interest::Read);
        }
        self.register();
        let settled = self.launcher.as_ref().and_then(|launcher| launcher.settled());
        let mut until = settled.map_or(until, |settled| settled.min(until));
        if let Some(rendezvous) = &mut self.rendezvous {
            rendezvous.register(&mut self.polls);
            until = rendezvous.next_deadline().map_or(until, |deadline| deadline.min(until));
        }
        self.polls.wait(Some(until.saturating_duration_since(Instant::now())))?;
        self.serve();
        self.let_ranks_in();
        Ok(())
    }

    /// Adds what ranks, the launcher and other hosts are waited for.
    fn register(&mut self) {
        for member in &mut self.members {
            member.register(&mut self.polls);
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.register(&mut self.polls);
        }
        if let Some(remote) = &mut self.remote {
            remote.register(&mut self.polls);
        }
    }

    /// Takes in what ranks, the launcher and other hosts have said.
    fn serve(&mut self) {
        for member in &mut self.members {
            member.serve(&self.polls, &mut self.inbox);
        }
        if let Some(remote) = &mut self.remote {
            remote.serve(&self.polls, &mut self.members, &self.page);
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.serve(&self.polls);
        }
    }

    /// How the launcher ended, if it has, and no rank's end explains it. One that a signal ended needs no explanation:
    /// its ranks end because of it, and not the other way round.
    fn launcher_is_gone(&self) -> Option<String> {
        let launcher = self.launcher.as_ref()?;
        if launcher.was_killed() {
            return Some(launcher.ending());
        }
        let explained = self.members.iter().any(|member| member.has_ended() || member.is_lost());
        let settled = launcher.settled().is_some_and(|settled| Instant::now() >= settled);
        (settled && !explained).then(|| launcher.ending())
    }

    fn let_ranks_in(&mut self) {
        let Some(rendezvous) = &mut self.rendezvous else { return };
        for joined in rendezvous.serve(&self.polls, Instant::now()) {
            let pid = joined.hello.pid;
            let host = Some(joined.hello.host).filter(|host| *host != self.host);
            if let Some(member) = self.members.get_mut(joined.hello.rank as usize) {
                member.join(joined.connection, host, pid);
            }
        }
        if rendezvous.is_complete() {
            self.rendezvous = None;
        }
    }

    /// Answers an exchange once every rank has given its part.
    fn complete_exchange(&mut self) {
        if self.members.iter_mut().any(|member| member.exchange().is_none()) {
            return;
        }
        let parts = self.members.iter_mut().filter_map(|member| member.exchange().take()).collect();
        // Written once: the ranks all get the same. Hex digits always can be written.
        let payload = write(&ToRank::Gathered(parts)).unwrap_or_default();
        for member in &mut self.members {
            member.send_payload(&payload);
        }
    }

    /// All have answered. Ranks that could not do it have left the world as it was, unless it was to start.
    fn refused_by_any(&mut self, now: Instant) -> Result<(), Verdict> {
        if !self.members.iter().any(|member| matches!(member.answer(), Some(Answer::Failed(_)))) {
            return Ok(());
        }
        if self.phase == Phase::Start {
            return Err(self.end(Occasion::Evidence));
        }
        Err(verdict(self.phase, Occasion::Evidence, self.bytes, &self.states(now)))
    }

    fn states(&self, now: Instant) -> Vec<RankState> {
        let first_end = self.members.iter().filter_map(Member::ended_at).min();
        // Where its launcher ends all ranks as soon as one has ended, only that launcher may know which was the first.
        let blamed = self.launcher.as_ref().and_then(Launcher::blames);
        let ended = |rank: &u32| self.members.get(*rank as usize).is_some_and(Member::has_ended);
        let blamed = blamed.filter(ended);
        let state =
            |(member, rank): (&Member, u32)| member.state(self.page.slot(rank), now, Ends { first: first_end, blamed });
        self.members.iter().zip(0..).map(state).collect()
    }

    /// Passes the verdict and ends the world: living ranks are killed and reaped.
    fn end(&mut self, occasion: Occasion) -> Verdict {
        // Before the verdict, since a launcher may know more; and before anything is killed by us.
        let any_ended = self.members.iter().any(Member::has_ended);
        let words = if any_ended { self.hear_launcher() } else { None };
        let states = self.states(Instant::now());
        let mut verdict = verdict(self.phase, occasion, self.bytes, &states);
        verdict.error.what.extend(words.map(|words| format!("; {words}")));
        if verdict.kind == VerdictKind::Hung {
            let hung = states.iter().filter(|state| verdict.ranks.contains(&Rank(state.rank)));
            verdict.error.what.extend(standing(hung).into_iter().map(|stack| format!("; {stack}")));
        }
        self.tell_blocked(&mut verdict);
        self.end_with(verdict)
    }

    /// Tells which hosts cannot connect to each other, where ranks of several wait for each other in vain.
    fn tell_blocked(&mut self, verdict: &mut Verdict) {
        if !matches!(verdict.kind, VerdictKind::Hung | VerdictKind::NotStarted) {
            return;
        }
        let Some(remote) = &mut self.remote else { return };
        if let Some(blocked) = remote.blocked(&mut self.members, &self.page) {
            verdict.error.what.extend(["; ", &blocked]);
            let hint =
                "ranks of all hosts must be able to connect to each other at any port: look at firewalls and routes";
            verdict.error.hint = Some(hint.to_owned());
        }
    }

    fn end_for(&mut self, message: String) -> Verdict {
        let kind = if self.phase == Phase::Start { VerdictKind::NotStarted } else { VerdictKind::Died };
        self.end_with(Verdict::new(kind, message))
    }

    fn end_with(&mut self, verdict: Verdict) -> Verdict {
        self.ended = Some(verdict.clone());
        self.rendezvous = None;
        self.kill();
        verdict
    }

    /// What the launcher says of a rank that has ended, which it needs a moment for. Before anything is killed: of ranks
    /// that we kill it would say the same.
    fn hear_launcher(&mut self) -> Option<String> {
        let deadline = Instant::now() + LAUNCHER_TELLS;
        let launcher = self.launcher.as_mut()?;
        while !launcher.has_ended() && Instant::now() < deadline {
            self.polls.clear();
            launcher.register(&mut self.polls);
            if self.polls.wait(Some(deadline.saturating_duration_since(Instant::now()))).is_err() {
                break;
            }
            launcher.serve(&self.polls);
        }
        launcher.last_words()
    }

    fn kill(&mut self) {
        for member in &mut self.members {
            member.kill();
        }
        if let Some(remote) = &mut self.remote {
            remote.end(&self.members);
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.ask_to_end();
            self.await_ends(LAUNCHER_ENDS);
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.kill();
        }
        self.await_ends(REAPING);
    }

    /// Whether a process of this world runs, as far as is known.
    fn lives(&self) -> bool {
        self.members.iter().any(Member::runs) || self.launcher.as_ref().is_some_and(|launcher| !launcher.has_ended())
    }

    /// Waits until all processes have ended; keeps taking their output, because a full pipe would hold them.
    fn await_ends(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.lives() && Instant::now() < deadline {
            self.polls.clear();
            self.register();
            if self.polls.wait(Some(deadline.saturating_duration_since(Instant::now()))).is_err() {
                return;
            }
            self.serve();
        }
    }
}

impl World for ProcessWorld {
    fn be_patient(&mut self, still: Duration) {
        self.patience = still;
    }

    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        if let Some(verdict) = &self.ended {
            return Err(verdict.clone());
        }
        match command {
            Command::Prepare { case, .. } => self.bytes = case.bytes().map(Bytes),
            Command::Observe
            | Command::Finish
            | Command::Sample(_)
            | Command::Check
            | Command::Probe(_)
            | Command::Clocks(_) => {}
        }
        self.begin(Phase::Command(name(command)));
        let payload = match write(&ToRank::Command(Box::new(command.clone()))) {
            Ok(payload) => payload,
            Err(error) => return Err(self.end_for(error.to_string())),
        };
        for member in &mut self.members {
            member.send_payload(&payload);
        }
        self.await_answers(limit)?;
        let replies = self.members.iter_mut().filter_map(|member| match member.take_answer() {
            Some(Answer::Reply(reply)) => Some(reply),
            _ => None,
        });
        let replies: Vec<Reply> = replies.collect();
        if replies.len() < self.members.len() {
            return Err(self.end_for("a rank started once more instead of answering".to_owned()));
        }
        Ok(replies)
    }

    fn clocks(&mut self) -> Option<Clocks> {
        let remote = self.remote.as_mut().filter(|_| self.ended.is_none())?;
        Some(remote.read_clocks(&mut self.members, &self.page)).filter(|clocks| !clocks.hosts.is_empty())
    }
}

impl Drop for ProcessWorld {
    fn drop(&mut self) {
        if self.up && self.ended.is_none() {
            for member in &mut self.members {
                member.send(&ToRank::Leave);
            }
            self.await_ends(self.farewell);
        }
        self.kill();
    }
}

/// A command's name in messages.
const fn name(command: &Command) -> &'static str {
    match command {
        Command::Prepare { .. } => "prepare",
        Command::Sample(_) => "sample",
        Command::Check => "check",
        Command::Probe(_) => "probe",
        Command::Clocks(_) => "clocks",
        Command::Observe => "observe",
        Command::Finish => "finish",
    }
}
