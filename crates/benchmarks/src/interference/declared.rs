//! The metrics of interference cases.

use record::found::{self, Slowdown};
use record::{Better, Metric};

record::metrics! {
    /// What an interference case says.
    pub(super) METRICS {
        SLOWDOWN: Slowdown = found::SLOWDOWN.metric(),
        ALONE_S: f64 = Metric::new("alone_s", "s", Better::Lower, "time of the same activity alone"),
        BESIDE_S: f64 = Metric::new(
            "beside_s",
            "s",
            Better::Lower,
            "time of one unit of the other activity meanwhile, on the slowest rank",
        ),
    }
}
