//! The `reference` backend: naive and obviously right, what the others are checked against. Its times mean nothing.
//!
//! Every operation is one exchange: all ranks see all inputs, and each computes its own output from them
//! (`reference/engine.rs`). What a reduction means is defined in `reference/arithmetic.rs`.

mod alone;
mod arithmetic;
mod engine;
mod signature;
mod sockets;

use std::sync::Arc;

use device::{Queue, Region};
use terms::Space;

pub use alone::{Alone, Inputs};
pub(crate) use engine::Engine;
use sockets::Sockets;

use crate::at_once::{admit, finished, group_of, host_region};
use crate::{
    Abort, About, Backend, Bootstrap, Call, Communicator, Error, Options, Readiness, Result, Shape, Ticket, Wait,
};

/// The table's entry.
pub(crate) struct Reference;

const ABOUT: About = About {
    name: "reference",
    doc: "naive and obviously right, over Unix sockets: for checking, not for speed",
    simulated: false,
    in_process: false,
    launched: false,
    one_host: true,
};

impl Backend for Reference {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn probe(&self) -> Readiness {
        Readiness::Ready { version: env!("CARGO_PKG_VERSION").to_owned(), path: None }
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, _options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let place = bootstrap.place();
        let hosts = bootstrap.all_gather(place.host.as_bytes())?;
        if let Some(other) = hosts.iter().position(|host| host.as_slice() != place.host.as_bytes()) {
            let what = format!("reach rank {other}, which runs on another host");
            return Err(Error::Unsupported { backend: ABOUT.name, what });
        }
        let (abort, all) = (Abort::default(), (0..place.size).collect::<Vec<_>>());
        let sockets = Sockets::join(bootstrap, Some(&all), &abort)?.ok_or_else(no_member)?;
        Ok((Box::new(Naive::new(sockets, abort.clone())), abort))
    }
}

fn no_member() -> Error {
    Error::Mismatch("a rank is not a member of its own group".to_owned())
}

/// A communicator over sockets.
struct Naive {
    engine: Engine<Sockets>,
    abort: Abort,
    next: u64,
}

impl Naive {
    fn new(sockets: Sockets, abort: Abort) -> Self {
        Self { engine: Engine::new(sockets), abort, next: 0 }
    }
}

impl Communicator for Naive {
    fn shape(&self) -> &Shape {
        &self.engine.shape
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        host_region("reference", bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        admit(group, &self.engine.shape, after, &self.abort)?;
        for call in group {
            self.engine.execute(call, 0)?;
        }
        Ok(finished(&mut self.next))
    }

    fn finish(&mut self, _ticket: &mut Ticket, _how: Wait<'_>) -> Result<bool> {
        self.abort.check()?;
        Ok(true)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let group = group_of(&mut self.engine.exchange, color, key)?;
        let sockets = Sockets::join(&mut self.engine.exchange, group.as_deref(), &self.abort)?;
        Ok(sockets.map(|sockets| Box::new(Self::new(sockets, self.abort.clone())) as Box<dyn Communicator>))
    }
}
