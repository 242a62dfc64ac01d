//! The shared-memory backend: ranks of one host, as processes or threads.
//!
//! `flag` and `rounds` are the protocols, over plain words; `area` says where those lie; `parts` and `rendezvous`
//! lay it out and pass it between processes; `regions` knows registered buffers; `plan` says what an operation moves.
//! `eager`, `direct`, `staged` and `cross` are the four paths of a collective, `mail` is that of messages: each keeps its
//! own state, and works on what `endpoint` holds for all. `choice` chooses between them; `group` is a rank's end, which
//! hands each call to its path; `kernels` are the loops; `open` joins, allocates and splits.

mod area;
mod buffers;
mod caches;
mod choice;
mod cross;
mod direct;
mod eager;
mod endpoint;
mod flag;
mod group;
pub(crate) mod kernels;
mod mail;
mod near;
mod open;
mod parts;
mod pieces;
mod plan;
mod regions;
mod rendezvous;
mod rounds;
mod staged;

pub use open::world;
#[cfg(not(test))]
pub use {
    cross::Cross,
    group::RankEnd,
    rounds::{AHEAD, RING},
};

use crate::{Abort, About, Backend, Bootstrap, Communicator, GpuMemory, Options, Readiness, Result};

/// The backend.
#[derive(Debug)]
pub(crate) struct Shm;

static ABOUT: About = About {
    name: "shm",
    doc: "shared memory among the processes of one host; needs nothing",
    simulated: false,
    in_process: false,
    launched: false,
    one_host: true,
};

impl Backend for Shm {
    fn about(&self) -> &About {
        &ABOUT
    }

    fn probe(&self) -> Readiness {
        match device::Arena::create(device::PAGE) {
            Ok(_) => Readiness::Ready { version: env!("CARGO_PKG_VERSION").to_owned(), path: None },
            Err(error) => Readiness::Missing {
                why: format!("no sealed shared memory: {error}"),
                hint: "memfd_create needs Linux 3.17 or later, and a sandbox that lets it through".to_owned(),
            },
        }
    }

    fn gpu_memory(&self) -> GpuMemory {
        GpuMemory::ThroughHost
    }

    fn group_bytes(&self, ranks: u32) -> u64 {
        let parts = parts::AllParts::new(&[0], area::Order::for_size(ranks as usize, false).bytes);
        parts.map_or(u64::MAX, |parts| parts.bytes())
    }

    fn open(&self, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
        let abort = Abort::default();
        let group = open::world(bootstrap, options, &abort)?;
        Ok((Box::new(group), abort))
    }
}

#[cfg(all(test, loom))]
mod models;
