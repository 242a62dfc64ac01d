//! The metrics of primitive cases, and what those hold that have several members.

use record::{Better, Metric, Shape};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

record::metrics! {
    /// What a primitive's case says.
    pub(super) METRICS {
        TFLOPS: f64 =
            Metric::new("tflops", "TFLOP/s", Better::Higher, "operations of the whole problem / time").shape(Shape::Rate),
        TFLOPS_PER_RANK: f64 =
            Metric::new("tflops_per_rank", "TFLOP/s", Better::Higher, "operations that one rank does / time")
                .shape(Shape::Rate),
        VARIANT: String =
            Metric::new("variant", "", Better::Higher, "the implementation with its options").shape(Shape::Word),
        ORDER: String =
            Metric::new("order", "", Better::Higher, "what is communicated before or after the product").shape(Shape::Word),
        RANK_IMBALANCE: f64 =
            Metric::new("rank_imbalance", "", Better::Lower, "tokens of the rank that gets most / mean over ranks"),
        EXPERT_IMBALANCE: f64 =
            Metric::new("expert_imbalance", "", Better::Lower, "tokens of the expert that gets most / mean over experts"),
        MAX_VIO: f64 =
            Metric::new("max_vio", "", Better::Lower, "(tokens of the expert that gets most - mean) / mean over experts"),
        BALANCEDNESS: f64 =
            Metric::new("balancedness", "", Better::Higher, "mean over ranks / tokens of the rank that gets most"),
        CONDITIONS: Map<String, Value> =
            Metric::new("conditions", "", Better::Higher, "threads, kernel, buffer bytes, mode and warm-up of the case")
                .shape(Shape::Map),
        OVERLAP: Overlap =
            Metric::new("overlap", "", Better::Higher, "the four times of its order, and what follows from them")
                .shape(Shape::Map),
    }
}

/// The four times of an order, and what follows from them: the metric `overlap`. What was not measured is left out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Overlap {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compute_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) communication_s: Option<f64>,
    /// The communication's two parts, apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dispatch_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) combine_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sequential_s: Option<f64>,
    pub(super) audit: Audit,
    /// Speedup against the fastest sequential way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speedup: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speedup_ci95: Option<[f64; 2]>,
    /// Time of the communication over that of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    /// Whether that leaves something to overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) worth: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speed_of_light: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) speed_of_light_ci95: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) efficiency: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) efficiency_ci95: Option<[f64; 2]>,
}

/// Which conditions are the same in all cases that are compared.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Audit {
    pub(super) same: Vec<String>,
    pub(super) differ: Vec<String>,
    /// Bytes of the buffers of each implementation.
    pub(super) buffer_bytes: Map<String, Value>,
}
