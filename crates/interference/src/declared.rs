//! The metrics of interference cases.

use record::{Better, Metric, Shape};
use serde::{Deserialize, Serialize};

record::metrics! {
    /// What an interference case says.
    pub(super) METRICS {
        SLOWDOWN: Slowdown = Metric::new(
            "slowdown",
            "",
            Better::Lower,
            "time while the other activity runs / time alone, in the same rounds",
        )
        .shape(Shape::Interval),
        ALONE_S: f64 = Metric::new("alone_s", "s", Better::Lower, "time of the same activity alone"),
        BESIDE_S: f64 = Metric::new(
            "beside_s",
            "s",
            Better::Lower,
            "time of one unit of the other activity meanwhile, on the slowest rank",
        ),
    }
}

/// By how much another activity slows one down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slowdown {
    pub(super) value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ci95: Option<[f64; 2]>,
}
