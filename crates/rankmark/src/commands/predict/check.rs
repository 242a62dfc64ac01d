//! `predict --check PLAN`: predicts, seals, measures, and says how far off the predictions were.

use std::path::Path;

use predict::check::{Regrets, gates, gates_text, object, regret_text};
use predict::judged::Line;
use predict::{Judged, Predictor, Software, Workload};
use record::{Case, CaseLine, SEAL, read_run, seal, write_predictions};
use serde_json::{Value, json};
use terms::Status;

use crate::commands::Ended;
use crate::options::{LabelOptions, Output, RunOptions, Whole};
use crate::session::{self, Entry, Request};
use crate::{Failure, plan_files, screen};

/// A case with its prediction.
struct Sealed {
    id: String,
    step_s: f64,
    interval: Option<(f64, f64)>,
    /// Operations of a rank's step.
    flops: f64,
}

/// Predicts the training cases of a plan before it measures them.
///
/// # Errors
/// When the plan has no training case, or cannot run.
pub(super) fn run(
    predictor: &Predictor,
    path: &Path,
    (output_dir, as_json): (Option<&Path>, bool),
    entry: Entry<'_>,
) -> Ended {
    let plan = plan_files::load(path, &[], entry.coordinator)?.plan;
    let mut complete = plan.clone();
    benchmarks::complete(&mut complete);
    let sealed: Vec<Sealed> =
        complete.cases.iter().filter_map(|case| predicted(predictor, case).transpose()).collect::<Result<_, _>>()?;
    if sealed.is_empty() {
        return Err(Failure::new(format!("{} has no training case that can be predicted", path.display()))
            .hint("cases of `benchmark: training` on native ranks that compute"));
    }
    let text = text(predictor, &sealed);
    let digest = seal(&text);
    screen::remark(&format!("predicted {}, sha256 {digest}\n", view::number::count(sealed.len(), "case", "cases")));
    let output = Output { output_dir: output_dir.map(Path::to_owned), quiet: as_json, ..Output::default() };
    let labels = LabelOptions::noted(format!("{SEAL} {digest}"));
    let run_options = RunOptions { output, whole: Whole::labelled(labels), has_plan: true, ..RunOptions::default() };
    let ended = session::measure(&Request::new(&run_options, entry), Some(plan))?;
    let Some(directory) = ended.directory else { return Ok(ended.code) };
    write_predictions(&directory, &text)?;
    let record = read_run(&directory)?;
    let judged = judge(&sealed, &record.cases);
    let regrets = regrets(&sealed, &record.cases);
    // The report of the run was written before there was anything to compare.
    report::write(&report::Run::read(&directory, benchmarks::VIEWS)?, &directory)?;
    let gates = gates(&judged, &regrets);
    let printed = match as_json {
        true => screen::print_json(&format!("{}\n", object(predictor, &digest, (&judged, &regrets), &gates))),
        false => {
            let said = predict::text::banner(predictor)
                + &predict::text::errors(&judged, screen::width())
                + &regret_text(&regrets);
            screen::print(&(said + &gates_text(&gates, screen::width())))
        }
    }?;
    let missed = u8::from(gates.iter().any(|gate| !gate.holds));
    Ok(ended.code.max(printed).max(missed))
}

/// A case's prediction; None for cases of other benchmarks, and for those that compute nothing.
fn predicted(predictor: &Predictor, case: &Case) -> Result<Option<Sealed>, Failure> {
    let Some(Ok((recipe, true))) = benchmarks::recipe(case) else { return Ok(None) };
    let flops = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    let flops = flops * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64;
    // All ranks of this host are on one node.
    let node = recipe.mesh.ranks();
    let workload = Workload { recipe, ranks_per_node: node, software: Software::Rankmark, recompute_attention: false };
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

fn judge(sealed: &[Sealed], lines: &[CaseLine]) -> Judged {
    let mut judged = Judged::default();
    let mut rates = Vec::new();
    for (case, line, measured) in pairs(sealed, lines) {
        judged.errors.push(case.step_s / measured - 1.0);
        judged.holds.push(case.interval.map(|(low, high)| (low..=high).contains(&measured)));
        let of_case = Case::new(&line.benchmark, line.parameters.clone());
        if let Some(Ok((recipe, _))) = benchmarks::recipe(&of_case) {
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
    let mut sorted = rates.clone();
    sorted.sort_by(f64::total_cmp);
    if let Some(rate) = sorted.get(sorted.len() / 2).filter(|rate| **rate > 0.0) {
        judged.constant_rate = rates.iter().map(|own| own / rate - 1.0).collect();
    }
    judged
}

/// Regrets over groups of cases that train the same model on as many ranks and samples.
fn regrets(sealed: &[Sealed], lines: &[CaseLine]) -> Regrets {
    let mut groups: std::collections::BTreeMap<String, Vec<(f64, f64)>> = std::collections::BTreeMap::new();
    for (case, line, measured) in pairs(sealed, lines) {
        let of_case = Case::new(&line.benchmark, line.parameters.clone());
        let Some(Ok((recipe, _))) = benchmarks::recipe(&of_case) else { continue };
        let key = format!(
            "{:?}",
            (&recipe.model.name, recipe.model.parameter_count(), recipe.mesh.ranks(), recipe.global_batch())
        );
        groups.entry(key).or_default().push((case.step_s, measured));
    }
    Regrets::of(groups.into_values())
}
