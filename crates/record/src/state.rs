//! States of the machine: what a run saw of them, and the times of a case in each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod known;

pub use known::known_states;

/// What a canary measures. Each runs before and after the samples of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CanaryKind {
    /// Nanoseconds of a round trip of a cache line between the cores of neighbouring ranks.
    RoundTripNs,
    /// Time of a loop that fills a core's execution units, on all ranks at once, over that of one that cannot: 1 core's worth
    /// where each rank has a core of its own, more where ranks share one.
    UnitsShared,
    /// Nanoseconds of a loop of dependent steps: a core's clock.
    ClockNs,
}

impl CanaryKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::RoundTripNs, Self::UnitsShared, Self::ClockNs];

    /// What states are called that this canary tells apart, in the order of its levels: of two the first and the last.
    pub fn state_names(self) -> [&'static str; 3] {
        match self {
            Self::RoundTripNs => ["near cores", "middle cores", "far cores"],
            Self::UnitsShared => ["own cores", "partly shared cores", "shared cores"],
            Self::ClockNs => ["fast clock", "middle clock", "slow clock"],
        }
    }
}

/// What a canary showed in a state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CanaryLevel {
    /// Which canary.
    pub canary: CanaryKind,
    /// Ranks that looked at once: others show other values.
    #[schemars(range(min = 1))]
    pub ranks: u32,
    /// Where ranks were on several hosts: the host that showed it, by its place in `hosts` of `run.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// The median.
    pub median: f64,
}

/// A state in which a run found the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MachineState {
    /// What it is called: by what was seen. Absent where the run saw one state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The share of the run's trials in it.
    pub share: f64,
    /// Trials in it.
    pub trials: u32,
    /// What canaries showed.
    pub canaries: Vec<CanaryLevel>,
}

/// Times of a case in one state of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CaseState {
    /// The state's name.
    pub name: String,
    /// The share of the case's trials in it.
    pub share: f64,
    /// Trials in it.
    pub trials: u32,
    /// Median of these trials.
    pub median_s: f64,
    /// Interval of the median; absent where trials are too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95_s: Option<[f64; 2]>,
    /// Medians of these trials, in their order.
    pub trial_median_s: Vec<f64>,
}

impl CanaryLevel {
    /// Whether both are of one canary, looked at by as many ranks on the same host.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.canary, self.ranks, self.host) == (other.canary, other.ranks, other.host)
    }
}

/// Levels of one canary further apart than this belong to different states, where no run saw both: 1.5 times. Within a state
/// a round trip stays within a tenth.
const APART: f64 = 1.5;

impl MachineState {
    /// Whether another run's state can be this one, by the canaries that both measured. A different clock or shared unit may be
    /// what the user compares. A different distance between cores never is.
    pub fn may_be(&self, other: &Self) -> bool {
        let of = |state: &Self, like: &CanaryLevel| state.canaries.iter().find(|level| level.is_like(like)).copied();
        let trips = self.canaries.iter().filter(|level| level.canary == CanaryKind::RoundTripNs);
        trips
            .filter_map(|own| Some(own.median / of(other, own)?.median))
            .all(|ratio| ratio < APART && ratio * APART > 1.0)
    }
}

/// The state of another run that is most like this one. None where no state can be it, or where no canary measured both.
pub fn likest<'s>(state: &MachineState, others: &'s [MachineState]) -> Option<&'s MachineState> {
    let distance = |other: &&MachineState| {
        let of = |own: &CanaryLevel| {
            other.canaries.iter().find(|level| level.is_like(own)).map(|theirs| (own.median / theirs.median).ln().abs())
        };
        state.canaries.iter().filter_map(of).reduce(f64::max)
    };
    let can_be = others.iter().filter(|other| state.may_be(other));
    let known = can_be.filter_map(|other| Some((distance(&other)?, other)));
    known.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(trip: f64, clock: f64) -> MachineState {
        let level = |canary, median| CanaryLevel { canary, ranks: 2, host: None, median };
        let canaries = vec![level(CanaryKind::RoundTripNs, trip), level(CanaryKind::ClockNs, clock)];
        MachineState { name: None, share: 1.0, trials: 9, canaries }
    }

    #[test]
    fn states_of_two_runs_are_the_same_by_what_was_seen() {
        let near = state(60.0, 5_000.0);
        assert!(near.may_be(&state(66.0, 5_100.0)) && !near.may_be(&state(290.0, 5_000.0)));
        // A slow clock may be the news.
        assert!(near.may_be(&state(60.0, 9_000.0)));
        // Other numbers of ranks show other values.
        let mut of_four = state(290.0, 5_000.0);
        of_four.canaries.iter_mut().for_each(|level| level.ranks = 4);
        assert!(near.may_be(&of_four));
        let others = [state(290.0, 5_000.0), state(60.0, 9_000.0), state(62.0, 5_000.0)];
        assert_eq!(likest(&near, &others), Some(&others[2]));
        assert_eq!(likest(&near, &others[..1]), None);
    }
}
