//! Communicators: collectives over bytes and element types. Never sees a tensor.
//!
//! `contract` says what a backend is, `options` how it is opened, `layout` where the bytes of each operation lie; every other
//! module is one backend, a wrapper around any backend, or a thing that they share. [`BACKENDS`] is the table: a new backend is one
//! module and one line there.

mod abort;
mod bootstrap;
mod contract;
mod counts;
mod error;
mod layout;
pub mod library;
pub mod mpi;
pub mod nccl;
mod observed;
mod open;
mod options;
mod paced;
mod progress;
mod reference;
mod shm;
pub mod sim;
mod split;
mod wait;

pub use abort::Abort;
pub use bootstrap::{Bootstrap, Place, ThreadBootstrap, threads};
pub use contract::{About, Backend, Call, Capabilities, Communicator, Progress, Readiness, Shape, Ticket, Wait};
pub use counts::Counts;
pub use error::{Error, Result};
pub use layout::{Extent, blocks, extents};
pub use observed::Observed;
pub use open::open;
pub use options::{MpiOptions, MpiProgress, Options, Pace, SimNoise};
pub use paced::Paced;
pub use progress::Threaded;
pub use split::members;

/// Every backend, in the order in which help lists them.
pub static BACKENDS: &[&dyn Backend] = &[&shm::Shm, &mpi::Mpi, &nccl::Nccl, &reference::Reference, &sim::Sim];

/// The backend of this name.
pub fn backend(name: &str) -> Option<&'static dyn Backend> {
    let wanted = terms::normalize(name);
    BACKENDS.iter().copied().find(|backend| terms::normalize(backend.about().name) == wanted)
}
