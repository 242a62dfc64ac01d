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

/// The first line of the head of a training, of an evaluation and of a prediction.
pub(super) const EXAMPLES: &str = "Num examples";
/// The line behind it in the head of a training.
const EPOCHS: &str = "Num Epochs";
/// The line behind it in the head of an evaluation or a prediction, and of trainings by some scripts.
const BATCH: &str = "Batch size";

const NAMES: &[&str] = &[
    EXAMPLES,
    EPOCHS,
    BATCH,
    "Instantaneous batch size per device",
    "Total train batch size (w. parallel, distributed & accumulation)",
    "Gradient Accumulation steps",
    "Total optimization steps",
    "Number of trainable parameters",
];

/// What is said of ranks that follow from batches.
pub(super) const NOTE: &str = "ranks are the total batch over the batch of a device and the steps of accumulation";

/// Heads of trainings and of evaluations, line by line. Each begins with `Num examples`, so only the line behind tells what begins.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The examples of a head of which nothing else was read yet.
    examples: Option<String>,
    /// Whether the title above is not that of a training; None where no title stands above.
    evaluates: Option<bool>,
}

/// What a line of a head says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeadLine<'t> {
    /// Something of a training.
    Training(TrainingLine<'t>),
    /// Nothing of a training, or nothing until the next line is known.
    Other,
}

/// Name and value of a line in the head of a training.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TrainingLine<'t> {
    pub(super) name: &'static str,
    pub(super) value: &'t str,
    /// Whether a training begins here.
    pub(super) begins: bool,
    /// What the line above said of the examples of the training that begins.
    pub(super) examples: Option<String>,
}

impl Heads {
    /// Takes the next line. None where it is of no head, or is the title of one.
    pub(super) fn line<'t>(&mut self, text: &'t str) -> Option<HeadLine<'t>> {
        self.evaluates = evaluates(text).or(self.evaluates);
        let (name, value) = named(text)?;
        let examples = self.examples.take();
        if name == EXAMPLES {
            self.examples = Some(value.to_owned());
            return Some(HeadLine::Other);
        }
        let evaluates = self.evaluates.take();
        if name == BATCH && evaluates != Some(false) {
            // A person may write such a line, too. An evaluation of data without a length says no examples.
            return (evaluates.is_some() || examples.is_some()).then_some(HeadLine::Other);
        }
        let begins = examples.is_some() || name == EPOCHS;
        Some(HeadLine::Training(TrainingLine { name, value, begins, examples }))
    }
}

/// Whether a line is the title above the head of an evaluation or a prediction.
pub(super) fn is_title_of_evaluation(text: &str) -> bool {
    evaluates(text) == Some(true)
}

/// Whether what begins below a title is not a training; None where a line is not a title.
fn evaluates(text: &str) -> Option<bool> {
    let (_, what) = text.split_once("***** Running ")?;
    Some(!["training", "Training"].iter().any(|word| what.starts_with(word)))
}

/// Name and value of a line.
fn named(text: &str) -> Option<(&'static str, &str)> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_behind_the_examples_tells_what_begins() {
        let mut heads = Heads::default();
        let training = |name, value, begins, examples: Option<&str>| {
            let examples = examples.map(str::to_owned);
            Some(HeadLine::Training(TrainingLine { name, value, begins, examples }))
        };
        // A person's line.
        assert_eq!(heads.line("Batch size = 8"), None);
        assert_eq!(heads.line("***** Running training *****"), None);
        let examples = "[INFO|trainer.py:2079] 2025-01-09 11:53:02,473 >>   Num examples = 6,668";
        assert_eq!(heads.line(examples), Some(HeadLine::Other));
        assert_eq!(heads.line("  Num Epochs = 3"), training("Num Epochs", "3", true, Some("6,668")));
        let steps = "Total optimization steps";
        assert_eq!(heads.line("  Total optimization steps = 50"), training(steps, "50", false, None));
        assert_eq!(heads.line("***** Running Evaluation *****"), None);
        assert_eq!(heads.line("  Num examples = 1667"), Some(HeadLine::Other));
        assert_eq!(heads.line("  Batch size = 2"), Some(HeadLine::Other));
        assert_eq!(heads.line("  Total optimization steps = 50"), training(steps, "50", false, None));
        // Of data without a length.
        assert_eq!(heads.line("***** Running Prediction *****"), None);
        assert_eq!(heads.line("  Num examples: Unknown"), None);
        assert_eq!(heads.line("  Batch size = 2"), Some(HeadLine::Other));
        assert_eq!(heads.line("  Batch size = 2"), None);
        // A head without epochs, and one without examples.
        assert_eq!(heads.line("  Num examples = 9"), Some(HeadLine::Other));
        assert_eq!(heads.line("  Total optimization steps = 50"), training(steps, "50", true, Some("9")));
        assert_eq!(heads.line("  Num Epochs = 3"), training("Num Epochs", "3", true, None));
        // A script whose training says its batch there.
        assert_eq!(heads.line("***** Running training *****"), None);
        assert_eq!(heads.line("  Num examples = 9"), Some(HeadLine::Other));
        assert_eq!(heads.line("  Batch size = 2"), training("Batch size", "2", true, Some("9")));
    }
}
