//! A case on one rank: the activity that is timed, and what runs beside it.

use comm::Communicator;
use contract::{Prepared, RankContext, Work};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};

use super::InterferenceCase;
use super::alongside::Alongside;
use super::fields::Activity;

/// A sample lasts at least so long, alone and beside another activity: several units of that are then within it, whatever
/// part of a unit it began in.
pub(super) const SAMPLE_NS: u64 = 20_000_000;

/// An activity, alone or beside another.
struct Pair {
    /// Ends first: it has a communicator of the same ranks.
    beside: Option<Alongside>,
    own: Box<dyn Prepared>,
    /// Communicator of a second collective; None: the world's.
    comm: Option<Box<dyn Communicator>>,
}

/// Allocates and fills both. Collective.
///
/// # Errors
/// What could not be had.
pub(super) fn prepare(
    InterferenceCase { fields, own, beside, .. }: &InterferenceCase,
    context: &mut RankContext,
) -> Result<Box<dyn Prepared>, Failure> {
    let beside = match beside {
        Some((activity, case)) => {
            // Its operations are those of another thread: the status page shows what is timed.
            let apart = context.another_unwatched()?;
            Some((*activity, case.clone(), context.seat().with(apart)))
        }
        None => None,
    };
    let (own, comm) = if fields.activity == Activity::Second {
        let apart = context.another()?;
        let mut second = context.seat().with(apart);
        (own.prepare(&mut second)?, Some(second.comm))
    } else {
        (own.prepare(context)?, None)
    };
    let threads = fields.threads.unwrap_or(1);
    let start = |(activity, case, context)| Alongside::start(activity, case, threads, context);
    Ok(Box::new(Pair { beside: beside.map(start).transpose()?, own, comm }))
}

impl Prepared for Pair {
    fn run(&mut self, world: &mut dyn Communicator) -> Result<(), Failure> {
        match &mut self.comm {
            Some(own) => self.own.run(&mut **own),
            None => self.own.run(world),
        }
    }

    fn drain(&mut self, world: &mut dyn Communicator) -> Result<(), Failure> {
        match &mut self.comm {
            Some(own) => self.own.drain(&mut **own),
            None => self.own.drain(world),
        }
    }

    fn begin_beside(&mut self) -> Result<bool, Failure> {
        self.beside.as_mut().map_or(Ok(false), |beside| beside.begin().map(|()| true))
    }

    fn end_beside(&mut self) -> Result<(), Failure> {
        self.beside.as_mut().map_or(Ok(()), Alongside::end)
    }

    fn refill(&mut self) {
        self.own.refill();
        self.beside.iter_mut().for_each(Alongside::refill);
    }

    /// Checks both activities: a collective that is slowed down and wrong is wrong.
    fn check(&mut self, world: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let mut report = match &mut self.comm {
            Some(own) => self.own.check(&mut **own, calls)?,
            None => self.own.check(world, calls)?,
        };
        if let Some(beside) = &mut self.beside {
            let found = beside.check()?;
            report.count += found.count;
            report.compared += found.compared;
            report.first.extend(found.first);
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        // The limit of memory is that of an activity alone.
        Work { traffic_bytes: 0, sample_ns: SAMPLE_NS, ..self.own.work() }
    }

    fn path(&self, world: &dyn Communicator) -> String {
        self.own.path(self.comm.as_deref().unwrap_or(world))
    }

    fn details(&mut self) -> Map<String, Value> {
        self.beside.as_ref().map(Alongside::details).unwrap_or_default()
    }
}
