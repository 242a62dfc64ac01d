//! What to look at in a timeline, and how strictly.

use std::ops::Range;

use serde::Serialize;

use super::disturbance::Disturbance;

/// Fewer steps carry no verdict on slow ranks.
pub const MINIMUM_STEPS: usize = 10;

/// Less of a step is not worth advice: steps of one machine differ by as much from one run to the next.
pub const LEAST_FINDING: f64 = 0.01;

/// The schedule of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pipeline {
    /// Stages, p.
    pub stages: u32,
    /// Micro-batches of a step, m.
    pub micro_batches: u32,
}

/// What to look at, and how strictly.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Numbers of the steps to look at; None: all.
    pub steps: Option<Range<u32>>,
    /// What costs less than this share of a step is not certain to be more than chance: 0.005 is 0.5%.
    pub minimum_share: f64,
    /// What costs less than this share of the mean step, however certain it is, is not a finding.
    pub least_finding: f64,
    /// The chance of naming any rank where none is slow by more than the minimum share.
    pub level: f64,
    /// The schedule, if the job is a pipeline.
    pub pipeline: Option<Pipeline>,
    /// What others took of the machine meanwhile, where somebody looked.
    pub disturbance: Option<Disturbance>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            steps: None,
            minimum_share: 0.005,
            least_finding: LEAST_FINDING,
            level: 0.01,
            pipeline: None,
            disturbance: None,
        }
    }
}
