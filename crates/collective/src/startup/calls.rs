//! The first call on a communicator, and later ones.

use comm::Communicator;
use contract::{Prepared, RankContext, Seat, Work, failure};
use measure::{Failure, WrongReport};

use super::one_call::OneCall;
use crate::parameters::Parameters;
use crate::prepared;

/// The first call of its kind in fresh processes: on the communicator of all ranks.
struct Cold {
    collective: Box<dyn Prepared>,
}

/// Allocates and fills. Collective.
pub(super) fn cold(call: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Cold { collective: prepared::prepare(call, context)? }))
}

impl Prepared for Cold {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.collective.run(comm)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.collective.drain(comm)
    }

    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {
        self.collective.refill();
    }

    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.collective.check(comm, calls)
    }

    /// No check of fresh inputs comes before the call that is timed: it would be the first.
    fn work(&self) -> Work {
        Work { max_calls: 1, steps: true, ..Work::default() }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.collective.path(comm)
    }
}

/// A call on a communicator that was opened for it, or on one that has made such calls.
struct Warm {
    /// Ends before the communicator that its own was split from.
    call: Option<OneCall>,
    parent: Box<dyn Communicator>,
    parameters: Parameters,
    seat: Seat,
    /// Whether each call is the first on a communicator.
    first: bool,
    /// Why the last refill could not open one.
    failed: Option<Failure>,
}

/// Each call is the first on a communicator. Collective.
pub(super) fn first(parameters: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    warm(parameters, context, true)
}

/// Each call follows others on the same communicator. Collective.
pub(super) fn later(parameters: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    warm(parameters, context, false)
}

fn warm(parameters: Parameters, context: &mut RankContext, first: bool) -> Result<Box<dyn Prepared>, Failure> {
    let (parent, seat) = (context.another()?, context.seat());
    let mut warm = Warm { call: None, parent, parameters, seat, first, failed: None };
    let mut call = warm.open()?;
    if !first {
        call.run()?;
        call.drain()?;
        call.refill();
    }
    warm.call = Some(call);
    Ok(Box::new(warm))
}

impl Warm {
    /// A communicator of all ranks, on which no call was made. Collective.
    fn open(&mut self) -> Result<OneCall, Failure> {
        let rank = self.parent.shape().rank;
        let comm = self.parent.split(Some(0), rank).map_err(failure)?;
        let comm = comm.ok_or_else(|| Failure::new("a communicator of all ranks lacks this one"))?;
        OneCall::new(self.parameters.clone(), self.seat.with(comm))
    }

    fn call(&mut self) -> Result<&mut OneCall, Failure> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.call.as_mut().ok_or_else(|| Failure::new("no communicator is open"))
    }
}

impl Prepared for Warm {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.call()?.run()
    }

    fn drain(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.call()?.drain()
    }

    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {
        if !self.first {
            return self.call.iter_mut().for_each(OneCall::refill);
        }
        self.call = None;
        match self.open() {
            Ok(call) => self.call = Some(call),
            Err(failed) => self.failed = Some(failed),
        }
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.call()?.check(calls)
    }

    fn work(&self) -> Work {
        Work { max_calls: 1, checks: 1, steps: true, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        self.call.as_ref().map_or_else(String::new, OneCall::path)
    }
}
