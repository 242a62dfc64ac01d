//! Worlds with threads of this process as ranks: for backends that cannot leave it, above all simulated ones.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use benchmarks::{cores_wanted, open_rank};
use comm::{Abort, Bootstrap};
use measure::{Command, Failure, RankSide, Reply, Verdict, VerdictKind, World, WorldSpec};
use terms::Error;
use trace::OwnSlot;

/// Ranks in threads.
pub struct ThreadWorld {
    ranks: Vec<Thread>,
    aborts: Aborts,
    /// Why the run is to end, once it is.
    interrupted: fn() -> Option<String>,
}

/// How often a rank that ended is looked for while another's reply is awaited.
const LOOK: Duration = Duration::from_millis(20);

/// Ends all waits: of the ranks for each other while they open, and inside the communicators that they opened, which
/// have aborts of their own.
#[derive(Clone, Default)]
struct Aborts {
    opening: Abort,
    opened: Arc<Mutex<Vec<Abort>>>,
}

impl Aborts {
    fn opened(&self) -> MutexGuard<'_, Vec<Abort>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, abort: Abort) {
        let mut opened = self.opened();
        if self.opening.is_raised() {
            abort.raise();
        }
        opened.push(abort);
    }

    fn raise(&self) {
        let opened = self.opened();
        self.opening.raise();
        opened.iter().for_each(Abort::raise);
    }
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
    pub fn start(spec: &WorldSpec, limit: Duration, interrupted: fn() -> Option<String>) -> Result<Self, Verdict> {
        let aborts = Aborts::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let oversubscribed = cores_wanted(spec.ranks, &spec.fields) > cores;
        let ranks = comm::threads(spec.ranks, &aborts.opening).into_iter().map(|bootstrap| {
            let (commands, inbox) = channel();
            let (outbox, replies) = channel();
            let (spec, aborts) = (spec.clone(), aborts.clone());
            let work = move || serve(&spec, bootstrap, oversubscribed, &aborts, &inbox, &outbox);
            let handle = std::thread::spawn(work);
            Thread { commands: Some(commands), replies, handle: Some(handle) }
        });
        let mut world = Self { ranks: ranks.collect(), aborts, interrupted };
        // Every rank reports once that it is open, before any command.
        world.replies(limit)?;
        Ok(world)
    }

    fn replies(&mut self, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        let deadline = Instant::now() + limit;
        let mut replies: Vec<Option<Reply>> = self.ranks.iter().map(|_| None).collect();
        // A rank that ended keeps others from answering, so all are looked at and not one after the other.
        while let Some(first) = replies.iter().position(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            for (rank, reply) in replies.iter_mut().enumerate().filter(|(_, reply)| reply.is_none()) {
                let patience = if rank == first { left.min(LOOK) } else { Duration::ZERO };
                match self.ranks[rank].replies.recv_timeout(patience) {
                    Ok(answer) => *reply = Some(answer),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(self.lost(&[rank], "ended")),
                }
            }
            let missing: Vec<usize> = (0..replies.len()).filter(|rank| replies[*rank].is_none()).collect();
            if left.is_zero() && !missing.is_empty() {
                return Err(self.lost(&missing, "did not answer in time"));
            }
        }
        refused(replies.into_iter().flatten().collect())
    }

    /// The verdict on ranks that are lost, and the end of all waits for them.
    fn lost(&self, ranks: &[usize], what: &str) -> Verdict {
        self.aborts.raise();
        let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
        let subject = match numbers.as_slice() {
            [one] => format!("rank {one} (a thread)"),
            _ => format!("ranks {} (threads)", numbers.join(", ")),
        };
        Verdict::new(VerdictKind::Hung, format!("{subject} {what}")).ranks(ranks.iter().map(|rank| *rank as u32))
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
    let kind = if first.lacking { VerdictKind::Lacking } else { VerdictKind::Refused };
    let what = format!("{word} {}: {}", ranks.join(", "), first.error.sentence());
    let error = Error { hint: first.error.hint.clone(), ..Error::new(what) };
    Err(Verdict::new(kind, error).ranks(failures.iter().map(|(rank, _)| *rank)))
}

fn serve(
    spec: &WorldSpec,
    mut bootstrap: impl Bootstrap,
    oversubscribed: bool,
    aborts: &Aborts,
    inbox: &Receiver<Command>,
    outbox: &Sender<Reply>,
) {
    let slot = Arc::new(OwnSlot::default());
    let mut work = match open_rank(spec, &mut bootstrap, slot, oversubscribed, measure::machine::allowed_cpus()) {
        Ok((work, abort)) => {
            aborts.add(abort);
            work
        }
        Err(failure) => {
            // The world may be gone already; then nobody is left to report to.
            let _ = outbox.send(Reply::Failed(failure));
            return;
        }
    };
    if outbox.send(Reply::Finished(measure::Observations::default())).is_err() {
        return;
    }
    while let Ok(command) = inbox.recv() {
        if outbox.send(work.obey(&command)).is_err() {
            return;
        }
    }
}

impl World for ThreadWorld {
    /// A command's work is short, or its reply is late: that the user wants to end is looked at before each.
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        if let Some(message) = (self.interrupted)() {
            return Err(Verdict::new(VerdictKind::Interrupted, message));
        }
        for thread in &self.ranks {
            // A thread that ended shows when its reply is missing.
            let _ = thread.commands.as_ref().map(|commands| commands.send(command.clone()));
        }
        self.replies(limit)
    }
}

impl Drop for ThreadWorld {
    fn drop(&mut self) {
        self.aborts.raise();
        self.ranks.iter_mut().for_each(|thread| drop(thread.commands.take()));
        for handle in self.ranks.iter_mut().filter_map(|thread| thread.handle.take()) {
            // A panic of a rank has been reported as a missing reply.
            let _ = handle.join();
        }
    }
}
