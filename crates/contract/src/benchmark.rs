//! What a benchmark is: a name, what it declares, and how it reads a case. Only [`Prepared::run`] is ever timed.

use std::sync::Arc;

use comm::{Abort, Communicator, Options};
use measure::{Failure, StepTimes, WrongReport};
use record::{About, Case, CaseLine, Plan};
use serde_json::{Map, Value};
use trace::{Clock, Hook};
use view::View;

use crate::{Host, ParsedCase};

/// A kind of measurement.
pub trait Benchmark: Sync {
    /// What it says of itself.
    fn about(&self) -> &'static About;

    /// Reads the values of a case of this benchmark. Questions about this one case are methods of the result.
    ///
    /// # Errors
    /// A value that cannot be read: a case that was checked has none.
    fn parse(&self, case: &Case) -> Result<Box<dyn ParsedCase>, Failure>;

    /// Completes a plan by what follows from its cases of this benchmark: may drop cases that are the same computation, add
    /// cases that others are compared with, and bring those before them. The same plan gives the same cases.
    fn complete(&self, _plan: &mut Plan) {}

    /// Whether calls are steps of one series, which the ranks keep prepared from one trial to the next.
    fn keeps_prepared(&self) -> bool {
        false
    }

    /// Metrics of cases that need other cases of the run: the efficiency against fewer ranks, say. `all` are the run's lines
    /// that are ok. Asked once, when the run is over; the function that it returns is called with each of them.
    fn relations<'a>(&self, _all: &[&'a CaseLine]) -> Relations<'a> {
        Box::new(|_| Map::new())
    }

    /// Cases to record steps of once all are measured, because these lines leave open why they are slow: by identity. `all` are
    /// the run's lines that are ok.
    fn unexplained(&self, _all: &[&CaseLine]) -> Vec<String> {
        Vec::new()
    }

    /// Charts and findings of its own, in addition to what it declares.
    fn view(&self) -> Option<&'static dyn View> {
        None
    }

    /// The search that these cases of a plan ask for, if any: what it measures next depends on what was measured.
    fn study(&self, _cases: &[&Case], _host: &Host) -> Option<Box<dyn Study>> {
        None
    }
}

/// What a line says in relation to the others of its run.
pub type Relations<'a> = Box<dyn Fn(&CaseLine) -> Map<String, Value> + 'a>;

/// Measures on after the plan's cases: each time it is asked, it sees all lines so far and gives the next cases.
pub trait Study {
    /// The next cases; none when the study is over.
    fn next(&mut self, done: &[CaseLine]) -> Vec<Case>;
}

/// Bytes and arithmetic of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes that this rank cannot avoid to read and write.
    pub traffic_bytes: u64,
    /// Floating-point operations of this rank.
    pub flops: f64,
    /// What the time of a call is divided by, where it consists of several of what counts: 2 in a ping_pong, for its
    /// one-way messages. Zero counts as one.
    pub messages: u32,
    /// Calls in a row after which results are still exact; `u64::MAX` for any number.
    pub max_calls: u64,
    /// Copies of the buffers that calls rotate through: a check from fresh inputs calls once for each. Zero counts as one.
    pub copies: u64,
    /// Checks from fresh inputs before a case is timed and after each trial, the same on all ranks.
    pub checks: u32,
    /// Whether calls are steps of one series, see [`measure::Ready::steps`].
    pub steps: bool,
    /// Which of several groups of ranks that call among themselves this rank is in.
    pub group: u32,
    /// Nanoseconds that a sample lasts at least, where its calls alone must not say so: what runs beside them has units of some
    /// milliseconds. Zero: as the clock and the barrier before a sample ask for.
    pub sample_ns: u64,
}

/// A case, ready on one rank.
pub trait Prepared {
    /// One call. The only timed code: it neither logs nor checks.
    ///
    /// # Errors
    /// What the communicator says, or the work itself.
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure>;

    /// Waits until all calls so far are complete, where [`Prepared::run`] only gives them to a device. Timed, at a sample's end.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    fn drain(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether [`Prepared::run`] only gives calls to a device, where there is one, so that the time until then is that of launching.
    fn launches(&self) -> bool {
        true
    }

    /// Nanoseconds that count as a sample in place of the calls' time: those of what took place before any call, as the joining
    /// of this rank did.
    fn past_ns(&self) -> Option<u64> {
        None
    }

    /// Nanoseconds that a rank computes before each call of `decode` mode. Not timed.
    fn compute_ns(&self) -> u64 {
        0
    }

    /// Begins what runs beside the calls of a batch, and returns once it runs. Not timed. False: nothing does.
    ///
    /// # Errors
    /// What could not begin.
    fn begin_beside(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Ends it, once the calls are complete on all ranks. Not timed.
    ///
    /// # Errors
    /// What went wrong beside the calls.
    fn end_beside(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Fresh inputs, as before the first call. No operation is in flight on any rank.
    fn refill(&mut self);

    /// Compares every element with what `calls` calls since the last refill must have left. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure>;

    /// Bytes and arithmetic of one call on this rank.
    fn work(&self) -> Work;

    /// Which path the backend takes.
    fn path(&self, comm: &dyn Communicator) -> String;

    /// Names of the variants of the work's bare memory traffic, the same on all ranks; none: there is no limit to hold the
    /// case against.
    fn limits(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs a variant of the work's bare memory traffic once on this rank, and gives the bytes that it stands for; None
    /// where this rank has none. `round` counts what all ranks do together: where ranks must not move data at once, it
    /// tells who does. Leaves the buffers' contents undefined: a refill follows.
    fn limit(&mut self, _variant: usize, _round: u32) -> Option<u64> {
        None
    }

    /// Whether it can record the spans of its steps.
    fn records(&self) -> bool {
        false
    }

    /// Makes steps that are not samples, and records their spans if asked. Collective.
    ///
    /// # Errors
    /// As [`Prepared::run`]; always where it does not record.
    fn steps(&mut self, _comm: &mut dyn Communicator, _steps: u32, _record: bool) -> Result<StepTimes, Failure> {
        Err(Failure::new("this benchmark records no steps"))
    }

    /// What it noted on this rank since it began, for the benchmark's metrics.
    fn details(&mut self) -> Map<String, Value> {
        Map::new()
    }
}

/// What a rank has, for all cases of its world.
pub struct RankContext {
    /// This rank.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// The world's communicator, behind the operation hook.
    pub comm: Box<dyn Communicator>,
    /// The hook, to arm faults and record spans.
    pub hook: Arc<Hook>,
    /// The clock that samples are taken with.
    pub clock: Clock,
    /// Ends the communicator's waits.
    pub abort: Abort,
    /// How the communicator was opened.
    pub options: Options,
    /// The name of its host.
    pub host: String,
    /// Which of its host's ranks it is, from 0.
    pub index: u32,
    /// The cores that ranks of this host may use, ascending.
    pub cores: Vec<u32>,
    /// How long this rank took to join the others.
    pub joining: Joining,
}

/// How long a rank took to join the others of its world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joining {
    /// Nanoseconds until the last rank had begun, too.
    pub waited_ns: u64,
    /// Nanoseconds from then on until the backend was open on this rank.
    pub opened_ns: u64,
}

/// What a rank has besides its communicator.
#[derive(Clone)]
pub struct Seat {
    rank: u32,
    ranks: u32,
    hook: Arc<Hook>,
    clock: Clock,
    abort: Abort,
    options: Options,
    host: String,
    index: u32,
    cores: Vec<u32>,
    joining: Joining,
}

impl Seat {
    /// This rank with another communicator of all ranks.
    pub fn with(&self, comm: Box<dyn Communicator>) -> RankContext {
        let Self { rank, ranks, hook, clock, abort, options, host, index, cores, joining } = self.clone();
        RankContext { rank, ranks, comm, hook, clock, abort, options, host, index, cores, joining }
    }
}

impl RankContext {
    /// What the rank has besides its communicator.
    pub fn seat(&self) -> Seat {
        Seat {
            rank: self.rank,
            ranks: self.ranks,
            hook: self.hook.clone(),
            clock: self.clock.clone(),
            abort: self.abort.clone(),
            options: self.options.clone(),
            host: self.host.clone(),
            index: self.index,
            cores: self.cores.clone(),
            joining: self.joining,
        }
    }

    /// A further communicator of all ranks, in the same order. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    pub fn another(&mut self) -> Result<Box<dyn Communicator>, Failure> {
        whole(self.comm.split(Some(0), self.rank))
    }

    /// A further communicator of all ranks, for another thread of this rank: its operations neither stand on the status page nor
    /// are injected into. Collective.
    ///
    /// # Errors
    /// What the communicator says.
    pub fn another_unwatched(&mut self) -> Result<Box<dyn Communicator>, Failure> {
        whole(self.comm.split_unwatched(Some(0), self.rank))
    }

    /// The cores of this rank's threads, by its place on its host: its own first, as ranks are bound, then those that follow.
    pub fn thread_cores(&self, threads: usize) -> Vec<u32> {
        if self.cores.is_empty() {
            return Vec::new();
        }
        let first = self.index as usize * threads;
        (0..threads).map(|thread| self.cores[(first + thread) % self.cores.len()]).collect()
    }
}

/// A split that every rank is a member of.
fn whole(split: comm::Result<Option<Box<dyn Communicator>>>) -> Result<Box<dyn Communicator>, Failure> {
    split.map_err(failure)?.ok_or_else(|| Failure::new("a communicator of all ranks lacks this one"))
}

/// A communicator's error, as it is reported to the coordinator.
#[cold]
pub fn failure(error: comm::Error) -> Failure {
    match error {
        comm::Error::OutOfMemory { .. } => Failure::lacking(error.to_string()),
        comm::Error::Unsupported { .. } => Failure::lacking(error.to_string()),
        _ => Failure::new(error.to_string()),
    }
}
