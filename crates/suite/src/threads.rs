//! Worlds whose ranks are threads of this process: for backends that cannot leave it, above all simulated ones.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm::{Abort, Bootstrap};
use measure::{Command, Failure, RankSide, Reply, Verdict, VerdictKind, World, WorldSpec};
use terms::Rank;
use trace::OwnSlot;

use crate::rank::open_rank;

/// Ranks in threads.
pub struct ThreadWorld {
    ranks: Vec<Thread>,
    abort: Abort,
}

struct Thread {
    commands: Option<Sender<Command>>,
    replies: Receiver<Reply>,
    handle: Option<JoinHandle<()>>,
}

impl ThreadWorld {
    /// Starts the ranks of a world and opens its backend among them.
    ///
    /// # Errors
    /// When the backend does not open.
    pub fn start(spec: &WorldSpec, limit: Duration) -> Result<Self, Verdict> {
        let abort = Abort::default();
        let ranks = comm::threads(spec.ranks, &abort).into_iter().map(|bootstrap| {
            let (commands, inbox) = channel();
            let (outbox, replies) = channel();
            let spec = spec.clone();
            let handle = std::thread::spawn(move || serve(&spec, bootstrap, &inbox, &outbox));
            Thread { commands: Some(commands), replies, handle: Some(handle) }
        });
        let mut world = Self { ranks: ranks.collect(), abort };
        // Every rank reports once that it is open, before any command.
        world.replies(limit)?;
        Ok(world)
    }

    fn replies(&mut self, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        let deadline = Instant::now() + limit;
        let mut replies = Vec::with_capacity(self.ranks.len());
        for (rank, thread) in self.ranks.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            match thread.replies.recv_timeout(left) {
                Ok(reply) => replies.push(reply),
                Err(error) => {
                    self.abort.raise();
                    let what = match error {
                        std::sync::mpsc::RecvTimeoutError::Timeout => "did not answer in time",
                        std::sync::mpsc::RecvTimeoutError::Disconnected => "ended",
                    };
                    return Err(Verdict {
                        kind: VerdictKind::Hung,
                        ranks: vec![Rank(rank as u32)],
                        message: format!("rank {rank} (a thread) {what}"),
                        hint: None,
                    });
                }
            }
        }
        refused(replies)
    }
}

/// The replies, unless ranks failed: then all their failures as one verdict.
fn refused(replies: Vec<Reply>) -> Result<Vec<Reply>, Verdict> {
    let failures: Vec<(u32, &Failure)> = replies
        .iter()
        .enumerate()
        .filter_map(
            |(rank, reply)| if let Reply::Failed(failure) = reply { Some((rank as u32, failure)) } else { None },
        )
        .collect();
    let Some((_, first)) = failures.first() else { return Ok(replies) };
    let ranks: Vec<String> = failures.iter().map(|(rank, _)| rank.to_string()).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    Err(Verdict {
        kind: if first.lacking { VerdictKind::Lacking } else { VerdictKind::Refused },
        ranks: failures.iter().map(|(rank, _)| Rank(*rank)).collect(),
        message: format!("{word} {}: {}", ranks.join(", "), first.message),
        hint: None,
    })
}

fn serve(spec: &WorldSpec, mut bootstrap: impl Bootstrap, inbox: &Receiver<Command>, outbox: &Sender<Reply>) {
    let slot = Arc::new(OwnSlot::default());
    let mut work = match open_rank(spec, &mut bootstrap, slot, false) {
        Ok((work, _)) => work,
        Err(failure) => {
            // The world may be gone already; then nobody is left to be told.
            let _ = outbox.send(Reply::Failed(failure));
            return;
        }
    };
    if outbox.send(Reply::Finished(measure::Observed::default())).is_err() {
        return;
    }
    while let Ok(command) = inbox.recv() {
        if outbox.send(work.obey(&command)).is_err() {
            return;
        }
    }
}

impl World for ThreadWorld {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        for thread in &self.ranks {
            // A thread that ended shows when its reply is missing.
            let _ = thread.commands.as_ref().map(|commands| commands.send(command.clone()));
        }
        self.replies(limit)
    }
}

impl Drop for ThreadWorld {
    fn drop(&mut self) {
        self.abort.raise();
        self.ranks.iter_mut().for_each(|thread| drop(thread.commands.take()));
        for handle in self.ranks.iter_mut().filter_map(|thread| thread.handle.take()) {
            // A panic of a rank has been reported as a missing reply.
            let _ = handle.join();
        }
    }
}
