//! Worlds of thread ranks, opened through `comm::open`, in which no failure can hang the test: a rank that panics, or
//! a time limit, raises every rank's abort.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comm::{
    Abort, Bootstrap, Call, Communicator, Error, Late, Observed, Options, Pace, Paced, Readiness, Shape,
    ThreadBootstrap, Ticket, Wait,
};
use device::{Queue, Region};
use terms::{Bandwidth, Seconds, Space};
use trace::{Hook, OwnSlot};

/// One rank of a world.
pub(crate) struct Member {
    pub(crate) comm: Box<dyn Communicator>,
    /// What ends waits of this rank.
    pub(crate) abort: Abort,
    bootstrap: ThreadBootstrap,
}

/// Takes the place of a communicator that is being wrapped.
struct Nobody(Shape);

impl Communicator for Nobody {
    fn shape(&self) -> &Shape {
        &self.0
    }
    fn alloc(&mut self, _: usize, _: Space) -> comm::Result<Arc<Region>> {
        Err(Error::Aborted)
    }
    fn start(&mut self, _: &[Call], _: &Queue) -> comm::Result<Ticket> {
        Err(Error::Aborted)
    }
    fn finish(&mut self, _: &mut Ticket, _: Wait<'_>) -> comm::Result<bool> {
        Err(Error::Aborted)
    }
    fn split(&mut self, _: Option<u32>, _: u32) -> comm::Result<Option<Box<dyn Communicator>>> {
        Err(Error::Aborted)
    }
}

impl Member {
    /// Waits for all ranks without the communicator; ends when a rank fails.
    pub(crate) fn meet(&mut self) {
        self.bootstrap.all_gather(&[]).expect("no rank has failed");
    }

    /// Wraps the communicator.
    pub(crate) fn replace(&mut self, wrap: impl FnOnce(Box<dyn Communicator>, &Abort) -> Box<dyn Communicator>) {
        self.comm = wrap(self.give_away(), &self.abort);
    }

    /// The communicator; from now on this member has none.
    pub(crate) fn give_away(&mut self) -> Box<dyn Communicator> {
        let stand_in = Box::new(Nobody(self.comm.shape().clone()));
        std::mem::replace(&mut self.comm, stand_in)
    }

    pub(crate) fn rank(&self) -> u32 {
        self.comm.shape().rank
    }
}

/// Every backend that can run here without a launcher; those that need one are tested in `mpi`.
pub(crate) fn ready() -> Vec<&'static str> {
    let alone = comm::backends().filter(|backend| !backend.about().launched);
    let ready = alone.filter(|backend| matches!(backend.probe(), Readiness::Ready { .. }));
    ready.map(|backend| backend.about().name).collect()
}

/// How soon ranks must end once their aborts were raised.
const GRACE: Duration = Duration::from_secs(5);

/// What stands around a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapping {
    Plain,
    Threaded,
    Paced,
    /// As `comm::open` does it when both are asked for.
    ThreadedPaced,
    /// Paced around threaded, which stands for a paced backend that is asynchronous by itself.
    PacedThreaded,
    /// Seen by a hook, around a progress thread.
    Observed,
    /// Runs only what is waited for.
    Late,
}

pub(crate) const WRAPPINGS: [Wrapping; 7] = [
    Wrapping::Plain,
    Wrapping::Threaded,
    Wrapping::Paced,
    Wrapping::ThreadedPaced,
    Wrapping::PacedThreaded,
    Wrapping::Observed,
    Wrapping::Late,
];

// Fast enough for thousands of cases, slow enough to be the last to finish now and then.
const PACE: Pace = Pace { bandwidth: Bandwidth(2e10), latency: Seconds(20e-6) };

impl Wrapping {
    pub(crate) fn options(self, ranks: u32) -> Options {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Options {
            progress_thread: !matches!(self, Self::Plain | Self::Paced | Self::Late),
            pace: matches!(self, Self::Paced | Self::ThreadedPaced).then_some(PACE),
            oversubscribed: ranks > cores,
            ..Options::default()
        }
    }

    /// What `comm::open` does not put around a communicator.
    pub(crate) fn wrap(self, comm: Box<dyn Communicator>, abort: &Abort, options: &Options) -> Box<dyn Communicator> {
        match self {
            Self::PacedThreaded => Box::new(Paced::new(comm, PACE, abort.clone(), options)),
            Self::Observed => {
                let hook = Hook::new(comm.shape().rank, comm.clock(), Arc::new(OwnSlot::default()));
                Box::new(Observed::new(comm, Arc::new(hook)))
            }
            Self::Late => Box::new(Late::new(comm, abort.clone())),
            _ => comm,
        }
    }
}

/// As [`run`], on a wrapped backend.
pub(crate) fn run_wrapped(
    backend: &str,
    ranks: u32,
    wrapping: Wrapping,
    limit: Duration,
    body: impl Fn(&mut Member) + Sync,
) {
    let options = wrapping.options(ranks);
    run(backend, ranks, &options, limit, |member| {
        member.replace(|comm, abort| wrapping.wrap(comm, abort, &options));
        body(member);
    });
}

/// Runs `body` on every rank of a new world, each on a thread of its own, within `limit`.
pub(crate) fn run(backend: &str, ranks: u32, options: &Options, limit: Duration, body: impl Fn(&mut Member) + Sync) {
    let (bootstrap_abort, aborts) = (Abort::default(), Mutex::new(Vec::<Abort>::new()));
    let raise_all = || {
        bootstrap_abort.raise();
        aborts.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Abort::raise);
    };
    let rank_body = |mut bootstrap: ThreadBootstrap| {
        let (comm, abort) = comm::open(backend, &mut bootstrap, options).unwrap_or_else(|error| panic!("{error}"));
        aborts.lock().unwrap().push(abort.clone());
        body(&mut Member { comm, abort, bootstrap });
    };
    let first_failure = Mutex::new(None);
    let timed_out = std::thread::scope(|scope| {
        let (ended, endings) = channel();
        for bootstrap in comm::threads(ranks, &bootstrap_abort) {
            let (ended, rank_body, raise_all, first_failure) = (ended.clone(), &rank_body, &raise_all, &first_failure);
            scope.spawn(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| rank_body(bootstrap))) {
                    first_failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
                    raise_all();
                }
                ended.send(()).expect("the world waits");
            });
        }
        let left = received(&endings, ranks, limit);
        if left == 0 {
            return false;
        }
        raise_all();
        if received(&endings, left, GRACE) > 0 {
            give_up(&format!("{backend} x {ranks} neither ended in {limit:?} nor after an abort ({options:?})"));
        }
        true
    });
    assert!(!timed_out, "{backend} x {ranks} was not done after {limit:?} ({options:?})");
    if let Some(panic) = first_failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(panic);
    }
}

/// How many of `expected` messages do not come in time.
fn received(endings: &Receiver<()>, expected: u32, limit: Duration) -> u32 {
    let deadline = Instant::now() + limit;
    for left in (1..=expected).rev() {
        if endings.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            return left;
        }
    }
    0
}

/// A thread that hangs cannot be ended: without this the tests would hang with it.
#[expect(clippy::print_stderr, reason = "the process ends here, and this is why")]
fn give_up(why: &str) -> ! {
    eprintln!("{why}");
    std::process::abort()
}
