//! Joining: what took place when the ranks' processes began, and the same again between ranks that have joined.

use comm::{Communicator, Options, RankPlacement};
use contract::{Joining, Prepared, RankContext, Seat, Work, failure};
use measure::{Failure, Trial, WrongReport};
use serde_json::{Map, Value};

use super::one_call::OneCall;
use super::over::Over;
use crate::parameters::Parameters;
use crate::prepared;

/// What a rank notes of its joining.
const OPENED_NS: &str = "opened_ns";

/// The joining of this rank's process, which is over; and the communicator that came of it.
struct JoinedProcess {
    joining: Joining,
    collective: Box<dyn Prepared>,
}

/// Prepares the call that shows that ranks can communicate. Collective.
pub(super) fn joined(call: Parameters, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let joining = context.joining;
    Ok(Box::new(JoinedProcess { joining, collective: prepared::prepare(call, context)? }))
}

impl Prepared for JoinedProcess {
    /// Ranks have joined before there was a case.
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        Ok(())
    }

    fn past_ns(&self) -> Option<u64> {
        Some(self.joining.waited_ns + self.joining.opened_ns)
    }

    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {}

    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        if calls == 0 {
            return Ok(WrongReport::default());
        }
        self.collective.refill();
        self.collective.run(comm)?;
        self.collective.drain(comm)?;
        self.collective.check(comm, 1)
    }

    fn work(&self) -> Work {
        Work { max_calls: 1, steps: true, ..Work::default() }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.collective.path(comm)
    }

    fn details(&mut self) -> Map<String, Value> {
        Map::from_iter([(OPENED_NS.to_owned(), self.joining.opened_ns.into())])
    }
}

/// Seconds of the slowest rank in the backend: the median over trials. None where ranks noted nothing.
pub(super) fn open_s(trials: &[Trial]) -> Option<f64> {
    let slowest =
        |trial: &Trial| trial.details.iter().filter_map(|rank| rank.get(OPENED_NS)?.as_f64()).reduce(f64::max);
    let opened: Vec<f64> = trials.iter().filter_map(slowest).map(|ns| ns / 1e9).collect();
    (!opened.is_empty()).then(|| stats::median(&opened))
}

/// Joining again, over the ranks' own communicator.
struct Again {
    /// Shows that what was opened last can communicate. Ends before that.
    call: Option<OneCall>,
    opened: Option<Box<dyn Communicator>>,
    parameters: Parameters,
    backend: String,
    options: Options,
    place: RankPlacement,
    seat: Seat,
}

/// Finds the places of ranks. Collective.
pub(super) fn again(
    parameters: Parameters,
    backend: String,
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let (options, seat) = (context.options.clone(), context.seat());
    let place = Over::placed(&mut *context.comm, &context.host).map_err(failure)?;
    Ok(Box::new(Again { call: None, opened: None, parameters, backend, options, place, seat }))
}

impl Prepared for Again {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let mut over = Over::new(comm, self.place.clone());
        let (opened, _) = comm::open(&self.backend, &mut over, &self.options).map_err(failure)?;
        self.opened = Some(opened);
        Ok(())
    }

    fn launches(&self) -> bool {
        false
    }

    /// What was joined is left.
    fn refill(&mut self) {
        (self.call, self.opened) = (None, None);
    }

    fn check(&mut self, _comm: &mut dyn Communicator, _calls: u64) -> Result<WrongReport, Failure> {
        if let Some(opened) = self.opened.take() {
            self.call = Some(OneCall::new(self.parameters.clone(), self.seat.with(opened))?);
        }
        self.call.as_mut().map_or_else(|| Ok(WrongReport::default()), OneCall::prove)
    }

    fn work(&self) -> Work {
        Work { max_calls: 1, checks: 1, steps: true, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "joined again".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_rank_of_each_trial_counts() {
        let trial = |opened: &[u64]| {
            let rank = |ns: &u64| Map::from_iter([(OPENED_NS.to_owned(), Value::from(*ns))]);
            Trial { details: opened.iter().map(rank).collect(), ..Trial::default() }
        };
        let trials = [trial(&[1_000, 3_000]), trial(&[9_000, 2_000]), trial(&[5_000, 5_000])];
        assert_eq!(open_s(&trials), Some(5e-6));
        assert_eq!(open_s(&[Trial::default()]), None);
    }
}
