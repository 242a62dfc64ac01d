//! The pipeline bubble: what was measured against what the schedule predicts.

use serde::Serialize;

use super::Pipeline;
use super::series::Series;

/// Time that pipeline stages wait for each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bubble {
    /// Blocked in send and recv per step, mean over ranks. It holds the time in which bytes move.
    pub measured_s: Series,
    /// Mean of `measured_s` over the mean step time.
    pub measured_share: f64,
    /// `(p - 1) / (m + p - 1)` of p stages and m micro-batches (Huang et al., GPipe, 2019, arXiv 1811.06965; the same for
    /// 1F1B). None where these are not given.
    pub theory_share: Option<f64>,
}

/// The bubble; None without transfers between two ranks.
pub(super) fn bubble(measured_s: Series, step_s: f64, pipeline: Option<Pipeline>) -> Option<Bubble> {
    let measured = measured_s.mean();
    if measured <= 0.0 || step_s <= 0.0 {
        return None;
    }
    let theory = |pipeline: Pipeline| {
        let (stages, micro_batches) = (f64::from(pipeline.stages), f64::from(pipeline.micro_batches));
        (stages - 1.0) / (micro_batches + stages - 1.0)
    };
    let given = pipeline.filter(|pipeline| pipeline.stages > 0 && pipeline.micro_batches > 0);
    Some(Bubble { measured_share: measured / step_s, measured_s, theory_share: given.map(theory) })
}
