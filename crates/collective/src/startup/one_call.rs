//! A communicator with the buffers of one call: what a stage measures a call on, or shows that it can communicate with.

use contract::{Prepared, RankContext};
use measure::{Failure, WrongReport};

use crate::parameters::Parameters;
use crate::prepared;

/// A call on a communicator of its own.
pub(super) struct OneCall {
    /// Ends before the communicator that its buffers are of.
    collective: Box<dyn Prepared>,
    context: RankContext,
}

impl OneCall {
    /// Allocates and fills. Collective.
    ///
    /// # Errors
    /// What could not be had.
    pub(super) fn new(call: Parameters, mut context: RankContext) -> Result<Self, Failure> {
        let collective = prepared::prepare(call, &mut context)?;
        Ok(Self { collective, context })
    }

    /// Makes the call.
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        self.collective.run(&mut *self.context.comm)
    }

    /// Waits until it is complete.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        self.collective.drain(&mut *self.context.comm)
    }

    /// Fresh inputs.
    pub(super) fn refill(&mut self) {
        self.collective.refill();
    }

    /// Compares every element with what so many calls since the last refill must have left.
    pub(super) fn check(&mut self, calls: u64) -> Result<WrongReport, Failure> {
        self.collective.check(&mut *self.context.comm, calls)
    }

    /// Makes a call from fresh inputs, and compares. Collective.
    pub(super) fn prove(&mut self) -> Result<WrongReport, Failure> {
        self.refill();
        self.run()?;
        self.drain()?;
        self.check(1)
    }

    /// Which path the backend takes.
    pub(super) fn path(&self) -> String {
        self.collective.path(&*self.context.comm)
    }
}
