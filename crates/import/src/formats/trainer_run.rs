//! A training by the Trainer of Hugging Face transformers: what its summary and its evaluations say of the time of a
//! step. `speed_metrics` of `src/transformers/trainer_utils.py` computes the summary.

use super::training_log::LoggedStep;
use crate::Results;
use crate::counted::counted;

/// What is known of one training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TrainerRun {
    /// `train_runtime`: seconds from the start of the training to its end, with evaluations and checkpoints.
    pub(super) runtime_s: f64,
    /// `train_steps_per_second`, which is rounded; 0 if unknown.
    pub(super) steps_per_s: f64,
    /// Half of the last digit of `train_steps_per_second`.
    pub(super) rounding: f64,
    /// Steps of the training, if they are known by another way.
    pub(super) steps: Option<u64>,
    /// The sum of `eval_runtime` within the training, in seconds, and how many.
    pub(super) evaluations: (f64, u64),
    /// The last loss.
    pub(super) loss: Option<f64>,
    pub(super) global_batch: Option<u64>,
}

impl TrainerRun {
    /// The training as one step that stands for all.
    ///
    /// # Errors
    /// Why the time of a step does not follow.
    pub(super) fn step(&self, results: &mut Results) -> Result<LoggedStep, String> {
        let steps = self.steps(results)?;
        let (evaluated_s, evaluations) = self.evaluations;
        let time_s = (self.runtime_s - evaluated_s) / steps;
        if !(time_s > 0.0 && time_s.is_finite()) {
            return Err("`train_runtime` without the evaluations leaves no time for steps".to_owned());
        }
        results.note(
            "the time of a step is `train_runtime` over the steps: the start of the training and checkpoints count",
        );
        if evaluations > 0 {
            let what = counted(evaluations, "evaluation is", "evaluations are");
            results.note(format!("{what} not counted: `eval_runtime`, {evaluated_s:.1} s together"));
        }
        let number = self.steps.unwrap_or(1);
        Ok(LoggedStep { number, time_s, global_batch: self.global_batch, loss: self.loss, ..LoggedStep::default() })
    }

    /// The number of steps.
    fn steps(&self, results: &mut Results) -> Result<f64, String> {
        let by_rate = self.steps_per_s * self.runtime_s;
        if let Some(steps) = self.steps {
            let steps = steps as f64;
            let margin = self.rounding * self.runtime_s + 0.002 * steps;
            // The training went on from a checkpoint, or another program wrote the count.
            if self.steps_per_s > 0.0 && (by_rate - steps).abs() > margin {
                return Err(format!(
                    "`train_steps_per_second` x `train_runtime` is {by_rate:.1} steps, and the log counts {steps}"
                ));
            }
            return Ok(steps);
        }
        if !(by_rate > 0.0 && by_rate.is_finite()) {
            return Err("neither a number of steps nor `train_steps_per_second` tells how long a step took".to_owned());
        }
        let percent = 100.0 * self.rounding / self.steps_per_s;
        results.note(format!("`train_steps_per_second` is rounded: the time of a step may be off by {percent:.2}%"));
        Ok(by_rate)
    }
}

/// Whether a key has the time of an evaluation: `eval_runtime`, and `eval_squad_runtime` where the data set has a name.
pub(super) fn is_time_of_evaluation(key: &str) -> bool {
    key.starts_with("eval_") && key.ends_with("_runtime")
}

/// Half of the last digit of a number as it is printed: 0.0005 of `0.275`.
pub(super) fn rounding(word: &str) -> f64 {
    let (digits, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let power = exponent.parse::<i32>().unwrap_or(0) - i32::try_from(decimals).unwrap_or(0);
    0.5 * 10f64.powi(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_sets_have_names_in_the_keys_of_their_evaluations() {
        for (key, expected) in [
            ("eval_runtime", true),
            ("eval_squad_runtime", true),
            ("eval_loss", false),
            ("train_runtime", false),
            ("eval_runtimes", false),
        ] {
            assert_eq!(is_time_of_evaluation(key), expected, "{key}");
        }
    }

    #[test]
    fn rounding_is_half_of_the_last_digit() {
        let near = |word: &str, expected: f64| assert!((rounding(word) / expected - 1.0).abs() < 1e-9, "{word}");
        near("0.275", 0.0005);
        near("15.2", 0.05);
        near("3", 0.5);
        near("1.5e-03", 0.00005);
    }
}
