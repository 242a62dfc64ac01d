//! Worlds in threads with wrapped communicators: by a backend that does something wrong, or that is late.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use benchmarks::{Joining, RankContext, RankWork};
use comm::{Abort, Bootstrap, Call, Communicator, Observed, Options, Shape, Ticket, Wait};
use device::{Queue, Region};
use engine::cores::run_on;
use measure::{CaseRun, Clocks, Command, RankSide, Reply, Round, Settings, Trial, Verdict, VerdictKind, World};
use record::{Case, CaseLine};
use terms::Space;
use trace::{Clock, Hook, OwnSlot};

/// Wraps the communicator of a rank.
pub(crate) type Wrap = Arc<dyn Fn(u32, Box<dyn Communicator>) -> Box<dyn Communicator> + Send + Sync>;

/// A communicator that lets something else run its calls.
pub(crate) struct Instead<F> {
    inner: Box<dyn Communicator>,
    run: F,
}

impl<F: FnMut(&mut dyn Communicator, &Call) -> comm::Result<()> + Send + 'static> Instead<F> {
    pub(crate) fn boxed(inner: Box<dyn Communicator>, run: F) -> Box<dyn Communicator> {
        Box::new(Self { inner, run })
    }
}

impl<F: FnMut(&mut dyn Communicator, &Call) -> comm::Result<()> + Send> Communicator for Instead<F> {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }
    fn alloc(&mut self, bytes: usize, space: Space) -> comm::Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }
    fn start(&mut self, group: &[Call], after: &Queue) -> comm::Result<Ticket> {
        self.inner.start(group, after)
    }
    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> comm::Result<bool> {
        self.inner.finish(ticket, how)
    }
    fn split(&mut self, color: Option<u32>, key: u32) -> comm::Result<Option<Box<dyn Communicator>>> {
        self.inner.split(color, key)
    }
    fn clock(&self) -> Clock {
        self.inner.clock()
    }
    fn run(&mut self, call: &Call) -> comm::Result<()> {
        (self.run)(&mut *self.inner, call)
    }
}

pub(crate) struct Wrapped {
    commands: Vec<Sender<Command>>,
    replies: Vec<Receiver<Reply>>,
    threads: Vec<JoinHandle<()>>,
    /// What comparing clocks is to give; None: ranks have one.
    pub(crate) clocks: Option<Clocks>,
}

impl Wrapped {
    /// Ranks that share cores, wherever they run.
    pub(crate) fn start(backend: &'static str, ranks: u32, wrap: Wrap) -> Self {
        Self::open(backend, ranks, wrap, true)
    }

    /// Ranks that share cores; nothing is wrapped.
    pub(crate) fn shared(backend: &'static str, ranks: u32) -> Self {
        Self::start(backend, ranks, Arc::new(|_, comm| comm))
    }

    /// Ranks with a core each, as `launch` binds them; nothing is wrapped.
    pub(crate) fn pinned(backend: &'static str, ranks: u32) -> Self {
        Self::open(backend, ranks, Arc::new(|_, comm| comm), false)
    }

    fn open(backend: &'static str, ranks: u32, wrap: Wrap, oversubscribed: bool) -> Self {
        let mut world = Self { commands: Vec::new(), replies: Vec::new(), threads: Vec::new(), clocks: None };
        for mut bootstrap in comm::threads(ranks, &Abort::default()) {
            let ((commands, inbox), (outbox, replies)) = (channel(), channel());
            let wrap = wrap.clone();
            world.threads.push(std::thread::spawn(move || {
                let rank = bootstrap.place().rank;
                let cores = measure::machine::allowed_cpus();
                if !oversubscribed {
                    run_on(&[cores[rank as usize % cores.len()]]);
                }
                let options = Options { oversubscribed, ..Options::default() };
                let (comm, abort) = comm::open(backend, &mut bootstrap, &options).expect("the backend opens");
                let comm = wrap(rank, comm);
                let clock = comm.clock();
                let hook = Arc::new(Hook::new(rank, clock.clone(), Arc::new(OwnSlot::default())));
                let comm = Box::new(Observed::new(comm, hook.clone()));
                let context = RankContext {
                    rank,
                    ranks,
                    host: String::new(),
                    index: rank,
                    comm,
                    hook,
                    clock,
                    abort,
                    options,
                    cores,
                    joining: Joining::default(),
                };
                let mut work = RankWork::new(context).expect("a few bytes");
                while let Ok(command) = inbox.recv() {
                    if outbox.send(work.obey(&command)).is_err() {
                        return;
                    }
                }
            }));
            world.commands.push(commands);
            world.replies.push(replies);
        }
        world
    }

    /// Runs the case once, and gives what came of it with its line.
    pub(crate) fn trial(&mut self, case: &Case) -> (Trial, CaseLine) {
        let simulated = benchmarks::is_simulated(case);
        let mut run = CaseRun::new(case, Settings { trials: Some(1), ..Settings::from_case(case) }, simulated);
        run.visit(self, Round::default(), &mut |_, _| {}).unwrap_or_else(|verdict| {
            panic!("{}: {verdict}", serde_json::to_string(&case.parameters).unwrap_or_default())
        });
        let about = measure::Circumstances { oversubscribed: false, simulated, virtualised: false, open: false };
        let line = measure::case_line(&run, about);
        (run.trials.remove(0), line)
    }
}

impl World for Wrapped {
    fn command(&mut self, command: &Command, _limit: Duration) -> Result<Vec<Reply>, Verdict> {
        self.commands.iter().for_each(|rank| rank.send(command.clone()).expect("the rank lives"));
        let replies: Vec<Reply> = self.replies.iter().map(|rank| rank.recv().expect("the rank lives")).collect();
        match replies.iter().find_map(|reply| if let Reply::Failed(failure) = reply { Some(failure) } else { None }) {
            Some(failure) => {
                let message = failure.error.on_one_line();
                Err(Verdict::new(VerdictKind::Refused, message))
            }
            None => Ok(replies),
        }
    }

    fn clocks(&mut self) -> Option<Clocks> {
        self.clocks.clone()
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        self.commands.clear();
        self.threads.drain(..).for_each(|thread| thread.join().expect("no rank panicked"));
    }
}
