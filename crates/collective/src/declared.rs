//! The metrics of collectives, and what those hold that have several members.

use record::reproducible::Reproducible;
use record::{Better, Metric, Shape, found};
use serde::{Deserialize, Serialize};

record::metrics! {
    /// What a collective's case says.
    pub(super) METRICS {
        COUNT: u64 = Metric::new("count", "elements", Better::Higher, "elements of S"),
        ALGBW_GBS: Option<f64> = found::ALGBW_GBS.metric(),
        BUSBW_GBS: Option<f64> = found::BUSBW_GBS.metric(),
        LIMIT_SHARE: f64 = found::LIMIT_SHARE.metric(),
        LIMIT_BUSBW_GBS: Option<f64> = Metric::new("limit_busbw_gbs", "GB/s", Better::Higher, "busbw at 100% of the limit"),
        PATH: String = found::PATH.metric(),
        BY_GROUP: Vec<GroupTimes> =
            Metric::new("by_group", "", Better::Lower, "ranks, times and rates of each group, at once and alone")
                .shape(Shape::List),
        AT_ONCE_GBS: Vec<f64> =
            Metric::new("at_once_gbs", "GB/s", Better::Higher, "busbw of each group while all groups run").shape(Shape::List),
        ALONE_GBS: Vec<f64> =
            Metric::new("alone_gbs", "GB/s", Better::Higher, "busbw of each group while no other runs").shape(Shape::List),
        REPRODUCIBLE: Reproducible = found::REPRODUCIBLE.metric(),
        REPRODUCIBLE_SHARE: f64 = found::REPRODUCIBLE_SHARE.metric(),
        INTERFERENCE: Interference = Metric::new(
            "interference",
            "",
            Better::Lower,
            "time of a group while all groups run / its time alone: of the group that loses most",
        )
        .shape(Shape::Interval),
    }
}

/// One group while all run at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct GroupTimes {
    /// Ranks of the group.
    pub(super) ranks: Vec<u32>,
    /// Seconds of a call, of its slowest rank: the median of its trials.
    pub(super) time_s: f64,
    /// None where nothing moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) busbw_gbs: Option<f64>,
    /// The medians of its trials, in the order of the case's.
    pub(super) trial_median_s: Vec<f64>,
    /// Seconds of a call while no other group runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alone_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alone_busbw_gbs: Option<f64>,
    /// Time at once over time alone, of the same rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowdown: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slowdown_ci95: Option<[f64; 2]>,
}

/// The largest slowdown of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Interference {
    pub(super) value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<[f64; 2]>,
    /// Which group it is, from 0.
    pub(super) group: usize,
}
