//! The contract between the coordinator and the ranks of a world: commands, replies, and verdicts.
//!
//! A world in processes is `launch`'s; one in threads of this process runs simulated backends; tests invent theirs.

use std::time::Duration;

use record::found::DeviceTimes;
use record::{Case, WrongElement};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terms::{Error, FieldError, Mode, Rank};
use trace::RankSteps;

use crate::{ClockFit, Clocks, Samples};

/// What the coordinator asks all ranks of a world to do. Every rank gets the same commands in the same order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Allocate and fill: be ready to sample this case. Ends the case before.
    Prepare {
        /// The case.
        case: Box<Case>,
        /// Whether calls are checked before any is sampled.
        check: bool,
    },
    /// Take samples.
    Sample(SampleRequest),
    /// Check what was sampled last.
    Check,
    /// Measure something other than the case.
    Probe(Probe),
    /// How the clock of each rank runs against that of rank 0, by rank; None where it is the same. From now on the instants
    /// that rank 0 tells are translated so. Sent only where ranks are on several hosts. Answered by no numbers.
    Clocks(Vec<Option<ClockFit>>),
    /// Tell what was seen so far, and keep the case prepared. Answered as [`Command::Finish`] is.
    Observe,
    /// End the case: free its memory and tell what was seen.
    Finish,
}

/// How many samples, of how many calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleRequest {
    /// How calls are timed.
    pub mode: Mode,
    /// Samples to take.
    pub samples: u32,
    /// Calls in each sample.
    pub calls: u32,
}

/// Measurements of something other than the case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Probe {
    /// Barrier latency: `samples` medians of short barrier bursts, in ns, and this rank's /proc counters
    /// (see [`Reply::Numbers`] in `measure::canary`).
    Canary,
    /// The limit of this machine for the prepared case: times in ns of one call's memory traffic by this variant, one a
    /// round; zero on a rank that moves nothing.
    Limit {
        /// Variant of [`Ready::limits`].
        variant: u32,
        /// How many times.
        rounds: u32,
    },
    /// `operations` calls with their entry and exit times, in ns of the host's clock: [begin, end, begin, end, ...].
    Arrivals {
        /// How many.
        operations: u32,
        /// How late ranks enter, one after the other: rank `k % ranks` waits so long before operation `k`.
        #[serde(default)]
        stagger_ns: u64,
    },
    /// Measurement overhead per sample and per call, in ns: [sample, call].
    Overhead,
    /// Steps of a case that can record them ([`Ready::records`]). Answered by [`Reply::Steps`].
    Steps {
        /// How many.
        steps: u32,
        /// Whether their spans are recorded; else only their durations are measured.
        record: bool,
    },
    /// Nothing is measured: warm-up is over, and the case begins again with fresh inputs. Sent only where ranks say that
    /// their calls are steps of one series ([`Ready::steps`]). Answered by no numbers.
    Begin,
}

/// What one rank answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To `Prepare`.
    Ready(Ready),
    /// To `Sample`: nanoseconds of each sample (all its calls).
    Samples(Vec<u64>),
    /// To `Check`.
    Checked(WrongReport),
    /// To `Probe`, and to `Clocks`.
    Numbers(Vec<f64>),
    /// To `Probe::Steps`.
    Steps(StepTimes),
    /// To `Observe` and `Finish`.
    Finished(Observations),
    /// The rank could not do it.
    Failed(Failure),
}

/// Steps that were made in addition to the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// Nanoseconds of each step.
    pub ns: Vec<u64>,
    /// What was recorded of them; empty where nothing was.
    pub recorded: RankSteps,
    /// Nanoseconds that recording one span takes on this rank; zero where nothing was recorded.
    pub span_ns: f64,
}

/// A rank is ready to sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Bytes that one call must move between memory and cores, over all ranks: the work of the limit probe.
    pub traffic_bytes: u64,
    /// Floating-point operations of one call, over all ranks.
    pub flops: f64,
    /// At most this many calls may run between two checks, so that values stay exact. Zero: no bound.
    pub max_calls: u64,
    /// What the time of a call is divided by, where it consists of several of what counts: 2 in a ping_pong, for its
    /// one-way messages; the operations that PyTorch's ranks have in flight together. Zero counts as one.
    pub messages: u32,
    /// Whether calls are steps of one series, each from where the last one ended (training): a sample is then one call,
    /// and no call is made other than warm-up and samples.
    #[serde(default)]
    pub steps: bool,
    /// Whether it can record the spans of its steps.
    #[serde(default)]
    pub records: bool,
    /// Names of the variants of the bare memory traffic that limits are measured with, the same on all ranks; none: there is no
    /// limit.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Which of several groups of ranks that call among themselves, and not with each other.
    #[serde(default)]
    pub group: u32,
    /// Nanoseconds that a sample lasts at least. Zero: as the clock and the barrier before a sample ask for.
    #[serde(default)]
    pub sample_ns: u64,
    /// Whether a model computes all times and no rank runs calls: what the first trial checked need not be checked again.
    #[serde(default)]
    pub modelled: bool,
    /// Elements that ranks get in a call and a check leaves out, over all ranks: there are more than can be compared.
    #[serde(default)]
    pub left_out: u64,
    /// Whether all calls take the same time, so that one sample tells it.
    #[serde(default)]
    pub constant: bool,
    /// Whether its device is a stand-in in memory of the host.
    #[serde(default)]
    pub emulated: bool,
    /// Whether another rank works on its device.
    #[serde(default)]
    pub shared_device: bool,
    /// Which path the backend takes.
    pub path: String,
    /// What the check before the first sample found.
    pub wrong: WrongReport,
}

/// Wrong elements on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WrongReport {
    /// How many.
    pub count: u64,
    /// Elements compared; a check that compared nothing proves nothing.
    pub compared: u64,
    /// The first few.
    pub first: Vec<WrongElement>,
}

/// What a rank saw while it ran a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observations {
    /// The most memory the rank held, in bytes (VmHWM; pages shared among ranks are in every rank's figure).
    pub peak_bytes: u64,
    /// Operations that the rank ran in this case, samples and all else.
    pub operations: u64,
    /// Isolated mode: samples in which this rank missed the agreed start.
    pub missed_starts: u64,
    /// Seconds in which a call of a sample was given to this rank's device, the mean; None where ranks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_s: Option<f64>,
    /// Seconds of a call by the clock of this rank's device, over its samples; None where ranks have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_s: Option<DeviceTimes>,
    /// Bytes of this rank's device that the communication library took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_bytes: Option<u64>,
    /// What the benchmark noted on this rank, for its own metrics.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// Why a rank could not obey. The rank itself goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What, why, and what to do.
    pub error: Error,
    /// Whether the machine lacks something (memory, a backend): the case is skipped, not failed.
    pub lacking: bool,
}

impl Failure {
    /// Something went wrong.
    pub fn new(what: impl std::fmt::Display) -> Self {
        Self { error: Error::new(what), lacking: false }
    }

    /// This machine lacks something.
    pub fn lacking(what: impl std::fmt::Display) -> Self {
        Self { error: Error::new(what), lacking: true }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, lacking: false }
    }
}

impl From<FieldError> for Failure {
    fn from(refused: FieldError) -> Self {
        refused.error.into()
    }
}

/// The rank's half: obeys commands.
pub trait RankSide {
    /// Does what the command says, and answers with the reply that belongs to it.
    fn obey(&mut self, command: &Command) -> Reply;
}

/// Why a world ended, or a case could not go on: who, where, in what, and who waited.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What kind of end.
    pub kind: VerdictKind,
    /// The ranks at fault, if known.
    pub ranks: Vec<Rank>,
    /// What happened and why in one sentence, and what to do about it: the case's reason.
    pub error: Error,
}

impl Verdict {
    /// A verdict that names no rank.
    pub fn new(kind: VerdictKind, error: impl Into<Error>) -> Self {
        Self { kind, ranks: Vec::new(), error: error.into() }
    }

    /// Sets the ranks at fault.
    #[must_use]
    pub fn ranks(self, ranks: impl IntoIterator<Item = u32>) -> Self {
        Self { ranks: ranks.into_iter().map(Rank).collect(), ..self }
    }
}

/// The kinds of verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// Ranks answered that they could not; the world lives.
    Refused,
    /// Ranks answered that this machine lacks something; the world lives.
    Lacking,
    /// A rank died. The world is gone.
    Died,
    /// The deadline passed or a heartbeat stopped. The world is gone.
    Hung,
    /// The user ended the run. The world is gone.
    Interrupted,
    /// The world never came up.
    NotStarted,
    /// The launcher's processes have been in a world that they can be in once only. Ranks that it starts later can form this one.
    NeedsRelaunch,
}

impl VerdictKind {
    /// Whether the world can take another command.
    pub const fn world_lives(self) -> bool {
        matches!(self, Self::Refused | Self::Lacking)
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.error.sentence())
    }
}

impl std::error::Error for Verdict {}

/// The ranks of one world, as the coordinator sees them. One method is required.
pub trait World {
    /// Sends the command to all ranks and waits for all replies, in rank order; none of them is [`Reply::Failed`].
    ///
    /// # Errors
    /// The verdict, when a rank fails, dies or hangs, or nothing arrives within `limit`.
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict>;

    /// From now on, ranks that do not move for so long have not stalled: a step may take that long.
    fn be_patient(&mut self, _for: Duration) {}

    /// Prepares a case.
    ///
    /// # Errors
    /// As [`World::command`].
    fn prepare(&mut self, case: &Case, check: bool, limit: Duration) -> Result<Vec<Ready>, Verdict> {
        let replies = self.command(&Command::Prepare { case: Box::new(case.clone()), check }, limit)?;
        collect(replies, |reply| if let Reply::Ready(ready) = reply { Some(ready) } else { None })
    }

    /// Takes samples.
    ///
    /// # Errors
    /// As [`World::command`].
    fn sample(&mut self, request: SampleRequest, limit: Duration) -> Result<Samples, Verdict> {
        let replies = self.command(&Command::Sample(request), limit)?;
        let samples = collect(replies, |reply| match reply {
            Reply::Samples(samples) if samples.len() == request.samples as usize => Some(samples),
            _ => None,
        })?;
        Ok(samples.into())
    }

    /// Checks what was sampled last.
    ///
    /// # Errors
    /// As [`World::command`].
    fn check(&mut self, limit: Duration) -> Result<Vec<WrongReport>, Verdict> {
        let replies = self.command(&Command::Check, limit)?;
        collect(replies, |reply| if let Reply::Checked(wrong) = reply { Some(wrong) } else { None })
    }

    /// Measures something other than the case.
    ///
    /// # Errors
    /// As [`World::command`].
    fn probe(&mut self, probe: Probe, limit: Duration) -> Result<Vec<Vec<f64>>, Verdict> {
        let replies = self.command(&Command::Probe(probe), limit)?;
        collect(replies, |reply| if let Reply::Numbers(numbers) = reply { Some(numbers) } else { None })
    }

    /// Makes steps in addition to the samples, and records them if asked.
    ///
    /// # Errors
    /// As [`World::command`].
    fn steps(&mut self, steps: u32, record: bool, limit: Duration) -> Result<Vec<StepTimes>, Verdict> {
        let replies = self.command(&Command::Probe(Probe::Steps { steps, record }), limit)?;
        collect(replies, |reply| match reply {
            Reply::Steps(times) if times.ns.len() == steps as usize => Some(times),
            _ => None,
        })
    }

    /// Compares the clocks of the hosts that ranks are on; not while ranks are at a command. None: they have one clock.
    fn clocks(&mut self) -> Option<Clocks> {
        None
    }

    /// What the ranks saw so far; the case stays prepared.
    ///
    /// # Errors
    /// As [`World::command`].
    fn observe(&mut self, limit: Duration) -> Result<Vec<Observations>, Verdict> {
        let replies = self.command(&Command::Observe, limit)?;
        collect(replies, |reply| if let Reply::Finished(observed) = reply { Some(observed) } else { None })
    }

    /// Ends the case.
    ///
    /// # Errors
    /// As [`World::command`].
    fn finish(&mut self, limit: Duration) -> Result<Vec<Observations>, Verdict> {
        let replies = self.command(&Command::Finish, limit)?;
        collect(replies, |reply| if let Reply::Finished(observed) = reply { Some(observed) } else { None })
    }
}

/// Every rank's reply in the form that was asked for; a rank that answers something else broke the protocol.
fn collect<T>(replies: Vec<Reply>, pick: impl Fn(Reply) -> Option<T>) -> Result<Vec<T>, Verdict> {
    let unexpected = |rank: usize| {
        let what = format!("rank {rank} answered with something that was not asked for");
        Verdict::new(VerdictKind::Died, what).ranks([rank as u32])
    };
    replies.into_iter().enumerate().map(|(rank, reply)| pick(reply).ok_or_else(|| unexpected(rank))).collect()
}

/// What decides in which rank processes a case runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorldSpec {
    /// Ranks.
    pub ranks: u32,
    /// The world's fields, as in [`Case::world`].
    pub fields: Map<String, Value>,
}

/// The field of a world whose ranks exchange nothing between hosts: each host's ranks are connected among themselves, so a
/// backend of one host serves, and no library that connects hosts is needed.
pub const APART: &str = "apart";

impl WorldSpec {
    /// Whether nothing connects its hosts: [`APART`].
    pub fn is_apart(&self) -> bool {
        self.fields.get(APART) == Some(&Value::Bool(true))
    }
}

/// Starts worlds.
pub trait Starter {
    /// Starts the ranks of a world and waits until they can take commands.
    ///
    /// # Errors
    /// The verdict, when they do not come up.
    fn start(&mut self, spec: &WorldSpec) -> Result<Box<dyn World>, Verdict>;

    /// Whether such a world starts in so little time that each round can have a new one, as far as is known.
    fn starts_quickly(&self, _spec: &WorldSpec) -> bool {
        true
    }

    /// Whether a world may be started while others are alive.
    fn several(&self) -> bool {
        true
    }
}
