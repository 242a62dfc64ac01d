//! Measured steps: rows of a table, or training cases of a record. What a fit makes of them, and how far predictions are off.

use std::io::Read;
use std::path::Path;

use predict::fit::{Observed, errors};
use predict::{Fit, Predictor};
use record::read_run;
use terminal::{Column, Row, Table};
use terms::Status;
use view::number::seconds;

use crate::{Failure, incomplete, screen};

/// Most bytes of a table.
const LARGEST: u64 = 64 << 20;

/// A fit with the rows that it was not given.
pub(super) struct Fitted {
    pub(super) fit: Fit,
    pub(super) rows: usize,
    pub(super) rest: Vec<Observed>,
}

/// Whether a path is that of a table rather than of a record.
pub(super) fn is_table(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|kind| kind == "csv")
}

/// Reads measured steps.
///
/// # Errors
/// When there is nothing to read, or nothing that can be used.
pub(super) fn read(path: &Path) -> Result<Vec<Observed>, Failure> {
    if !is_table(path) {
        return of_record(path);
    }
    let unreadable = |error: std::io::Error| Failure::new(format!("cannot read {}", path.display())).cause(error);
    let mut text = String::new();
    let file = record::file::open_named(path).map_err(unreadable)?;
    file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
    let rows = predict::rows::read_rows(&text)?;
    for (line, why) in rows.skipped.iter().take(10) {
        screen::remark(&format!("note: line {line} is left out: {}\n", view::one_line(why)));
    }
    if rows.skipped.len() > 10 {
        screen::remark(&format!("note: {} more lines are left out\n", rows.skipped.len() - 10));
    }
    let twice: usize = rows.rows.iter().filter(|row| row.count > 1).map(|row| row.count).sum();
    if twice > 0 {
        screen::remark(&format!(
            "note: {twice} rows repeat others with other times: what they differ by becomes their spread\n"
        ));
    }
    rows.rows.iter().map(|row| Observed::from_row(row).map_err(Failure::from)).collect()
}

/// The training steps of a record that computed something.
fn of_record(path: &Path) -> Result<Vec<Observed>, Failure> {
    let record = read_run(path)?;
    incomplete::warn(path, record.banner().as_deref());
    let mut found = Vec::new();
    for line in record.cases.iter().filter(|line| line.status == Status::Ok) {
        let case = record::Case::new(&line.benchmark, line.parameters.clone());
        let Some(Ok((recipe, None))) = benchmarks::recipe(&case) else { continue };
        let Some(time) = &line.time_s else { continue };
        // All ranks of this host are on one node.
        let node = recipe.mesh.ranks();
        let workload = predict::Workload::new(recipe, node);
        found.push(Observed { step: workload.step()?, seconds: time.median, spread: 0.0 });
    }
    if found.is_empty() {
        return Err(Failure::new(format!("{} has no measured training step", path.display()))
            .hint("`rankmark train` makes a record with one"));
    }
    Ok(found)
}

/// Fits a predictor to rows; with `draw`, to so many that are drawn with a seed.
///
/// # Errors
/// As [`read`].
pub(super) fn fitted(predictor: &mut Predictor, path: &Path, draw: Option<(usize, u64)>) -> Result<Fitted, Failure> {
    let mut all = read(path)?;
    let mut rest = Vec::new();
    if let Some((count, mut seed)) = draw {
        let mut drawn = Vec::new();
        while drawn.len() < count && !all.is_empty() {
            drawn.push(all.swap_remove((terms::next_splitmix64(&mut seed) % all.len() as u64) as usize));
        }
        rest = std::mem::replace(&mut all, drawn);
    }
    let ranks = all.iter().map(|row| row.step.workload.recipe.mesh.ranks()).max().unwrap_or(1);
    let fit = predict::fit(&predictor.profile, predictor.constants, &all)?;
    *predictor = predictor.clone().fitted(&fit, ranks);
    Ok(Fitted { fit, rows: all.len(), rest })
}

/// A step that was measured and predicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) model: String,
    pub(super) mesh: String,
    pub(super) micro_batch: usize,
    pub(super) micros: usize,
    pub(super) measured_s: f64,
    pub(super) predicted_s: f64,
}

/// Predictions of rows beside what was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    /// Predicted over measured less one, of each row.
    pub(super) errors: Vec<f64>,
    /// Whether each row's interval holds what was measured; None where a time is unknown.
    pub(super) holds: Vec<Option<bool>>,
    /// Widths of the known intervals: logarithms of upper over lower end.
    pub(super) widths: Vec<f64>,
    /// Errors of one rate for all rows: operations over time, by the median of these rows.
    pub(super) constant_rate: Vec<f64>,
    /// Each row, in the order of the errors.
    pub(super) lines: Vec<Line>,
}

impl Judged {
    /// Mean, median and 90th percentile of the sizes of errors.
    pub(super) fn sizes(errors: &[f64]) -> [f64; 3] {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
        let at = |share: usize| sizes.get((sizes.len() * share / 100).min(sizes.len().saturating_sub(1))).copied();
        [mean, at(50).unwrap_or(0.0), at(90).unwrap_or(0.0)]
    }

    pub(super) fn bias(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len().max(1) as f64
    }

    /// The median width of intervals over the width of that interval which holds 9 of 10 rows around a constant rate; None where
    /// one is not known.
    pub(super) fn relative_width(&self) -> Option<f64> {
        let mut of_rate: Vec<f64> = self.constant_rate.iter().map(|error| (1.0 + error).ln().abs()).collect();
        of_rate.sort_by(f64::total_cmp);
        let half =
            of_rate.get((of_rate.len() * 9 / 10).min(of_rate.len().saturating_sub(1))).filter(|half| **half > 0.0)?;
        (!self.widths.is_empty()).then(|| stats::median(&self.widths) / (2.0 * half))
    }

    /// Share of intervals that hold what was measured.
    pub(super) fn coverage(&self) -> Option<f64> {
        let known: Vec<bool> = self.holds.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().filter(|holds| **holds).count() as f64 / known.len() as f64)
    }
}

/// Predicts each row.
pub(super) fn judge(predictor: &Predictor, rows: &[Observed]) -> Judged {
    let mut judged = Judged { errors: errors(&predictor.profile, &predictor.constants, rows), ..Judged::default() };
    let mut rates: Vec<f64> = Vec::new();
    for (row, error) in rows.iter().zip(&judged.errors) {
        let prediction = predictor.predict_step(&row.step);
        judged.holds.push(prediction.interval.map(|(low, high)| (low..=high).contains(&row.seconds)));
        judged.widths.extend(prediction.interval.map(|(low, high)| (high / low).ln()));
        let recipe = &row.step.workload.recipe;
        judged.lines.push(Line {
            model: recipe.model.name.clone(),
            mesh: recipe.mesh.to_string(),
            micro_batch: recipe.micro_batch,
            micros: row.step.workload.micros(),
            measured_s: row.seconds,
            predicted_s: row.seconds * (1.0 + error),
        });
        rates.push(flops(row) / row.seconds);
    }
    judged.constant_rate = constant_rate(&rates);
    judged
}

/// Errors of one rate for all rows, the median of these rates.
pub(super) fn constant_rate(rates: &[f64]) -> Vec<f64> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().filter(|rate| *rate > 0.0);
    middle.map_or_else(Vec::new, |rate| rates.iter().map(|own| own / rate - 1.0).collect())
}

/// Operations of a rank's step, on average.
fn flops(row: &Observed) -> f64 {
    let recipe = &row.step.workload.recipe;
    let model = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    model * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64
}

/// The errors as text.
pub(super) fn text(judged: &Judged) -> String {
    let percent = |value: f64| format!("{:.1}%", 100.0 * value);
    let line = |name: &str, [mean, median, ninth]: [f64; 3]| {
        format!("  {name:<16}  mean {:>6}  median {:>6}  p90 {:>6}\n", percent(mean), percent(median), percent(ninth))
    };
    let mut text = format!(
        "errors of {} that were not fitted (predicted over measured - 1)\n",
        view::number::count(judged.errors.len(), "row", "rows")
    );
    text += &line("predicted", Judged::sizes(&judged.errors));
    text += &line("a constant rate", Judged::sizes(&judged.constant_rate));
    text += &format!("  bias {:+.1}%", 100.0 * judged.bias());
    match judged.coverage() {
        Some(coverage) => text += &format!(", 90% intervals hold {}\n", percent(coverage)),
        None => text += ", no interval is known\n",
    }
    if judged.lines.len() <= 40 {
        let columns = ["micro-batch", "micro-batches", "measured", "predicted", "error"].map(Column::right);
        let mut table = Table::new(["model", "mesh"].map(Column::left).into_iter().chain(columns));
        for (line, error) in judged.lines.iter().zip(&judged.errors) {
            table.push(Row::new([
                view::one_line(&line.model),
                line.mesh.clone(),
                line.micro_batch.to_string(),
                line.micros.to_string(),
                seconds(line.measured_s),
                seconds(line.predicted_s),
                format!("{:+.1}%", 100.0 * error),
            ]));
        }
        text += &format!("\n{}", table.text(screen::width()));
    }
    text
}
