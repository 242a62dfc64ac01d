//! Whether steps give the same bits again: the first steps made twice from the same parameters and samples, before any is timed.

use comm::Communicator;
use contract::bits::{compared, difference, in_short};
use contract::fields::problem;
use contract::reproducible::{self, Noted};
use contract::{Measured, Relations};
use measure::Failure;
use parallel::Trainer;
use record::reproducible::{Difference, Reproducible};
use record::{Case, CaseLine};
use terms::{Dtype, FieldError};

use super::fields::Repeating;
use super::metrics::read_notes;
use super::resolve::Task;

/// Steps of a run.
const STEPS: u64 = 4;
/// Runs of these steps.
const RUNS: u64 = 2;

/// Fields that say what is trained. Cases that differ in them have different losses; in the others, an implementation is chosen.
const FIXED: &[&str] = &[
    // Each runtime has its own kernels.
    "runtime",
    "model",
    "strategy",
    "mesh",
    "ranks",
    "precision",
    "batch",
    "global_batch",
    "optimizer",
    "learning_rate",
    "momentum",
    "weight_decay",
    "clip",
    "communicate",
    "synchronised",
    "data_mmap",
    "data_kind",
    "seed",
    "compute",
    "sleep_table",
    "sleep_time",
    "sleep_jitter",
    "sleep_tail",
    "reproducible",
    "layers",
    "width",
    "heads",
    "kv_heads",
    "ffn",
    "vocabulary",
    "sequence",
    "positions",
    "segments",
    "dropout",
    "tied",
    "features",
    "classes",
    "image",
    "stage1",
    "stage2",
    "stage3",
    "stage4",
];

/// Refuses ranks that cannot repeat their steps.
pub(super) fn check(case: &Case, task: &Task) -> Result<(), FieldError> {
    if !Repeating::of(case)?.reproducible {
        return Ok(());
    }
    if task.sleep.is_some() {
        let message = "`reproducible` would always hold: blocks that sleep compute nothing";
        return Err(problem("reproducible", message, "`compute: native`"));
    }
    Ok(())
}

/// Makes the first steps several times, and goes back to the beginning. Collective.
pub(super) fn steps(trainer: &mut Trainer, comm: &mut dyn Communicator) -> Result<Noted, Failure> {
    let mut noted = Noted::default();
    let mut first: Option<(Vec<u8>, u64)> = None;
    for number in 1..=RUNS {
        trainer.reset().map_err(failed)?;
        let mut losses = Vec::new();
        for _ in 0..STEPS {
            let step = trainer.step(comm).map_err(failed)?;
            losses.extend(step.loss.to_ne_bytes());
        }
        let digest = trainer.digest_of_parameters().map_err(failed)?;
        noted.results += 1;
        match &first {
            Some(known) => noted.calls = noted.calls.or_else(|| Some((number, apart(known, &(losses, digest))?))),
            None => {
                noted.bits = Some(in_short(Dtype::F64, &losses));
                first = Some((losses, digest));
            }
        }
    }
    trainer.reset().map_err(failed)?;
    Ok(noted)
}

fn failed(error: parallel::TrainerError) -> Failure {
    Failure::new(error.to_string())
}

/// How two runs of the steps differ: in a loss, or in the parameters behind the last step.
fn apart((from, known): &(Vec<u8>, u64), (to, digest): &(Vec<u8>, u64)) -> Option<Difference> {
    let of_parameters = || Difference {
        first: STEPS - 1,
        end: STEPS,
        values: Some([known, digest].map(|digest| format!("parameters {digest:016x}"))),
        ..Difference::default()
    };
    difference(Dtype::F64, from, to).or_else(|| (known != digest).then(of_parameters))
}

/// What the trials say of repeated steps; None where none were repeated.
pub(super) fn found(measured: &Measured<'_>) -> Option<Reproducible> {
    // Ranks that are kept for the next trial have repeated their steps once.
    let begun = measured.trials.iter().enumerate().filter(|(number, trial)| *number == 0 || trial.fresh);
    let of_ranks = |trial| -> Vec<Option<Noted>> {
        read_notes(Some(trial)).into_iter().flatten().map(|notes| notes.repeated).collect()
    };
    let mut trials: Vec<Vec<Option<Noted>>> = begun.map(|(_, trial)| of_ranks(trial)).collect();
    trials.iter_mut().for_each(|ranks| with_rank_0(ranks));
    reproducible::within("step", true, &trials)
}

/// Every rank has the loss of all samples.
fn with_rank_0(ranks: &mut [Option<Noted>]) {
    let Some((Some(Noted { bits: Some(first), .. }), others)) = ranks.split_first_mut() else { return };
    for other in others.iter_mut().flatten() {
        if let Some(found) = other.bits.as_ref().and_then(|bits| compared(first, bits)) {
            (other.with_rank_0, other.ranks) = (true, found);
        }
    }
}

/// Comparisons with other cases of the run.
pub(super) fn relations<'a>(all: &[&'a CaseLine]) -> Relations<'a> {
    reproducible::relations(all, FIXED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrainingBenchmark;
    use contract::Benchmark;
    use measure::Trial;
    use record::TimeSummary;
    use serde_json::Map;

    use super::super::notes::Notes;

    fn losses(last: f64) -> Vec<u8> {
        [3.0f64, 2.0, 1.5, last].iter().flat_map(|loss| loss.to_ne_bytes()).collect()
    }

    #[test]
    fn a_loss_or_a_parameter_that_differs_is_named() {
        assert_eq!(apart(&(losses(1.0), 7), &(losses(1.0), 7)), None);
        let next = f64::from_bits(1.0f64.to_bits() + 1);
        let by = apart(&(losses(1.0), 7), &(losses(next), 8)).unwrap();
        assert_eq!((by.first, by.ulps, by.values.unwrap()[0].as_str()), (3, Some(1), "1"));
        let by = apart(&(losses(1.0), 7), &(losses(1.0), 8)).unwrap();
        assert_eq!(by.values.unwrap(), ["parameters 0000000000000007", "parameters 0000000000000008"]);
    }

    fn trial(fresh: bool, ranks: [f64; 2]) -> Trial {
        let details = |last: f64| -> Map<String, serde_json::Value> {
            let bits = Some(in_short(Dtype::F64, &losses(last)));
            let repeated = Some(Noted { bits, results: 2, ..Noted::default() });
            Notes { repeated, ..Notes::default() }.write()
        };
        Trial { fresh, details: ranks.map(details).to_vec(), ..Trial::default() }
    }

    fn compare_trials(trials: &[Trial]) -> Reproducible {
        found(&Measured { times: &TimeSummary::default(), limit: None, peak: None, trials }).unwrap()
    }

    #[test]
    fn runs_ranks_and_fresh_trials_are_compared() {
        let same = compare_trials(&[trial(true, [1.0, 1.0]), trial(false, [1.0, 1.0]), trial(true, [1.0, 1.0])]);
        assert_eq!((same.share(), same.results, same.trials, same.ranks), (Some(1.0), 4, 2, 2), "one trial was kept");
        let ranks = compare_trials(&[trial(true, [1.0, 1.25])]);
        assert_eq!(ranks.within[0].difference.as_ref().map(|by| by.first), Some(3));
        let trials = compare_trials(&[trial(true, [1.0, 1.0]), trial(true, [1.25, 1.25])]);
        let differing: Vec<&str> =
            trials.within.iter().filter(|one| one.difference.is_some()).map(|one| one.varied.as_str()).collect();
        assert_eq!(differing, ["trials"]);
    }

    #[test]
    fn what_cannot_repeat_its_steps_is_refused() {
        let plan = |fields: &[(&str, &str)]| {
            record::plan::from_flags(TrainingBenchmark.about(), fields, &[]).map_err(|errors| errors.to_string())
        };
        let asked = ("reproducible", "true");
        let error = plan(&[asked, ("compute", "sleep")]).unwrap_err();
        assert!(error.contains("compute nothing"), "{error}");
        assert_eq!(plan(&[asked, ("runtime", "pytorch")]).unwrap().cases[0].skip, None);
        let plain = plan(&[]).unwrap().cases.remove(0);
        assert!(!plain.parameters.contains_key("reproducible"));
        assert_eq!(plan(&[asked]).unwrap().cases.len(), 1);
        let fields = TrainingBenchmark.about().all_fields();
        let names: Vec<&str> = fields.map(|field| field.name).collect();
        assert!(FIXED.iter().all(|name| names.contains(name)), "a name is not a field");
    }
}
