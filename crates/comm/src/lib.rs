//! Communicators: collectives over bytes and element types. Never sees a tensor.
//!
//! `backend` says what a backend is, `options` how it is opened, `layout` where the bytes of each operation lie; every other
//! module is one backend, a wrapper around any backend, or a thing that they share. `BACKENDS` is the table: a new backend is one
//! module and one line there.

#![cfg_attr(test, allow(unreachable_pub, reason = "`internals` is not there"))]

mod abort;
mod agree;
mod at_once;
mod backend;
mod bootstrap;
mod clocks;
mod counts;
mod error;
mod gpus;
mod late;
mod launch;
mod layout;
pub mod mpi;
pub mod nccl;
mod observed;
mod open;
mod operation;
mod options;
mod own;
mod paced;
mod progress;
mod reference;
mod shm;
pub mod sim;
mod split;
mod staged;
mod wait;

use std::sync::OnceLock;

pub use device::library;

use terms::Field;

pub use abort::Abort;
pub use backend::{
    About, Backend, Call, CallForm, Capabilities, Communicator, Devices, GpuMemory, Model, Progress, Readiness, Shape,
    Ticket, Wait,
};
pub use bootstrap::{Bootstrap, HostBootstrap, RankPlacement, ThreadBootstrap, threads};
pub use clocks::Clocks;
pub use counts::Counts;
pub use error::{Error, Result};
pub use gpus::{Surroundings, chosen_library, libraries, library_of, surrounded_by};
pub use late::Late;
pub use launch::{Asked, Launch, StartedBy, Tools};
pub use layout::{Extent, blocks, extents};
pub use observed::{Observed, corrupt_bytes};
pub use open::{model, open};
pub use operation::Operation;
pub use options::{Options, Pace};
pub use own::{Own, own_of};
pub use paced::Paced;
pub use progress::Threaded;
pub use reference::{Alone, Inputs};
pub use split::members;
pub use staged::host_bytes;

/// The backends of this program, in the order in which help lists them. Unit tests need none, and compile none without it:
/// a second time would take as long as the first.
static BACKENDS: &[&dyn Backend] =
    if cfg!(test) { &[] } else { &[&shm::Shm, &mpi::Mpi, &nccl::Nccl, &reference::Reference, &sim::Sim] };

static ADDED: OnceLock<&'static [&'static dyn Backend]> = OnceLock::new();

/// Adds backends to the table, once, before anything reads it: for programs that bring their own.
pub fn add(backends: &'static [&'static dyn Backend]) {
    // A second call changes nothing, as promised.
    let _ = ADDED.set(backends);
}

/// The table, and what was added to it.
pub fn backends() -> impl Iterator<Item = &'static dyn Backend> {
    BACKENDS.iter().chain(ADDED.get().copied().unwrap_or_default()).copied()
}

/// The backend of this name.
pub fn backend(name: &str) -> Option<&'static dyn Backend> {
    let wanted = terms::normalize(name);
    backends().find(|backend| terms::normalize(backend.about().name) == wanted)
}

/// The own fields of all backends.
pub fn fields() -> &'static [Field] {
    static FIELDS: OnceLock<Vec<Field>> = OnceLock::new();
    FIELDS.get_or_init(|| backends().flat_map(|backend| backend.fields()).copied().collect())
}

/// What tests in tests/all reach besides all this. Not there for unit tests, as the backends are not.
#[cfg(not(test))]
#[doc(hidden)]
pub mod internals {
    pub use crate::agree::agree;
    pub use crate::shm::{AHEAD, Cross, RING, RankEnd, world};

    pub mod kernels {
        pub use crate::shm::kernels::{Isa, Manner, copy, exchange, kernel};
    }
}
