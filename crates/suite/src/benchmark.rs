//! What a benchmark is: a name, what it declares, and a few functions. Only [`Prepared::run`] is ever timed.

use std::sync::Arc;

use comm::Communicator;
use measure::{Failure, WrongReport};
use record::{About, Case};
use serde_json::{Map, Value};
use trace::{Clock, Hook};

/// A kind of measurement.
pub trait Benchmark: Sync {
    /// What it says of itself.
    fn about(&self) -> &'static About;

    /// Bytes that the buffers of a case hold on this host, over all ranks. Checked against the machine before any rank
    /// allocates.
    fn memory(&self, case: &Case) -> u64;

    /// Allocates and fills what a case needs. Runs on every rank; collective.
    ///
    /// # Errors
    /// What could not be had.
    fn prepare(&self, case: &Case, rank: &mut RankContext) -> Result<Box<dyn Prepared>, Failure>;

    /// The declared metrics of a case whose call takes `median_s`; `limit_s` is the time at the machine's limit.
    fn metrics(&self, case: &Case, median_s: f64, limit_s: Option<f64>) -> Map<String, Value>;
}

/// Bytes and arithmetic of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Bytes that this rank cannot avoid to read and write.
    pub traffic_bytes: u64,
    /// Floating-point operations of this rank.
    pub flops: f64,
    /// One-way messages, one after the other, that a call consists of, where the time of one is what counts: 2 in a
    /// ping_pong. Zero counts as one.
    pub messages: u32,
    /// Calls in a row after which results are still exact; `u64::MAX` for any number.
    pub max_calls: u64,
}

/// A case, ready on one rank.
pub trait Prepared {
    /// One call. The only timed code: it neither logs nor checks.
    ///
    /// # Errors
    /// What the communicator says.
    fn run(&mut self, comm: &mut dyn Communicator) -> comm::Result<()>;

    /// Fresh inputs, as before the first call. No operation is in flight on any rank.
    fn refill(&mut self);

    /// Compares every element with what `calls` calls since the last refill must have left.
    fn check(&mut self, calls: u64) -> WrongReport;

    /// Bytes and arithmetic of one call on this rank.
    fn work(&self) -> Work;

    /// Which path the backend takes.
    fn path(&self, comm: &dyn Communicator) -> String;

    /// Runs variant `variant` of the work's bare memory traffic once on this rank, and gives the bytes that it read and
    /// wrote; None when there is no such variant. Leaves the buffers' contents undefined: a refill follows.
    fn limit(&mut self, variant: usize) -> Option<u64>;
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
}
