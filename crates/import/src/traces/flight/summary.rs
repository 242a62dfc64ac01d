//! What the Flight Recorders of all ranks say together.

use super::findings::HangCause;
use super::ring::FlightRank;
use super::waits::Waiting;

/// What the Flight Recorders of all ranks say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlightReport {
    /// By rank.
    pub ranks: Vec<FlightRank>,
    /// Where a hang begins, one entry for each cause; empty where no rank waits.
    pub findings: Vec<HangCause>,
    /// Ranks that wait for others, by rank. A rank that a finding names as missing is not among them.
    pub waiting: Vec<Waiting>,
    /// Communicators whose ranks the dumps list.
    pub groups: Vec<(String, Vec<u32>)>,
    /// What could not be read, one sentence each.
    pub notes: Vec<String>,
}
