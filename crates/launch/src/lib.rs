//! Starts the ranks of a world, commands them over an authenticated control channel, watches their health, and passes a
//! verdict when one is lost. Knows processes and messages; never benchmarks, samples or tensors.
//!
//! The program that uses it calls [`rank_main`] first of all when [`is_rank`] says that it was started as a rank, and
//! gives [`HostStarter`] to `measure` otherwise. It prints [`probe_answer`] and ends when there is one.

pub mod adopted;
pub mod control;
pub mod interrupt;
pub mod job;
pub mod survey;

mod away;
mod child;
mod connection;
mod descriptor;
mod invitation;
mod launcher;
mod member;
mod mpi;
mod mpirun;
mod opening;
mod output;
mod placement;
mod poll;
mod probe;
mod process;
mod pytorch;
mod rank;
mod reach;
mod rendezvous;
mod starter;
mod status;
mod verdict;
mod watch;
mod world;

pub use mpi::{HostStarter, MpiLaunch};
pub use mpirun::Mpirun;
pub use placement::{allowed_cores, host_name};
pub use probe::{inspect_in_child, probe_answer};
pub use rank::{Departure, Guardian, RankContext, is_rank, rank_main};
pub use starter::{LocalStarter, MAX_RANKS};
pub use world::ProcessWorld;

/// What the environment says, by the name of a variable. Read by the binary, handed down.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<std::ffi::OsString>;

/// The same, of variables that are text.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
