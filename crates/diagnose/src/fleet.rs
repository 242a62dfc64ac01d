//! Which nodes of a fleet are slow, which links, and what that rests on.
//!
//! Each node is compared with its peers: nodes of the same hardware that did the same work. What is healthy is learned from the
//! fleet itself ([`stats::fleet`]), so a fleet that is slow as a whole looks healthy here.

mod bits;
mod blame;
mod differs;
mod evidence;
mod files;
mod gathered;
mod hosts;
mod inventory;
mod json;
mod judge;
mod learned;
mod measures;
mod network;
mod now;
mod over_time;
mod rails;
mod samples;
mod taken;
mod topology;
mod verdict;

pub use bits::excluded_rate;
pub use files::{FleetFile, files};
pub use hosts::compressed;
pub use inventory::Inventory;
pub use json::json;
pub use judge::{against, fleet};
pub use learned::read_learned;
pub use measures::read;
pub use rails::Rail;
pub use samples::Samples;
pub use stats::FEWEST_MEMBERS;
pub use taken::{FailedCase, Measured, NodeBits, NodeRun, RankBits, RankTrial, Reader, Taken, Tournament, Unblamed};
pub use topology::Topology;
pub use verdict::{
    Criterion, FLEET_LEVEL, Fleet, Group, LinkCriterion, MOST_UNSEEN, Node, NodeVerdict, ResultCheck, SlowIn, SlowLink,
};
