//! The `reference` backend: naive and obviously right, what the others are checked against. Its times mean nothing.
//!
//! Every operation is one exchange: all ranks see all inputs, and each computes its own output from them
//! (`reference/engine.rs`). What a reduction means is defined in `reference/arithmetic.rs`.

mod arithmetic;
mod engine;
mod signature;
mod sockets;

use std::sync::Arc;

use device::{Queue, Region};
use terms::Space;

pub(crate) use engine::Engine;
use sockets::Sockets;

use crate::{
    Abort, About, Backend, Bootstrap, Call, Communicator, Error, Options, Readiness, Result, Shape, Ticket, Wait,
    members, wait,
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

    fn alloc(&mut self, bytes: usize, Space::Host: Space) -> Result<Arc<Region>> {
        host_region(bytes)
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

/// Private memory: the naive engine reaches no peer's memory, so any will do.
pub(crate) fn host_region(bytes: usize) -> Result<Arc<Region>> {
    Region::host(bytes).map_err(|source| Error::System { what: format!("map {bytes} bytes of memory"), source })
}

/// Refuses invalid calls, then waits until the inputs may be read.
pub(crate) fn admit(group: &[Call], shape: &Shape, after: &Queue, abort: &Abort) -> Result<()> {
    abort.check()?;
    group.iter().try_for_each(|call| call.validate(shape))?;
    wait::for_queue(after, abort)
}

/// The ticket of a group that has run.
pub(crate) fn finished(next: &mut u64) -> Ticket {
    *next += 1;
    Ticket { number: *next - 1, done: true }
}

/// The members of this rank's new group, from what all ranks give. Collective.
pub(crate) fn group_of(exchange: &mut dyn Bootstrap, color: Option<u32>, key: u32) -> Result<Option<Vec<u32>>> {
    let words = [u32::from(color.is_some()), color.unwrap_or(0), key];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let gathered = exchange.all_gather(&bytes)?;
    let decode = |bytes: &Vec<u8>| {
        let word = |at: usize| {
            bytes.get(at * 4..at * 4 + 4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        };
        let (Some(given), Some(color), Some(key)) = (word(0), word(1), word(2)) else {
            return Err(Error::Mismatch("some ranks split and others do not".to_owned()));
        };
        Ok(((given == 1).then_some(color), key))
    };
    let entries = gathered.iter().map(decode).collect::<Result<Vec<_>>>()?;
    Ok(members(&entries, exchange.place().rank))
}
