//! What runs beside the calls, as the rank's own thread sees it: it begins before they are timed, and ends after them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use contract::{ParsedCase, RankContext};
use measure::{Failure, Trial, WrongReport};
use serde_json::{Map, Value};

use super::fields::Activity;
use super::steady::{Order, ServedAnswer, serve};

/// What a rank notes: units that ran, and their nanoseconds.
const UNITS: &str = "units";
const UNITS_NS: &str = "units_ns";

/// An activity on a thread of its own.
pub(super) struct Alongside {
    orders: Option<Sender<Order>>,
    answers: Receiver<ServedAnswer>,
    /// Whether it is to go on.
    going: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    units: u64,
    units_ns: u64,
    /// Why the last refill could not be made.
    failed: Option<Failure>,
}

impl Alongside {
    /// Allocates and fills, on a thread of its own. `threads` are those of a rank's product. Collective over `context`.
    ///
    /// # Errors
    /// What could not be had.
    pub(super) fn start(
        activity: Activity,
        case: Arc<dyn ParsedCase>,
        threads: u32,
        context: RankContext,
    ) -> Result<Self, Failure> {
        let ((orders, inbox), (outbox, answers)) = (channel(), channel());
        let going = Arc::new(AtomicBool::new(false));
        let seen = going.clone();
        let work = move || serve((activity, &*case), threads, context, &seen, &inbox, &outbox);
        let thread = std::thread::Builder::new().name("beside".to_owned()).spawn(work);
        let thread =
            thread.map_err(|error| Failure::lacking(format!("starting the thread of the second activity: {error}")))?;
        let (orders, thread) = (Some(orders), Some(thread));
        let mut alongside = Self { orders, answers, going, thread, units: 0, units_ns: 0, failed: None };
        alongside.answer().map(|_| alongside)
    }

    /// Begins, and returns once the first unit is complete on this rank.
    ///
    /// # Errors
    /// What went wrong with it.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.going.store(true, Ordering::Release);
        self.ask(Order::Run).map(drop)
    }

    /// Ends with the unit that runs. All ranks must be through with what is timed.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.going.store(false, Ordering::Release);
        if let ServedAnswer::Ended { units, ns } = self.answer()? {
            self.units += units;
            self.units_ns += ns;
        }
        Ok(())
    }

    /// Fresh inputs. It does not run.
    pub(super) fn refill(&mut self) {
        self.failed = self.ask(Order::Refill).err().or(self.failed.take());
    }

    /// Compares every element with what its units since the last refill must have left. Collective.
    ///
    /// # Errors
    /// What went wrong.
    pub(super) fn check(&mut self) -> Result<WrongReport, Failure> {
        match self.ask(Order::Check)? {
            ServedAnswer::Checked(report) => Ok(report),
            _ => Err(Failure::new("the second activity was not compared")),
        }
    }

    /// Units that ran beside calls, and how long they took.
    pub(super) fn details(&self) -> Map<String, Value> {
        Map::from_iter([(UNITS.to_owned(), self.units.into()), (UNITS_NS.to_owned(), self.units_ns.into())])
    }

    fn ask(&mut self, order: Order) -> Result<ServedAnswer, Failure> {
        // One that has ended shows when its answer is missing.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
        self.answer()
    }

    fn answer(&mut self) -> Result<ServedAnswer, Failure> {
        match self.answers.recv() {
            Ok(ServedAnswer::Failed(failure)) => Err(failure),
            Ok(answer) => Ok(answer),
            Err(_) => Err(Failure::new("the thread of the second activity has ended")),
        }
    }
}

impl Drop for Alongside {
    fn drop(&mut self) {
        self.going.store(false, Ordering::Release);
        self.orders = None;
        // A panic there has been reported as a missing answer.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn number_or_zero(rank: &Map<String, Value>, name: &str) -> u64 {
    rank.get(name).and_then(Value::as_u64).unwrap_or(0)
}

/// Seconds of a unit beside the calls: of the slowest rank, the median over trials. None where nothing ran.
pub(super) fn unit_s(trials: &[Trial]) -> Option<f64> {
    let unit = |rank: &Map<String, Value>| {
        let units = number_or_zero(rank, UNITS);
        (units > 0).then(|| number_or_zero(rank, UNITS_NS) as f64 / 1e9 / units as f64)
    };
    let slowest = |trial: &Trial| trial.details.iter().filter_map(unit).reduce(f64::max);
    let units: Vec<f64> = trials.iter().filter_map(slowest).collect();
    (!units.is_empty()).then(|| stats::median(&units))
}

/// Whether something ran beside the calls on every rank.
pub(super) fn ran_everywhere(trial: &Trial) -> bool {
    !trial.details.is_empty() && trial.details.iter().all(|rank| number_or_zero(rank, UNITS) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(ranks: &[(u64, u64)]) -> Trial {
        let rank = |(units, ns): &(u64, u64)| {
            Map::from_iter([(UNITS.to_owned(), Value::from(*units)), (UNITS_NS.to_owned(), Value::from(*ns))])
        };
        Trial { details: ranks.iter().map(rank).collect(), ..Trial::default() }
    }

    #[test]
    fn a_unit_takes_as_long_as_on_the_slowest_rank() {
        let trials = [trial(&[(10, 1_000), (10, 3_000)]), trial(&[(1, 500), (2, 200)])];
        assert_eq!(unit_s(&trials), Some(400e-9));
        assert_eq!(unit_s(&[trial(&[(0, 0)])]), None);
    }

    #[test]
    fn a_rank_on_which_nothing_ran_is_seen() {
        assert!(ran_everywhere(&trial(&[(1, 5), (3, 5)])));
        assert!(!ran_everywhere(&trial(&[(1, 5), (0, 0)])));
        assert!(!ran_everywhere(&Trial::default()));
    }
}
