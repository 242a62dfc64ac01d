//! The metrics of hardware cases.

use record::{Better, Ceiling, Metric, Shape, found};
use serde_json::Value;

use super::pairs_found::{Cells, ListedPairs, Pairs};
use super::results::RoundResults;

record::metrics! {
    /// What a hardware case says.
    pub(super) METRICS {
        GBS: f64 =
            Metric::new("gbs", "GB/s", Better::Higher, "bytes that the test reads and writes (STREAM), or sends, / time")
                .shape(Shape::Rate),
        MOVED_GBS: f64 = Metric::new(
            "moved_gbs",
            "GB/s",
            Better::Higher,
            "the same plus write-allocate: cache lines that are read before they are written",
        )
        .shape(Shape::Rate),
        GFLOPS: f64 =
            Metric::new("gflops", "GFLOP/s", Better::Higher, "multiplications and additions / time, all ranks")
                .shape(Shape::Rate),
        LOOP: Value = Metric::new("loop", "", Better::Higher, "the instructions that compute").shape(Shape::Word),
        CACHE: String = found::CACHE.metric(),
        PAIR_S: Cells = Metric::new("pair_s", "s", Better::Lower, "time of one message from rank (row) to rank (column)")
            .shape(Shape::Matrix),
        PAIR_TIMES: ListedPairs = Metric::new(
            "pair_times",
            "s",
            Better::Lower,
            "more than 64 ranks: the pairs that were measured, and the time of one message between each",
        )
        .shape(Shape::Map),
        PAIR_US: Cells =
            Metric::new("pair_us", "us", Better::Lower, "the same in microseconds").shape(Shape::Matrix),
        PAIR_GBS: Cells =
            Metric::new("pair_gbs", "GB/s", Better::Higher, "bytes of one message / its time, each direction")
                .shape(Shape::Matrix),
        PAIRS: Pairs =
            Metric::new("pairs", "", Better::Higher, "median and slowest pair, and ranks and pairs that are slow")
                .shape(Shape::Map),
        NODE_GBS: Vec<Vec<f64>> = Metric::new(
            "node_gbs",
            "GB/s",
            Better::Higher,
            "triad from the cores of a node (row) to memory of a node (column)",
        )
        .shape(Shape::Matrix),
        RESULTS: RoundResults = Metric::new(
            "results",
            "",
            Better::Higher,
            "results: operations of a round, and the rounds of each rank by the digest of what they left",
        )
        .shape(Shape::Map)
        .evidence(),
        CEILING: Ceiling = record::CEILING.metric(),
    }
}
