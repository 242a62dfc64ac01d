//! The metrics of start-up cases, and what those hold that have several members.

use record::{Better, Metric, Shape};
use serde::{Deserialize, Serialize};

record::metrics! {
    /// What a start-up case says.
    pub(super) METRICS {
        WAIT_S: f64 = Metric::new(
            "wait_s",
            "s",
            Better::Lower,
            "longest time of a rank minus the shortest: how long the first rank waits for the last one",
        ),
        OPEN_S: f64 = Metric::new(
            "open_s",
            "s",
            Better::Lower,
            "join, cold: time of the slowest rank in the backend, once all ranks had begun",
        ),
        LAST: Last = Metric::new(
            "last",
            "",
            Better::Lower,
            "the rank that came last, in how many trials of how many; none where chance explains it",
        )
        .shape(Shape::Map),
        LATER_S: f64 = Metric::new("later_s", "s", Better::Lower, "first_call: time of a later call of the same size"),
        FIRST_OVER_LATER: Ratio = Metric::new(
            "first_over_later",
            "",
            Better::Lower,
            "first_call: its time / that of a later call in the same rounds",
        )
        .shape(Shape::Interval),
        COLD_OVER_WARM: Ratio = Metric::new(
            "cold_over_warm",
            "",
            Better::Lower,
            "cold: its time / that in the same processes again, in the same rounds",
        )
        .shape(Shape::Interval),
        GROWTH: Ratio = Metric::new(
            "growth",
            "",
            Better::Lower,
            "communicator: its time / that with the fewest open, in the same rounds",
        )
        .shape(Shape::Interval),
    }
}

/// A ratio of trials of the same rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ratio {
    pub(super) value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<[f64; 2]>,
}

/// Which rank came last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Last {
    /// None where no rank came last more often than chance explains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rank: Option<u32>,
    /// Trials in which the rank that was last most often was last.
    pub(super) trials: u32,
    /// Number of trials that were looked at.
    pub(super) of: u32,
    /// Which rank came last, for a cell of a table: `1 (6 of 6)`, `varies`.
    pub(super) word: String,
}
