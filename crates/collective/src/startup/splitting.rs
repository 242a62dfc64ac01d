//! Opening one more communicator of all ranks, beside others that are open.

use comm::Communicator;
use contract::{Prepared, RankContext, Seat, Work, failure};
use measure::{Failure, WrongReport};

use super::fields::Start;
use super::one_call::OneCall;
use crate::parameters::Parameters;

/// One more communicator.
struct Split {
    /// Shows that the last one can communicate. Ends before it.
    call: Option<OneCall>,
    made: Option<Box<dyn Communicator>>,
    /// Communicators that are open all the time.
    _open: Vec<Box<dyn Communicator>>,
    parameters: Parameters,
    seat: Seat,
    /// Whether the first one that is timed is the first of its processes.
    cold: bool,
}

/// Opens so many. Collective.
pub(super) fn prepare(
    parameters: Parameters,
    open: u32,
    start: Start,
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let open = (0..open).map(|_| context.another()).collect::<Result<Vec<_>, Failure>>()?;
    let (seat, cold) = (context.seat(), start == Start::Cold);
    Ok(Box::new(Split { call: None, made: None, _open: open, parameters, seat, cold }))
}

impl Prepared for Split {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let rank = comm.shape().rank;
        self.made = comm.split(Some(0), rank).map_err(failure)?;
        Ok(())
    }

    fn launches(&self) -> bool {
        false
    }

    /// The last one is closed.
    fn refill(&mut self) {
        (self.call, self.made) = (None, None);
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        if let Some(made) = self.made.take() {
            self.call = Some(OneCall::new(self.parameters.clone(), self.seat.with(made))?);
        }
        match &mut self.call {
            Some(call) => call.prove(),
            None if calls == 0 => Ok(WrongReport::default()),
            None => Err(Failure::new("a communicator of all ranks lacks this one")),
        }
    }

    fn work(&self) -> Work {
        Work { max_calls: 1, checks: u32::from(!self.cold), steps: true, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "split of the world".to_owned()
    }
}
