//! One visit to a case, and what it gave.

use serde_json::{Map, Value};

use crate::barrier::Exits;
use crate::canary::Canary;
use crate::{DeviceLook, Ready, Samples, WrongReport};

/// Time of one variant of the case's limit in one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitTime {
    /// Which loop, as the ranks name it.
    pub variant: String,
    /// Seconds of one call's traffic: the median over rounds, the slowest rank of each.
    pub seconds: f64,
}

/// What one trial of a case gave.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Which round of the run it belongs to, from 0.
    pub round: u32,
    /// When it began, in seconds since 1970.
    pub begun_s: f64,
    /// Seconds from the begin of the case's first trial to the end of this one.
    pub span_s: f64,
    /// Whether its ranks were started for this round; else they are those of an earlier trial.
    pub fresh: bool,
    /// `[rank][sample]` nanoseconds.
    pub samples: Samples,
    /// What each sample's time is divided by: its calls, times what a call has of messages or operations where one of
    /// those counts.
    pub calls: u32,
    /// Whether times had become steady before sampling; None where too few calls were made to tell.
    pub steady: Option<bool>,
    /// Wrong elements, before, during and after sampling.
    pub wrong: Vec<WrongReport>,
    /// What each rank said when it was ready.
    pub ready: Vec<Ready>,
    /// Times of the case's limit, where this trial measured them.
    pub limits: Vec<LimitTime>,
    /// Machine before and after.
    pub canaries: Option<(Canary, Canary)>,
    /// Looks at devices while it ran; none where its ranks used none.
    pub devices: Vec<DeviceLook>,
    /// `[rank]`: entry and exit times of consecutive operations, in ns of rank 0's clock: [begin, end, begin, end, ...].
    pub arrivals: Vec<Vec<f64>>,
    /// The largest error of the time between two of these on different ranks, in ns; 0 where they have one clock.
    pub arrivals_apart_ns: f64,
    /// Of a barrier: whether ranks left before the last had entered.
    pub exits: Exits,
    /// How clocks of other hosts ran; empty where ranks have one clock.
    pub clocks: Vec<record::HostClock>,
    /// Isolated, over several hosts: the largest error of the agreed instant between two ranks, in ns.
    pub starts_apart_ns: Option<f64>,
    /// Samples that a rank began late (isolated mode), the most of any rank.
    pub missed_starts: u64,
    /// The most memory that any rank held.
    pub peak_bytes: u64,
    /// What the benchmark noted on each rank.
    pub details: Vec<Map<String, Value>>,
    /// Seconds that its samples took.
    pub sampling_s: f64,
    /// Seconds that it took in all.
    pub wall_s: f64,
}

impl Trial {
    /// Seconds of one call, for each sample: the maximum over ranks.
    pub fn series(&self) -> Vec<f64> {
        slowest(&self.samples).iter().map(|ns| ns / 1e9 / f64::from(self.calls.max(1))).collect()
    }

    /// Median of its samples; None where it has none.
    pub fn median(&self) -> Option<f64> {
        let series = self.series();
        (!series.is_empty()).then(|| stats::median(&series))
    }
}

/// Nanoseconds of each sample: the maximum over ranks.
pub(crate) fn slowest(samples: &Samples) -> Vec<f64> {
    let count = samples.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|i| samples.iter().map(|rank| rank[i]).max().unwrap_or(0) as f64).collect()
}
