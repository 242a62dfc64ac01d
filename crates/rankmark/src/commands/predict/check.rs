//! `predict --check PLAN`: predicts, seals, measures, and says how far off the predictions were.

use std::path::Path;

use parallel::Recipe;
use predict::calibrate::{Drift, Given, again, drift, exchange_of, machine_profile};
use predict::check::{Found, Regrets, gates};
use predict::judged::{Line, WorkUnit, flops};
use predict::{Emulated, Judged, Predictor, Workload};
use record::{Case, CaseLine, Plan, Record, SEAL, read_run, seal};
use serde_json::{Value, json};
use terms::Status;

use crate::commands::Ended;
use crate::commands::calibrate::caches;
use crate::options::{LabelOptions, Output, RunOptions, Whole};
use crate::session::{self, Entry, SessionRequest};
use crate::{Failure, plan_files, screen};

/// A case with its prediction.
struct Sealed {
    id: String,
    step_s: f64,
    interval: Option<(f64, f64)>,
    /// Operations of a rank's step, or bytes of an exchange.
    work: (WorkUnit, f64),
}

/// Predicts the cases of a plan before it measures them, interleaved with some of what the profile has.
///
/// # Errors
/// When the plan has no case that can be predicted, or cannot run.
pub(super) fn run(
    predictor: &Predictor,
    path: &Path,
    (output_dir, as_json): (Option<&Path>, bool),
    entry: Entry<'_>,
) -> Ended {
    let mut plan = plan_files::load(path, &[], entry.coordinator)?.plan;
    benchmarks::complete(&mut plan);
    let sealed: Vec<Sealed> =
        plan.cases.iter().filter_map(|case| predicted(predictor, case).transpose()).collect::<Result<_, _>>()?;
    if sealed.is_empty() {
        return Err(Failure::new(format!("{} has no case that can be predicted", path.display()))
            .hint("cases of `benchmark: training` on native ranks, or of collectives without groups"));
    }
    add_calibration(predictor, &mut plan)?;
    let text = text(predictor, &sealed);
    let digest = seal(&text);
    screen::remark(&format!("predicted {}, sha256 {digest}\n", view::number::count(sealed.len(), "case", "cases")));
    let output = Output { output_dir: output_dir.map(Path::to_owned), quiet: as_json, ..Output::default() };
    let labels = LabelOptions::noted(format!("{SEAL} {digest}"));
    let run_options = RunOptions { output, whole: Whole::labelled(labels), has_plan: true, ..RunOptions::default() };
    let request = SessionRequest { predictions: Some(&text), ..SessionRequest::new(&run_options, entry) };
    let ended = session::measure(&request, Some(plan))?;
    let Some(directory) = ended.directory else { return Ok(ended.code) };
    let record = read_run(&directory)?;
    let drift = drift_of(predictor, &record);
    let pace = drift.map_or(1.0, |drift| drift.pace(predictor.profile.launch_spread));
    let found = Found {
        judged: judge(&sealed, &record.cases, pace),
        sealed: judge(&sealed, &record.cases, 1.0),
        drift,
        pace,
        regrets: regrets(&sealed, &record.cases),
    };
    let gates = gates(&found.judged, &found.regrets);
    let printed = match as_json {
        true => screen::print_json(&format!("{}\n", found.json(predictor, &digest, &gates))),
        false => screen::print(&(predict::text::banner(predictor) + &found.text(&gates, screen::width()))),
    }?;
    let missed = u8::from(gates.iter().any(|gate| !gate.holds));
    Ok(ended.code.max(printed).max(missed))
}

/// Adds what tells whether the machine is as fast as when it was calibrated.
fn add_calibration(predictor: &Predictor, plan: &mut Plan) -> Result<(), Failure> {
    let Some(text) = again(&predictor.profile, caches()) else { return Ok(()) };
    let mut own = record::plan::read(&text, "operations of the profile", &benchmarks::abouts(), &[])?;
    benchmarks::complete(&mut own);
    own.cases.retain(|case| plan.cases.iter().all(|known| known.id != case.id));
    plan.cases.extend(own.cases);
    Ok(())
}

/// How fast the machine was in this run, by the profile; None where nothing of it was measured again.
fn drift_of(predictor: &Predictor, record: &Record) -> Option<Drift> {
    let none = String::new;
    let ranks = predictor.profile.ranks_per_node;
    let given = Given { name: none(), source: none(), created: none(), version: none(), ranks };
    drift(&predictor.profile, &machine_profile(&record.cases, &record.file.machine, given).ok()?)
}

/// A case's prediction; None for cases of other benchmarks.
fn predicted(predictor: &Predictor, case: &Case) -> Result<Option<Sealed>, Failure> {
    let pace = benchmarks::pace_of(&case.parameters).map_err(terms::Error::from)?;
    if let Some((operation, ranks, bytes)) = exchange_of(case) {
        let (step_s, interval) = predictor.exchange(operation, ranks, bytes, pace);
        let work = (WorkUnit::Bytes, bytes as f64);
        return Ok(Some(Sealed { id: case.id.clone(), step_s, interval: Some(interval), work }));
    }
    let Some(Ok((recipe, sleep))) = benchmarks::recipe(case) else { return Ok(None) };
    let work = (WorkUnit::Operations, flops(&recipe));
    // All ranks of this host are on one node.
    let node = recipe.mesh.ranks();
    let workload = Workload { emulated: Emulated { sleep, pace }, ..Workload::new(recipe, node) };
    let prediction = predictor.predict(&workload)?;
    Ok(Some(Sealed { id: case.id.clone(), step_s: prediction.seconds, interval: prediction.interval, work }))
}

/// What is sealed.
fn text(predictor: &Predictor, sealed: &[Sealed]) -> String {
    let cases: Vec<Value> = sealed
        .iter()
        .map(|case| json!({ "case": case.id, "step_s": case.step_s, "interval90_s": case.interval.map(|ends| [ends.0, ends.1]) }))
        .collect();
    format!("{}\n", json!({ "predicted": true, "machine": predictor.profile.name, "cases": cases }))
}

/// Each prediction with what was measured.
fn pairs<'a>(sealed: &'a [Sealed], lines: &'a [CaseLine]) -> impl Iterator<Item = (&'a Sealed, &'a CaseLine, f64)> {
    sealed.iter().filter_map(|case| {
        let line = lines.iter().find(|line| line.id == case.id && line.status == Status::Ok)?;
        Some((case, line, line.time_s.as_ref()?.median))
    })
}

/// Errors of predictions, for a machine that takes `pace` times as long as when it was calibrated.
fn judge(sealed: &[Sealed], lines: &[CaseLine], pace: f64) -> Judged {
    let mut judged = Judged::default();
    for (case, line, measured_s) in pairs(sealed, lines) {
        if let Some(named) = named(&Case::new(&line.benchmark, line.parameters.clone())) {
            let line = Line { measured_s: measured_s / pace, predicted_s: case.step_s, ..named };
            judged.add(line, case.interval, case.work);
        }
    }
    judged
}

/// What a row says of its case, without times.
fn named(case: &Case) -> Option<Line> {
    let line =
        |model, mesh, micro_batch, micros| Line { model, mesh, micro_batch, micros, measured_s: 0.0, predicted_s: 0.0 };
    if let Some((operation, ranks, bytes)) = exchange_of(case) {
        return Some(line(
            format!("{operation}, {bytes} B"),
            view::number::count(ranks as usize, "rank", "ranks"),
            0,
            0,
        ));
    }
    let (recipe, _) = benchmarks::recipe(case)?.ok()?;
    Some(line(recipe.model.name.clone(), recipe.mesh.to_string(), recipe.micro_batch, recipe.micro_batches[0]))
}

/// Regrets over groups of cases that are one job.
fn regrets(sealed: &[Sealed], lines: &[CaseLine]) -> Regrets {
    let mut groups: std::collections::BTreeMap<String, Vec<(f64, f64)>> = std::collections::BTreeMap::new();
    for (case, line, measured) in pairs(sealed, lines) {
        if let Some(job) = job(&Case::new(&line.benchmark, line.parameters.clone())) {
            groups.entry(job).or_default().push((case.step_s, measured));
        }
    }
    Regrets::of(groups.into_values())
}

/// What a case of training has to do and with what, as one word: of these, nothing is chosen. None for cases of other benchmarks.
fn job(case: &Case) -> Option<String> {
    let (recipe, sleep) = benchmarks::recipe(case)?.ok()?;
    let link = benchmarks::pace_of(&case.parameters).ok()?;
    let (ranks, samples) = (recipe.mesh.ranks(), recipe.global_batch());
    let Recipe { model, precision, optimizer, clip, .. } = &recipe;
    Some(format!("{:?}", (model, precision, optimizer, clip, ranks, samples, sleep, link)))
}

#[cfg(test)]
mod tests {
    use record::TimeSummary;

    use super::*;

    /// A case of a plan that takes so long, and that was predicted to.
    fn measured(case: &str, seconds: f64) -> (Sealed, CaseLine) {
        let text = format!("experiment: steps\ncases:\n  - {{{case}}}\n");
        let plan = record::plan::read(&text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
        let mut line = CaseLine::unmeasured(&plan.cases[0], Status::Ok, "");
        line.time_s = Some(TimeSummary { median: seconds, ..TimeSummary::default() });
        let work = (WorkUnit::Operations, 1.0);
        (Sealed { id: line.id.clone(), step_s: seconds, interval: None, work }, line)
    }

    #[test]
    fn only_cases_of_one_job_are_a_choice() {
        let plain = "benchmark: training, model: gpt2-mini, backend: shm, ranks: 2, batch: 2";
        let choices = |other: &str| {
            let cases = [measured(plain, 1.0), measured(&format!("{plain}, {other}"), 2.0)];
            let (sealed, lines): (Vec<Sealed>, Vec<CaseLine>) = cases.into_iter().unzip();
            regrets(&sealed, &lines).choices
        };
        let asleep = "compute: sleep, sleep_time: 1ms, sleep_jitter: 0";
        for other in ["pace_bandwidth: 100MB/s", "sequence: 64", "heads: 2", asleep] {
            assert_eq!(choices(other), 0, "another link, model or time of a pass is not chosen: {other}");
        }
        assert_eq!(choices("overlap: false"), 1);
    }
}
