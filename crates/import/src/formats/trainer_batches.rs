//! What a training prints of its batches at its start, by the Trainer of Hugging Face transformers and by scripts with Accelerate:
//! `  Total train batch size (w. parallel, distributed & accumulation) = 256`.

use super::training_runs::Log;

/// Batches of a training; 0 if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batches {
    /// Samples of a device at once.
    device: u64,
    /// Steps of accumulation.
    accumulation: u64,
    /// Steps of the training.
    pub(super) steps: u64,
}

/// The first line of a training.
pub(super) const FIRST: &str = "Num examples";

const NAMES: &[&str] = &[
    FIRST,
    "Num Epochs",
    "Instantaneous batch size per device",
    "Total train batch size (w. parallel, distributed & accumulation)",
    "Gradient Accumulation steps",
    "Total optimization steps",
    "Number of trainable parameters",
];

/// What is said of ranks that follow from batches.
pub(super) const NOTE: &str = "ranks are the total batch over the batch of a device and the steps of accumulation";

/// Name and value of a line.
pub(super) fn line(text: &str) -> Option<(&'static str, &str)> {
    let (before, value) = text.split_once(" = ")?;
    let name = NAMES.iter().find(|name| before.trim_end().ends_with(**name))?;
    Some((name, value.trim()))
}

impl Batches {
    /// Takes a value, and the ranks that follow once all are known. Whether they do.
    pub(super) fn take(&mut self, name: &str, value: u64, log: &mut Log<'_>, ranks_are_given: bool) -> bool {
        match name {
            "Instantaneous batch size per device" => self.device = value,
            "Gradient Accumulation steps" => self.accumulation = value,
            "Total optimization steps" => self.steps = value,
            _ if name.starts_with("Total train batch size") => {
                log.job.global_batch = Some(value).filter(|all| *all > 0)
            }
            _ => {}
        }
        let part = self.device.saturating_mul(self.accumulation);
        let ranks = log.job.global_batch.filter(|all| part > 0 && all.is_multiple_of(part)).map(|all| all / part);
        let Some(ranks) = ranks.filter(|_| !ranks_are_given) else { return false };
        log.job.ranks = ranks;
        true
    }
}
