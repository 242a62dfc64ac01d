//! The thread beside a rank's own: repeats the unit of an activity, back to back, until it is to end.
//!
//! A collective must run equally often on all ranks. So rank 0 says now and then how many units follow; none ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use collective::Word;
use contract::{ParsedCase, Prepared, RankContext};
use measure::{Failure, WrongReport, machine};
use trace::Clock;

use super::fields::Activity;

/// What the rank's own thread asks for.
pub(super) enum Order {
    /// Run until it is to end.
    Run,
    /// Fresh inputs.
    Refill,
    /// Compare.
    Check,
}

/// What it is answered.
pub(super) enum ServedAnswer {
    /// The activity can run, or has fresh inputs.
    Ready,
    /// The first unit is complete.
    Running,
    /// So many units ran, in so many nanoseconds.
    Ended { units: u64, ns: u64 },
    /// What was compared.
    Checked(WrongReport),
    /// The activity could not be done.
    Failed(Failure),
}

/// Rank 0 says how many units follow about so often.
const SAID_NS: u64 = 1_000_000;
/// Units until rank 0 says it again, at most.
const MOST: u64 = 10_000;

/// An activity on its thread.
struct Steady {
    /// Ends before the communicator that its buffers are of.
    prepared: Box<dyn Prepared>,
    /// Where rank 0 says how many units follow, if all ranks must run equally many.
    word: Option<Word>,
    context: RankContext,
    max_calls: u64,
    /// Units since inputs were last filled.
    calls: u64,
}

/// Prepares the activity, and does what it is told until nobody is left to tell.
pub(super) fn serve(
    (activity, case): (Activity, &dyn ParsedCase),
    threads: u32,
    context: RankContext,
    going: &AtomicBool,
    inbox: &Receiver<Order>,
    outbox: &Sender<ServedAnswer>,
) {
    place(&context, threads);
    let mut steady = match Steady::new(activity, case, context) {
        Ok(steady) => steady,
        Err(failure) => {
            // Nobody waits for it any more where this cannot be sent.
            let _ = outbox.send(ServedAnswer::Failed(failure));
            return;
        }
    };
    if outbox.send(ServedAnswer::Ready).is_err() {
        return;
    }
    while let Ok(order) = inbox.recv() {
        let answer = match order {
            Order::Run => steady.run(going, outbox),
            Order::Refill => {
                steady.refill();
                Ok(ServedAnswer::Ready)
            }
            Order::Check => steady.check().map(ServedAnswer::Checked),
        };
        if outbox.send(answer.unwrap_or_else(ServedAnswer::Failed)).is_err() {
            return;
        }
    }
}

/// A core of its own behind those of the ranks' products, where there are so many; else any of the host's. A rank that is bound
/// to no core leaves it to the system.
fn place(context: &RankContext, threads: u32) {
    let cores = &context.cores;
    if machine::allowed_cpus().len() < cores.len() {
        engine::cores::run_on(core_of(cores, (context.ranks, context.index), threads));
    }
}

/// The cores that the thread beside this rank may run on.
fn core_of(cores: &[u32], (ranks, index): (u32, u32), threads: u32) -> &[u32] {
    let first = ranks as usize * threads as usize;
    let own = first + index as usize;
    if first + ranks as usize <= cores.len() { &cores[own..=own] } else { cores }
}

impl Steady {
    fn new(activity: Activity, case: &dyn ParsedCase, mut context: RankContext) -> Result<Self, Failure> {
        let word = match activity {
            Activity::Collective | Activity::Second => Some(Word::new(&mut *context.comm)?),
            _ => None,
        };
        let prepared = case.prepare(&mut context)?;
        let max_calls = prepared.work().max_calls;
        Ok(Self { prepared, word, context, max_calls, calls: 0 })
    }

    fn run(&mut self, going: &AtomicBool, outbox: &Sender<ServedAnswer>) -> Result<ServedAnswer, Failure> {
        let clock = Clock::default();
        let (begin, mut units, mut next) = (clock.now_ns(), 0, 1);
        while next > 0 {
            for _ in 0..next {
                self.unit()?;
            }
            self.prepared.drain(&mut *self.context.comm)?;
            if units == 0 {
                let _ = outbox.send(ServedAnswer::Running);
            }
            units += next;
            let each_ns = (clock.now_ns() - begin) / units;
            next = self.next(going.load(Ordering::Acquire), each_ns)?;
        }
        Ok(ServedAnswer::Ended { units, ns: clock.now_ns() - begin })
    }

    fn unit(&mut self) -> Result<(), Failure> {
        if self.calls == self.max_calls {
            self.refill();
        }
        self.calls += 1;
        self.prepared.run(&mut *self.context.comm)
    }

    /// Units that follow: the same on all ranks where they must be.
    fn next(&mut self, goes_on: bool, each_ns: u64) -> Result<u64, Failure> {
        let Some(word) = &self.word else { return Ok(u64::from(goes_on)) };
        let wanted = if goes_on { (SAID_NS / each_ns.max(1)).clamp(1, MOST) } else { 0 };
        word.say(wanted, &mut *self.context.comm)
    }

    fn refill(&mut self) {
        self.prepared.refill();
        self.calls = 0;
    }

    fn check(&mut self) -> Result<WrongReport, Failure> {
        self.prepared.check(&mut *self.context.comm, self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_core_of_its_own_where_there_are_enough() {
        let cores: Vec<u32> = (10..18).collect();
        // Two ranks of two threads each have cores 10 to 13.
        assert_eq!([0, 1].map(|index| core_of(&cores, (2, index), 2).to_vec()), [vec![14], vec![15]]);
        assert_eq!(core_of(&cores, (4, 3), 1), [17]);
        assert_eq!(core_of(&cores, (4, 3), 2), &cores[..], "eight threads, and no core left");
    }
}
