//! Predictions of a plan's cases: sealed before the cases are measured, and judged by what the record then has.

use std::collections::BTreeMap;
use std::path::Path;

use predict::calibrate::{Drift, Given, again, drift, exchange_of, machine_profile};
use predict::check::{Found, Regrets};
use predict::judged::{Line, WorkUnit, flops};
use predict::{Judged, Predictor, Workload};
use record::{Case, CaseLine, Plan, PlanErrors, Record};
use serde_json::{Value, json};
use terms::{Error, Status};

use crate::calibration::caches;
use crate::measured_steps::workload;

/// A case with its prediction.
struct SealedCase {
    id: String,
    step_s: f64,
    interval: Option<(f64, f64)>,
    /// Operations of a rank's step, or bytes of an exchange.
    work: (WorkUnit, f64),
}

/// What is predicted of a plan before it is measured.
pub struct SealedPlan<'p> {
    predictor: &'p Predictor,
    cases: Vec<SealedCase>,
}

impl<'p> SealedPlan<'p> {
    /// Predicts the cases of the plan in this file, and adds some that tell whether the machine is as fast as in its profile.
    ///
    /// # Errors
    /// When no case can be predicted.
    pub fn new(predictor: &'p Predictor, plan: &mut Plan, path: &Path) -> Result<Self, PlanErrors> {
        benchmarks::complete(plan);
        let cases = plan.cases.iter().filter_map(|case| predicted(predictor, case).transpose());
        let cases: Vec<SealedCase> = cases.collect::<Result<_, _>>()?;
        if cases.is_empty() {
            return Err(Error::new(format!("{} has no case that can be predicted", path.display()))
                .hint("cases of `benchmark: training` on native ranks, or of collectives without groups")
                .into());
        }
        if let Some(text) = again(&predictor.profile, caches()) {
            let mut own = record::plan::read(&text, "operations of the profile", &benchmarks::abouts(), &[])?;
            benchmarks::complete(&mut own);
            own.cases.retain(|case| plan.cases.iter().all(|known| known.id != case.id));
            plan.cases.extend(own.cases);
        }
        Ok(Self { predictor, cases })
    }

    /// How many cases are predicted.
    pub fn count(&self) -> usize {
        self.cases.len()
    }

    /// What is sealed.
    pub fn text(&self) -> String {
        let case = |case: &SealedCase| {
            let ends = case.interval.map(|ends| [ends.0, ends.1]);
            json!({ "case": case.id, "step_s": case.step_s, "interval90_s": ends })
        };
        let cases: Vec<Value> = self.cases.iter().map(case).collect();
        format!("{}\n", json!({ "predicted": true, "machine": self.predictor.profile.name, "cases": cases }))
    }

    /// How far off the predictions are.
    pub fn judged(&self, record: &Record) -> Found {
        let drift = self.drift(record);
        let pace = drift.map_or(1.0, |drift| drift.pace(self.predictor.profile.launch_spread));
        Found {
            judged: judge(&self.cases, &record.cases, pace),
            sealed: judge(&self.cases, &record.cases, 1.0),
            drift,
            pace,
            regrets: regrets(&self.cases, &record.cases),
        }
    }

    /// How fast the machine was in this run, by the profile; None where nothing of it was measured again.
    fn drift(&self, record: &Record) -> Option<Drift> {
        let then = &self.predictor.profile;
        let given = Given { ranks: then.ranks_per_node, ..Given::default() };
        drift(then, &machine_profile(&record.cases, &record.file.machine, given).ok()?)
    }
}

/// A case's prediction; None for cases of other benchmarks.
fn predicted(predictor: &Predictor, case: &Case) -> Result<Option<SealedCase>, Error> {
    let id = case.id.clone();
    if let Some((operation, ranks, bytes)) = exchange_of(case) {
        let pace = benchmarks::pace_of(&case.parameters)?;
        let (step_s, interval) = predictor.exchange(operation, ranks, bytes, pace);
        return Ok(Some(SealedCase { id, step_s, interval: Some(interval), work: (WorkUnit::Bytes, bytes as f64) }));
    }
    let Some(workload) = workload(case)? else { return Ok(None) };
    let work = (WorkUnit::Operations, flops(&workload.recipe));
    let prediction = predictor.predict(&workload)?;
    Ok(Some(SealedCase { id, step_s: prediction.seconds, interval: prediction.interval, work }))
}

/// Each prediction with the case as it was measured, and its time.
fn pairs<'a>(sealed: &'a [SealedCase], lines: &'a [CaseLine]) -> impl Iterator<Item = (&'a SealedCase, Case, f64)> {
    sealed.iter().filter_map(|case| {
        let line = lines.iter().find(|line| line.id == case.id && line.status == Status::Ok)?;
        Some((case, Case::new(&line.benchmark, line.parameters.clone()), line.time_s.as_ref()?.median))
    })
}

/// Errors of predictions, for a machine that takes `pace` times as long as when it was calibrated.
fn judge(sealed: &[SealedCase], lines: &[CaseLine], pace: f64) -> Judged {
    let mut judged = Judged::default();
    for (sealed, case, seconds) in pairs(sealed, lines) {
        let (measured_s, predicted_s) = (seconds / pace, sealed.step_s);
        let line =
            |(model, mesh, micro_batch, micros)| Line { model, mesh, micro_batch, micros, measured_s, predicted_s };
        if let Some(named) = named(&case) {
            judged.add(line(named), sealed.interval, sealed.work);
        }
    }
    judged
}

/// What a row says of its case: the model or exchange, the mesh or ranks, samples of a micro-batch, micro-batches.
fn named(case: &Case) -> Option<(String, String, usize, usize)> {
    if let Some((operation, ranks, bytes)) = exchange_of(case) {
        let ranks = view::number::count(ranks as usize, "rank", "ranks");
        return Some((format!("{operation}, {bytes} B"), ranks, 0, 0));
    }
    let (recipe, _) = benchmarks::recipe(case)?.ok()?;
    Some((recipe.model.name.clone(), recipe.mesh.to_string(), recipe.micro_batch, recipe.micro_batches[0]))
}

/// Regrets over groups of cases that are one job.
fn regrets(sealed: &[SealedCase], lines: &[CaseLine]) -> Regrets {
    let mut groups: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (sealed, case, seconds) in pairs(sealed, lines) {
        if let Some(job) = job(&case) {
            groups.entry(job).or_default().push((sealed.step_s, seconds));
        }
    }
    Regrets::of(groups.into_values())
}

/// What a case of training has to do and with what, as one word: of these, nothing is chosen. None for cases of other benchmarks.
fn job(case: &Case) -> Option<String> {
    let Workload { recipe, emulated, .. } = workload(case).ok()??;
    let given = (&recipe.model, &recipe.precision, &recipe.optimizer, &recipe.clip);
    Some(format!("{:?}", (given, recipe.mesh.ranks(), recipe.global_batch(), emulated)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured_steps::tests::line;

    /// A case of a plan that takes so long, and that was predicted to.
    fn measured(case: &str, seconds: f64) -> (SealedCase, CaseLine) {
        let line = line(case, seconds);
        let work = (WorkUnit::Operations, 1.0);
        (SealedCase { id: line.id.clone(), step_s: seconds, interval: None, work }, line)
    }

    #[test]
    fn only_cases_of_one_job_are_a_choice() {
        let plain = "benchmark: training, model: gpt2-mini, backend: shm, ranks: 2, batch: 2";
        let choices = |other: &str| {
            let cases = [measured(plain, 1.0), measured(&format!("{plain}, {other}"), 2.0)];
            let (sealed, lines): (Vec<SealedCase>, Vec<CaseLine>) = cases.into_iter().unzip();
            regrets(&sealed, &lines).choices
        };
        let asleep = "compute: sleep, sleep_time: 1ms, sleep_jitter: 0";
        for other in ["pace_bandwidth: 100MB/s", "sequence: 64", "heads: 2", asleep] {
            assert_eq!(choices(other), 0, "another link, model or time of a pass is not chosen: {other}");
        }
        assert_eq!(choices("overlap: false"), 1);
    }
}
