//! `predict --check PLAN`: predicts, seals, measures, and says how far off the predictions were.

use std::path::Path;

use predict::{Predictor, Software, Workload};
use record::{Case, CaseLine, SEAL, read_run, seal, write_predictions};
use serde_json::{Value, json};
use terminal::{Column, Row, Style, Table};
use terms::Status;
use view::number::percent;

use super::rows::{Judged, Line};
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
            let said = super::text::banner(predictor) + &super::rows::text(&judged) + &regret_text(&regrets);
            screen::print(&(said + &gates_text(&gates)))
        }
    }?;
    let missed = u8::from(gates.iter().any(|gate| !gate.holds));
    Ok(ended.code.max(printed).max(missed))
}

/// What predictions are to reach: docs/how-to/predict.md lists it.
#[derive(Clone, Debug, PartialEq)]
struct Gate {
    what: &'static str,
    value: f64,
    limit: f64,
    holds: bool,
}

/// The gates for which this check has figures.
fn gates(judged: &Judged, regrets: &Regrets) -> Vec<Gate> {
    let [mean, median, p90] = Judged::sizes(&judged.errors);
    let [rate, ..] = Judged::sizes(&judged.constant_rate);
    let most = |what, value: f64, limit: f64| Gate { what, value, limit, holds: value <= limit };
    let mut gates = vec![most("median error", median, 0.04), most("90th percentile of errors", p90, 0.12)];
    if rate > 0.0 {
        gates.push(most("mean error over that of a constant rate", mean / rate, 0.6));
    }
    gates.extend(judged.coverage().map(|share| Gate {
        what: "share of 90% intervals that hold",
        value: share,
        limit: 0.85,
        holds: share >= 0.85,
    }));
    if regrets.choices > 0 {
        gates.push(most("lost by the first choice", regrets.first, 0.03));
        gates.push(most("lost by the best of three", regrets.best_of_three, 0.01));
    }
    gates
}

fn gates_text(gates: &[Gate]) -> String {
    let mut table =
        Table::new([Column::left("gate"), Column::right("reached"), Column::right("limit"), Column::left("")]);
    for gate in gates {
        let word = if gate.holds { "ok" } else { "missed" };
        let cells = [gate.what.to_owned(), percent(gate.value), percent(gate.limit), word.to_owned()];
        let row = Row::new(cells);
        table.push(if gate.holds { row } else { row.style(Style::Red) });
    }
    format!("\n{}", table.text(screen::width()))
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

/// What a choice by prediction loses over the best, and what a random choice loses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Regrets {
    first: f64,
    best_of_three: f64,
    random: f64,
    choices: usize,
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
    let mut regrets = Regrets::default();
    for mut group in groups.into_values().filter(|group| group.len() > 1) {
        group.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = group.iter().map(|case| case.1).fold(f64::INFINITY, f64::min);
        let three = group.iter().take(3).map(|case| case.1).fold(f64::INFINITY, f64::min);
        let mean = group.iter().map(|case| case.1).sum::<f64>() / group.len() as f64;
        regrets.first += group[0].1 / best - 1.0;
        regrets.best_of_three += three / best - 1.0;
        regrets.random += mean / best - 1.0;
        regrets.choices += 1;
    }
    let count = regrets.choices.max(1) as f64;
    Regrets {
        first: regrets.first / count,
        best_of_three: regrets.best_of_three / count,
        random: regrets.random / count,
        ..regrets
    }
}

fn regret_text(regrets: &Regrets) -> String {
    if regrets.choices == 0 {
        return "\nno two cases train the same model on as many ranks and samples: nothing could be chosen\n"
            .to_owned();
    }
    format!(
        "\nlost by choice over the best, mean of {} choices: the first {:.1}%, the best of three {:.1}%, a random one {:.1}%\n",
        regrets.choices,
        100.0 * regrets.first,
        100.0 * regrets.best_of_three,
        100.0 * regrets.random
    )
}

fn object(predictor: &Predictor, digest: &str, (judged, regrets): (&Judged, &Regrets), gates: &[Gate]) -> Value {
    let gate = |gate: &Gate| json!({"what": gate.what, "value": gate.value, "limit": gate.limit, "holds": gate.holds});
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_hold_what_was_reached() {
        let judged = |errors: &[f64]| Judged {
            errors: errors.to_vec(),
            constant_rate: vec![0.2; errors.len()],
            holds: errors.iter().map(|error| Some(error.abs() < 0.1)).collect(),
            ..Judged::default()
        };
        let missed = |judged: &Judged, regrets: &Regrets| -> Vec<&'static str> {
            gates(judged, regrets).iter().filter(|gate| !gate.holds).map(|gate| gate.what).collect()
        };
        let none = Regrets::default();
        assert_eq!(missed(&judged(&[0.02, -0.03, 0.01, 0.05]), &none), Vec::<&str>::new());
        assert_eq!(
            missed(&judged(&[0.2, -0.3, 0.15, 0.25]), &none),
            [
                "median error",
                "90th percentile of errors",
                "mean error over that of a constant rate",
                "share of 90% intervals that hold"
            ]
        );
        let lost = Regrets { first: 0.05, best_of_three: 0.02, random: 0.3, choices: 4 };
        assert_eq!(missed(&judged(&[0.0; 4]), &lost), ["lost by the first choice", "lost by the best of three"]);
    }
}
