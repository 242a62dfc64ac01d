//! The parts of a step that bars, charts and tables show: of the device where every rank has one, else of the step's thread.

use diagnose::profile::{Analysis, RankSteps};

/// What the parts are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepParts {
    Host,
    Device,
}

/// In the order of bars, each with its letter.
const HOST: [(&str, char); 6] =
    [("input", 'i'), ("forward", 'f'), ("backward", 'b'), ("optimizer", 'o'), ("host", 'h'), ("wait", '.')];
/// Communication is what no kernel overlaps; input and idle are time without either.
const DEVICE: [(&str, char); 4] = [("kernels", 'k'), ("communication", 'c'), ("input", 'i'), ("idle", '.')];

impl StepParts {
    pub(super) fn from_analysis(analysis: &Analysis) -> Self {
        let ranks = &analysis.steps.ranks;
        let on_device = !ranks.is_empty() && ranks.iter().all(|rank| rank.device.is_some());
        if on_device { Self::Device } else { Self::Host }
    }

    /// Names and letters of the parts.
    pub(super) fn kinds(self) -> &'static [(&'static str, char)] {
        match self {
            Self::Host => &HOST,
            Self::Device => &DEVICE,
        }
    }

    /// Seconds of a rank's mean step by part: they add up to it.
    pub(super) fn seconds(self, rank: &RankSteps) -> Vec<f64> {
        let host = [&rank.input, &rank.forward, &rank.backward, &rank.optimizer, &rank.other, &rank.wait];
        match (self, &rank.device, &rank.device_input) {
            (Self::Device, Some(kernels), Some(input)) => {
                let named = [kernels, &rank.blocked, input];
                let rest = |step: usize| {
                    let sum: f64 = named.iter().map(|series| series.values[step]).sum();
                    (rank.total.values[step] - sum).max(0.0)
                };
                let steps = rank.total.values.len();
                let idle = (0..steps).map(rest).sum::<f64>() / steps.max(1) as f64;
                named.iter().map(|series| series.mean()).chain([idle]).collect()
            }
            _ => host.map(|series| series.mean()).to_vec(),
        }
    }
}
