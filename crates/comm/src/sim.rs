//! The `sim` backend: computes times instead of taking them, on a fake clock for each rank. Its times are known exactly, which
//! is what tests of everything above need.
//!
//! An operation ends on a rank at the latest time of entry of the ranks that it waits for, plus [`cost`], times the
//! noise where there is some. Operations of a group run one after another.
//!
//! There are two forms with equal times. [`crate::Model`] has only the clocks of all ranks (`model`): it starts no rank and moves
//! no data, so it has tens of thousands of ranks. A communicator is one rank in a thread and moves the data, by the naive engine,
//! for callers that need a rank: a copy of every rank's input, which every rank then reads.

mod cost;
mod meeting;
mod model;
mod noise;
mod settings;

use std::sync::Arc;

use device::{Queue, Region};
use terms::{Field, FieldError, Space};
use trace::Clock;

pub use cost::{DEFAULT_LINK, cost};
use model::LinkModel;
use noise::Factors;
use settings::{FIELDS, SimSettings};

use crate::at_once::{admit, finished, group_of, host_region};
use crate::reference::Engine;
use crate::{
    Abort, About, Backend, Bootstrap, Call, Communicator, Error, Model, Operation, Options, Own, Pace, Readiness,
    Result, Shape, ThreadBootstrap, Ticket, Wait,
};

/// The table's entry.
pub(crate) struct Sim;

const ABOUT: About = About {
    name: "sim",
    doc: "simulated: times are computed from a latency and a bandwidth, for up to 65536 ranks",
    simulated: true,
    in_process: true,
    launched: false,
    one_host: false,
};

impl Backend for Sim {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn fields(&self) -> &'static [Field] {
        FIELDS
    }

    fn check(&self, own: &mut Own, _environment: &[String]) -> std::result::Result<(), FieldError> {
        settings::check(own)
    }

    fn for_round(&self, own: &mut Own, round: u32) {
        settings::for_round(own, round);
    }

    fn probe(&self) -> Readiness {
        Readiness::Ready { version: env!("CARGO_PKG_VERSION").to_owned(), path: None }
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let (link, noise) = crate::own::read(ABOUT.name, &options.own).map(SimSettings::parts)?;
        let all: Vec<u32> = (0..bootstrap.place().size).collect();
        let joined = meeting::join(bootstrap, Some(&all), None)?;
        let (exchange, abort) = joined.ok_or_else(|| Error::Mismatch("a rank outside its own world".to_owned()))?;
        let simulated = Simulated {
            engine: Engine::new(exchange),
            abort: abort.clone(),
            clock: Clock::fake(),
            link,
            factors: noise.map(Factors::new),
            next: 0,
            splits: 0,
        };
        Ok((Box::new(simulated), abort))
    }

    fn model(&self, own: &Own) -> Result<Option<Box<dyn Model>>> {
        let (link, noise) = crate::own::read(ABOUT.name, own).map(SimSettings::parts)?;
        Ok(Some(Box::new(LinkModel { link, factors: noise.map(Factors::new) })))
    }
}

/// A communicator on a fake clock.
struct Simulated {
    engine: Engine<ThreadBootstrap>,
    abort: Abort,
    /// The rank's: its groups by split share it.
    clock: Clock,
    link: Pace,
    factors: Option<Factors>,
    next: u64,
    splits: u64,
}

impl Simulated {
    fn run_one(&mut self, call: &Call) -> Result<()> {
        let Shape { rank, size, .. } = self.engine.shape;
        let operation = Operation::of_call(call, call.count(&self.engine.shape));
        let entries = self.engine.execute(call, self.clock.now_ns())?;
        // Drawn on every rank, whatever its part, so that all draw alike.
        let factor = self.factors.as_mut().map_or(1.0, Factors::next);
        let idle = call.op == terms::Collective::PingPong && rank != 0 && rank != call.peer;
        if idle {
            return Ok(());
        }
        let awaited = (0..size).filter(|other| *other == rank || cost::waits_for(&operation, rank, *other, size));
        let entered = awaited.map(|other| entries[other as usize]).max().unwrap_or(0);
        let lasts = cost(call.op, operation.bytes(), size, self.link).0 * factor;
        self.clock.advance_to(entered + (lasts * 1e9).round() as u64);
        Ok(())
    }
}

impl Communicator for Simulated {
    fn shape(&self) -> &Shape {
        &self.engine.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        host_region("sim", bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        admit(group, &self.engine.shape, after, &self.abort)?;
        for call in group {
            self.run_one(call)?;
        }
        Ok(finished(&mut self.next))
    }

    fn finish(&mut self, _ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        self.abort.check()?;
        Ok(true)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let group = group_of(&mut self.engine.exchange, color, key)?;
        let joined = meeting::join(&mut self.engine.exchange, group.as_deref(), Some(&self.abort))?;
        self.splits += 1;
        let (Some((exchange, abort)), Some(group)) = (joined, group) else { return Ok(None) };
        let child = Self {
            engine: Engine::new(exchange),
            abort,
            clock: self.clock.clone(),
            link: self.link,
            factors: self.factors.as_ref().map(|factors| factors.derived(self.splits, group[0])),
            next: 0,
            splits: 0,
        };
        Ok(Some(Box::new(child)))
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }
}
