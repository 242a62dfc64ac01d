//! What a fit makes of measured steps, and how far predictions are off.

use terms::Error;

use crate::fit::{Observed, errors};
use crate::{Fit, Predictor};

/// A fit with the rows that it was not given.
pub struct Fitted {
    /// The fit.
    pub fit: Fit,
    /// How many rows it was given.
    pub rows: usize,
    /// Rows that it was not given.
    pub rest: Vec<Observed>,
}

/// Fits a predictor to rows; with `draw`, to so many that are drawn with a seed.
///
/// # Errors
/// As [`crate::fit`].
pub fn fitted(predictor: &mut Predictor, mut all: Vec<Observed>, draw: Option<(usize, u64)>) -> Result<Fitted, Error> {
    let mut rest = Vec::new();
    if let Some((count, mut seed)) = draw {
        let mut drawn = Vec::new();
        while drawn.len() < count && !all.is_empty() {
            drawn.push(all.swap_remove((terms::next_splitmix64(&mut seed) % all.len() as u64) as usize));
        }
        rest = std::mem::replace(&mut all, drawn);
    }
    let ranks = all.iter().map(|row| row.step.workload.recipe.mesh.ranks()).max().unwrap_or(1);
    let fit = crate::fit(&predictor.profile, predictor.constants, &all)?;
    *predictor = predictor.clone().fitted(&fit, ranks);
    Ok(Fitted { fit, rows: all.len(), rest })
}

/// A step that was measured and predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The model.
    pub model: String,
    /// Data x tensor x pipeline.
    pub mesh: String,
    /// Samples of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of a replica's step.
    pub micros: usize,
    /// Seconds that were measured.
    pub measured_s: f64,
    /// Seconds that were predicted.
    pub predicted_s: f64,
}

/// Predictions of rows beside what was measured.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// Predicted over measured less one, of each row.
    pub errors: Vec<f64>,
    /// Whether each row's interval holds what was measured; None where a time is unknown.
    pub holds: Vec<Option<bool>>,
    /// Errors of one rate for all rows: operations over time, by the median of these rows.
    pub constant_rate: Vec<f64>,
    /// Each row, in the order of the errors.
    pub lines: Vec<Line>,
}

impl Judged {
    /// Mean, median and 90th percentile of the sizes of errors.
    pub fn sizes(errors: &[f64]) -> [f64; 3] {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let mean = sizes.iter().sum::<f64>() / sizes.len().max(1) as f64;
        let at = |share: usize| sizes.get((sizes.len() * share / 100).min(sizes.len().saturating_sub(1))).copied();
        [mean, at(50).unwrap_or(0.0), at(90).unwrap_or(0.0)]
    }

    /// Mean error, with its sign.
    pub fn bias(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len().max(1) as f64
    }

    /// Share of intervals that hold what was measured.
    pub fn coverage(&self) -> Option<f64> {
        let known: Vec<bool> = self.holds.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().filter(|holds| **holds).count() as f64 / known.len() as f64)
    }
}

/// Predicts each row.
pub fn judge(predictor: &Predictor, rows: &[Observed]) -> Judged {
    let mut judged = Judged { errors: errors(&predictor.profile, &predictor.constants, rows), ..Judged::default() };
    let mut rates: Vec<f64> = Vec::new();
    for (row, error) in rows.iter().zip(&judged.errors) {
        let prediction = predictor.predict_step(&row.step);
        judged.holds.push(prediction.interval.map(|(low, high)| (low..=high).contains(&row.seconds)));
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
    let mut sorted = rates.clone();
    sorted.sort_by(f64::total_cmp);
    if let Some(rate) = sorted.get(sorted.len() / 2) {
        judged.constant_rate = rates.iter().map(|own| own / rate - 1.0).collect();
    }
    judged
}

/// Operations of a rank's step, on average.
fn flops(row: &Observed) -> f64 {
    let recipe = &row.step.workload.recipe;
    let model = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    model * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64
}
