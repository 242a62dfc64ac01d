//! Starts the ranks of a world, commands them over an authenticated control channel, watches their health, and passes a
//! verdict when one is lost. Knows processes and messages; never benchmarks, samples or tensors.
//!
//! The program that uses it calls [`rank_main`] first of all when [`is_rank`] says that it was started as a rank, and
//! gives [`HostStarter`] to `measure` otherwise.

pub mod attach;
pub mod external;
pub mod job;

mod departure;
mod fork_server;
mod host;
mod launcher;
mod member;
mod opening;
mod pytorch;
mod rank;
mod remote;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
mod stall;
mod starter;
mod status;
mod verdict;
mod watch;
mod world;

pub use control::PROTOCOL;
pub use departure::Departure;
pub use host::HostStarter;
pub use rank::{Guardian, RankContext, is_rank, rank_main};
pub use stall::{OnStall, Stall};
pub use starter::{LocalStarter, MAX_RANKS};
pub use world::ProcessWorld;

/// What the environment says, by the name of a variable. Read by the binary, handed down.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<std::ffi::OsString>;

/// What the environment says in variables that are text, by the name of a variable.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
