//! `predict --check PLAN`: predicts, seals, measures, and says how far off the predictions were.

mod gates;
mod regrets;

use std::path::Path;

use predict::calibrate::{Drift, Given, again, drift, exchange_of, machine_profile};
use predict::{Emulated, Predictor, Workload};
use record::{Case, CaseLine, Plan, Run, SEAL, read_run, seal};
use serde_json::{Value, json};
use terms::Status;

use super::rows::{Judged, Line};
use crate::commands::Ended;
use crate::commands::calibrate::caches;
use crate::options::{LabelOptions, Output, RunOptions, Whole};
use crate::session::{self, Entry, Request};
use crate::{Failure, plans, screen};
use gates::{Gate, gates};
use regrets::{Regrets, regrets};

/// A case with its prediction.
struct Sealed {
    id: String,
    step_s: f64,
    interval: Option<(f64, f64)>,
    /// Operations of a rank's step.
    flops: f64,
}

/// Predicts the training cases of a plan before it measures them, in turns with some of what the profile has.
///
/// # Errors
/// When the plan has no training case, or cannot run.
pub(super) fn run(
    predictor: &Predictor,
    path: &Path,
    (output_dir, as_json): (Option<&Path>, bool),
    entry: Entry<'_>,
) -> Ended {
    let mut plan = plans::load(path, &[], entry.coordinator)?.plan;
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
    let request = Request { predictions: Some(&text), ..Request::new(&run_options, entry) };
    let ended = session::measure(&request, Some(plan))?;
    let Some(directory) = ended.directory else { return Ok(ended.code) };
    let record = read_run(&directory)?;
    let drift = drift_of(predictor, &record);
    let sealed_errors = judge(&sealed, &record.cases, 1.0);
    let judged = judge(&sealed, &record.cases, drift.map_or(1.0, |drift| drift.ratio));
    let regrets = regrets(&sealed, &record.cases);
    let gates = gates(&judged, &regrets);
    let printed = match as_json {
        true => {
            let both = (&judged, &sealed_errors);
            screen::print_json(&format!("{}\n", object(predictor, &digest, both, drift, &regrets, &gates)))
        }
        false => {
            let pace = drift.map_or_else(String::new, |drift| pace_text(&drift, &sealed_errors));
            let said = super::text::banner(predictor) + &super::rows::text(&judged) + &pace;
            screen::print(&(said + &regrets::text(&regrets) + &gates::text(&gates)))
        }
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
fn drift_of(predictor: &Predictor, record: &Run) -> Option<Drift> {
    let profile = &predictor.profile;
    let given = Given {
        name: String::new(),
        source: String::new(),
        created: String::new(),
        version: String::new(),
        ranks: profile.ranks_per_node,
    };
    drift(profile, &machine_profile(&record.cases, &record.file.machine, given).ok()?)
}

fn pace_text(drift: &Drift, sealed: &Judged) -> String {
    let [mean, median, _] = Judged::sizes(&sealed.errors);
    let percent = |value: f64| format!("{:.1}%", 100.0 * value);
    format!(
        "\nin turns with {}, which took {:.2}x as long as in the profile ({:.2}x to {:.2}x): measured steps are divided by \
         {:.2}. Without that: mean {}, median {}, bias {:+.1}%\n",
        view::number::count(
            drift.count,
            "operation or exchange of the profile",
            "operations and exchanges of the profile"
        ),
        drift.ratio,
        drift.range.0,
        drift.range.1,
        drift.ratio,
        percent(mean),
        percent(median),
        100.0 * sealed.bias(),
    )
}

/// A case's prediction; None for cases of other benchmarks.
fn predicted(predictor: &Predictor, case: &Case) -> Result<Option<Sealed>, Failure> {
    let pace = benchmarks::pace_of(&case.parameters)?;
    if let Some((operation, ranks, bytes)) = exchange_of(case) {
        let (step_s, interval) = predictor.exchange(operation, ranks, bytes, pace);
        // What a rank moves takes the place of what it computes.
        return Ok(Some(Sealed { id: case.id.clone(), step_s, interval: Some(interval), flops: bytes as f64 }));
    }
    let Some(Ok((recipe, sleep))) = benchmarks::recipe(case) else { return Ok(None) };
    let flops = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    let flops = flops * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64;
    // All ranks of this host are on one node.
    let node = recipe.mesh.ranks();
    let emulated = Emulated { sleep, pace };
    let workload = Workload { emulated, ..Workload::new(recipe, node) };
    let prediction = predictor.predict(&workload)?;
    Ok(Some(Sealed { id: case.id.clone(), step_s: prediction.seconds, interval: prediction.interval, flops }))
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
    let mut rates = Vec::new();
    for (case, line, measured) in pairs(sealed, lines) {
        let measured = measured / pace;
        judged.errors.push(case.step_s / measured - 1.0);
        judged.holds.push(case.interval.map(|(low, high)| (low..=high).contains(&measured)));
        judged.widths.extend(case.interval.map(|(low, high)| (high / low).ln()));
        let of_case = Case::new(&line.benchmark, line.parameters.clone());
        if let Some((operation, ranks, bytes)) = exchange_of(&of_case) {
            judged.lines.push(Line {
                model: format!("{operation}, {bytes} B"),
                mesh: format!("{ranks} ranks"),
                micro_batch: 0,
                micros: 0,
                measured_s: measured,
                predicted_s: case.step_s,
            });
        } else if let Some(Ok((recipe, _))) = benchmarks::recipe(&of_case) {
            judged.lines.push(Line {
                model: recipe.model.name,
                mesh: recipe.mesh.to_string(),
                micro_batch: recipe.micro_batch,
                micros: recipe.micro_batches[0],
                measured_s: measured,
                predicted_s: case.step_s,
            });
        }
        rates.push(case.flops / measured);
    }
    judged.constant_rate = super::rows::constant_rate(&rates);
    judged
}

fn object(
    predictor: &Predictor,
    digest: &str,
    (judged, sealed): (&Judged, &Judged),
    drift: Option<Drift>,
    regrets: &Regrets,
    gates: &[Gate],
) -> Value {
    let gate = |gate: &Gate| json!({"what": gate.what, "value": gate.value, "limit": gate.limit, "holds": gate.holds});
    let row = |line: &Line| {
        json!({
            "model": line.model,
            "mesh": line.mesh,
            "micro_batch": line.micro_batch,
            "micro_batches": line.micros,
            "measured_s": line.measured_s,
            "predicted_s": line.predicted_s,
        })
    };
    let sizes = |errors: &[f64]| {
        let [mean, median, p90] = Judged::sizes(errors);
        json!({ "mean": mean, "median": median, "p90": p90 })
    };
    json!({
        "predicted": true,
        "machine": predictor.profile.name,
        "sha256": digest,
        "cases": judged.errors.len(),
        "errors": sizes(&judged.errors),
        "rows": judged.lines.iter().map(row).collect::<Vec<_>>(),
        "errors_without_drift": sizes(&sealed.errors),
        "drift": drift.map(|drift| json!({"ratio": drift.ratio, "range": [drift.range.0, drift.range.1], "count": drift.count})),
        "constant_rate": sizes(&judged.constant_rate),
        "bias": judged.bias(),
        "coverage90": judged.coverage(),
        "gates": gates.iter().map(gate).collect::<Vec<_>>(),
        "regret": {
            "choices": regrets.choices,
            "first": regrets.first,
            "best_of_three": regrets.best_of_three,
            "random": regrets.random,
        },
    })
}
