//! What a benchmark is: a name, what it declares, and a few functions. Only [`Prepared::run`] is ever timed.

use std::sync::Arc;

use comm::{Abort, Communicator, Options};
use measure::{Failure, StepTimes, Trial, WrongReport};
use record::{About, Case, CaseLine, Limit, Plan, TimeSummary};
use serde_json::{Map, Value};
use terms::Collective;
use trace::{Clock, Hook};
use view::View;

use crate::{Host, Modelled};

/// A kind of measurement.
pub trait Benchmark: Sync {
    /// What it says of itself.
    fn about(&self) -> &'static About;

    /// Bytes that the buffers of a case hold on this host, over all ranks. Checked against the machine before any rank
    /// allocates.
    fn memory(&self, case: &Case) -> u64;

    /// Bytes that a call goes through, over all ranks, wherever they lie.
    fn working_set(&self, case: &Case) -> u64 {
        self.memory(case)
    }

    /// Allocates and fills what a case needs. Runs on every rank; collective.
    ///
    /// # Errors
    /// What could not be had.
    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure>;

    /// Whether times of the case follow from its operation alone, where its backend has a model ([`crate::has_model`]). Ranks are
    /// then not started.
    fn is_modelled(&self, _case: &Case) -> bool {
        false
    }

    /// A case whose times a model computes, for all of its ranks.
    ///
    /// # Errors
    /// What could not be had; always where it is not one of these.
    fn modelled(&self, _case: &Case) -> Result<Box<dyn Modelled>, Failure> {
        Err(Failure::new("times of this benchmark are those of ranks"))
    }

    /// Whether the case is answered by [`Benchmark::predicted`] alone: it has more ranks than this host can usefully start,
    /// and what it asks for is known without them.
    fn is_planned(&self, _case: &Case, _host: &Host) -> bool {
        false
    }

    /// Completes a plan by what follows from its cases of this benchmark: may drop cases that are the same computation, add
    /// cases that others are compared with, and bring those before them. The same plan gives the same cases.
    fn complete(&self, _plan: &mut Plan) {}

    /// Whether the case can run on this host, beyond what holds for every benchmark.
    ///
    /// # Errors
    /// The reason to skip it.
    fn admit(&self, _case: &Case, _host: &Host) -> Result<(), String> {
        Ok(())
    }

    /// Whether calls are steps of one series, which the ranks keep prepared from one trial to the next.
    fn keeps_prepared(&self) -> bool {
        false
    }

    /// Whether each trial needs rank processes that were started for it, and that run nothing else.
    fn needs_new_ranks(&self, _case: &Case) -> bool {
        false
    }

    /// Time that trials of the case take beyond their sampling time. The estimate of a run counts it.
    fn trial_cost(&self, _case: &Case) -> TrialCost {
        TrialCost::default()
    }

    /// Cores that the case's ranks keep busy.
    fn cores_wanted(&self, case: &Case) -> usize {
        crate::cores_wanted(case.ranks(), &case.world)
    }

    /// Whether the case's ranks run phases of steps that an injected fault can delay.
    fn has_phases(&self, _case: &Case) -> bool {
        false
    }

    /// The rank that rank 0 exchanges messages with, where a case's calls go between these two alone.
    fn peer(&self, _case: &Case) -> Option<u32> {
        None
    }

    /// The operation of a call and its bytes, as traces show them.
    fn operation(&self, _case: &Case) -> (Collective, u64) {
        (Collective::Barrier, 0)
    }

    /// Bytes that each rank must send to others in a call, by any algorithm: what a link bounds. 0: none, or not known.
    fn sent(&self, _case: &Case) -> f64 {
        0.0
    }

    /// Bytes that the link of one host must carry in one direction in a call, by any algorithm, where ranks are on these hosts: what
    /// bounds calls across hosts. None where the benchmark does not know. `hosts`: the host of each rank.
    fn between_hosts(&self, _case: &Case, _hosts: &[u32]) -> Option<f64> {
        None
    }

    /// The declared metrics of a measured case.
    fn metrics(&self, case: &Case, measured: &Measured<'_>) -> Map<String, Value>;

    /// The declared metrics of a case that this machine cannot run: those that follow from its fields alone.
    fn predicted(&self, _case: &Case) -> Map<String, Value> {
        Map::new()
    }

    /// Why a measured case has failed for another reason than wrong elements: what only all ranks together show. Without trials:
    /// why a planned one has.
    fn fault(&self, _case: &Case, _trials: &[Trial]) -> Option<String> {
        None
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

/// Time of a case's trials that is known before the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialCost {
    /// Least seconds of a sample.
    pub sample_s: f64,
    /// Seconds around each sample that are not timed.
    pub around_s: f64,
    /// Seconds of each trial apart from its samples.
    pub trial_s: f64,
    /// Seconds that a trial may take in addition: the upper end of the estimate counts them.
    pub more_s: f64,
}

/// What a line says in relation to the others of its run.
pub type Relations<'a> = Box<dyn Fn(&CaseLine) -> Map<String, Value> + 'a>;

/// Measures on after the plan's cases: each time it is asked, it sees all lines so far and gives the next cases.
pub trait Study {
    /// The next cases; none when the study is over.
    fn next(&mut self, done: &[CaseLine]) -> Vec<Case>;
}

/// What a case's trials gave.
pub struct Measured<'a> {
    /// Seconds of one call.
    pub times: &'a TimeSummary,
    /// The machine's limit, where it was measured.
    pub limit: Option<&'a Limit>,
    /// Operations a second of the case's type on its devices together, by the profile of the machine that the case names.
    pub peak: Option<(f64, &'a str)>,
    /// All trials.
    pub trials: &'a [Trial],
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
