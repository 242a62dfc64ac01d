//! What a fit makes of measured steps, and how far predictions are off.

use parallel::Recipe;
use terms::Error;

use crate::fit::Observed;
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
/// As [`fit`](fn@crate::fit).
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
    /// Widths of the known intervals: logarithms of upper over lower end.
    pub widths: Vec<f64>,
    /// Errors of one rate for all steps, and of one for all exchanges: operations or bytes over time, by the median of these rows.
    pub constant_rate: Vec<f64>,
    /// Each row, in the order of the errors.
    pub lines: Vec<Line>,
    /// Work over measured time of each row.
    pub(crate) rates: Vec<(WorkUnit, f64)>,
}

/// What the work of a row is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkUnit {
    /// Operations of a rank's step.
    Operations,
    /// Bytes of an exchange.
    Bytes,
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

    /// The median width of intervals over the width of that interval which holds 9 of 10 rows around a constant rate; None where
    /// one is not known.
    pub fn relative_width(&self) -> Option<f64> {
        let mut of_rate: Vec<f64> = self.constant_rate.iter().map(|error| (1.0 + error).ln().abs()).collect();
        of_rate.sort_by(f64::total_cmp);
        let half =
            of_rate.get((of_rate.len() * 9 / 10).min(of_rate.len().saturating_sub(1))).filter(|half| **half > 0.0)?;
        (!self.widths.is_empty()).then(|| stats::median(&self.widths) / (2.0 * half))
    }

    /// Adds a row: what was predicted and measured, and what was to be done in that time.
    pub fn add(&mut self, line: Line, interval: Option<(f64, f64)>, (unit, work): (WorkUnit, f64)) {
        self.errors.push(line.predicted_s / line.measured_s - 1.0);
        self.holds.push(interval.map(|(low, high)| (low..=high).contains(&line.measured_s)));
        self.widths.extend(interval.map(|(low, high)| (high / low).ln()));
        self.rates.push((unit, work / line.measured_s));
        self.lines.push(line);
        // Operations and bytes a second have no middle in common.
        let middle = |unit: WorkUnit| {
            let own: Vec<f64> = self.rates.iter().filter(|rate| rate.0 == unit).map(|rate| rate.1).collect();
            if own.is_empty() { 0.0 } else { stats::median(&own) }
        };
        let (operations, bytes) = (middle(WorkUnit::Operations), middle(WorkUnit::Bytes));
        let error = |(unit, own): &(WorkUnit, f64)| {
            let middle = if *unit == WorkUnit::Bytes { bytes } else { operations };
            (middle > 0.0).then(|| own / middle - 1.0)
        };
        self.constant_rate = self.rates.iter().filter_map(error).collect();
    }

    /// Share of intervals that hold what was measured.
    pub fn coverage(&self) -> Option<f64> {
        let known: Vec<bool> = self.holds.iter().copied().flatten().collect();
        (!known.is_empty()).then(|| known.iter().filter(|holds| **holds).count() as f64 / known.len() as f64)
    }
}

/// Predicts each row.
pub fn judge(predictor: &Predictor, rows: &[Observed]) -> Judged {
    let mut judged = Judged::default();
    for row in rows {
        let prediction = predictor.predict_step(&row.step);
        let recipe = &row.step.workload.recipe;
        let line = Line {
            model: recipe.model.name.clone(),
            mesh: recipe.mesh.to_string(),
            micro_batch: recipe.micro_batch,
            micros: row.step.workload.micros(),
            measured_s: row.seconds,
            predicted_s: prediction.seconds,
        };
        judged.add(line, prediction.interval, (WorkUnit::Operations, flops(recipe)));
    }
    judged
}

/// Operations of a rank's step, on average.
pub fn flops(recipe: &Recipe) -> f64 {
    let model = recipe.model.flops(recipe.model.headline()).ok().flatten().unwrap_or(0.0);
    model * recipe.global_batch() as f64 / recipe.mesh.ranks() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_exchanges_have_a_constant_rate_each() {
        let mut judged = Judged::default();
        let (step, exchange) = (WorkUnit::Operations, WorkUnit::Bytes);
        for work in [(step, 4e10), (exchange, 1e9), (step, 5e10), (exchange, 3e9)] {
            let (model, mesh) = (String::new(), String::new());
            let line = Line { model, mesh, micro_batch: 1, micros: 1, measured_s: 1.0, predicted_s: 1.0 };
            judged.add(line, None, work);
        }
        for (found, wanted) in judged.constant_rate.iter().zip([4.0 / 4.5, 0.5, 5.0 / 4.5, 1.5]) {
            assert!((found - (wanted - 1.0)).abs() < 1e-9, "{:?}", judged.constant_rate);
        }
        assert_eq!(judged.constant_rate.len(), 4);
    }
}
