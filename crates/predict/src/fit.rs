//! Constants moved by measured steps: each by its spread, and robustly.
//!
//! The most probable constants, given the rows (maximum a posteriori): each constant's logarithm begins at its default with a normal
//! distribution of its spread, and a row's logarithm of measured over predicted time follows Tukey's biweight, because real logs hold
//! steps that are 10% to 40% off. Solved by Gauss and Newton's method with weights that follow from the residuals.

mod linear;

use record::{ConstantName, MachineProfile};
use terms::{Error, Named};

use crate::constants::{CONSTANTS, Constants};
use crate::costs::Costs;
use crate::rows::Row;
use crate::simulate::simulate;
use crate::workload::Step;

pub use linear::SquareMatrix;
use linear::{inverse, solve};

/// A row as it is fitted.
pub struct Observed {
    /// The step.
    pub step: Step,
    /// Measured seconds.
    pub seconds: f64,
    /// Relative spread of the measured seconds.
    pub spread: f64,
}

impl Observed {
    /// A row of a table.
    ///
    /// # Errors
    /// When its step cannot be simulated.
    pub fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(Self { step: row.workload.step()?, seconds: row.step_s, spread: row.spread })
    }
}

/// What a fit found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Constants before.
    pub before: Constants,
    /// Constants after, with what spread is left.
    pub after: Constants,
    /// Covariance of the logarithms of the constants after.
    pub covariance: SquareMatrix,
    /// Scale of the residuals.
    pub scale: f64,
    /// Relative errors of the rows with the constants before, predicted over measured less one.
    pub errors_before: Vec<f64>,
    /// Relative errors of the rows with the constants after.
    pub errors_after: Vec<f64>,
    /// Relative error of each row with constants that were fitted without it, and without others where there are many rows.
    pub left_out: Vec<f64>,
    /// Fits that left rows out: as many as rows, or this many groups of them.
    pub folds: usize,
}

/// Rounds of Gauss and Newton's method.
const ROUNDS: usize = 12;
/// Rounds of a fit that begins at the solution with all rows.
const ROUNDS_LEFT_OUT: usize = 4;
/// Step of numeric derivatives, in the logarithm.
const DELTA: f64 = 1e-3;
/// Residuals beyond this many scales count for nothing.
const TUKEY: f64 = 4.685;
/// Residuals are not expected to be smaller: what launches differ by, and what no model of twelve constants sees.
const LEAST_SCALE: f64 = 0.02;
/// More rows than these count as these: rows of a table have in common what the model misses, so a thousand of them do not tell twenty
/// times what fifty do. Where each counted, 1,440 steps of A100 moved the rate of products to 440 TFLOP/s, which no A100 has.
const INDEPENDENT: f64 = 48.0;
/// A constant does not move further in one round, in its logarithm.
const LONGEST: f64 = 0.5;
/// Most groups of rows that are left out in turn.
pub const MOST_FOLDS: usize = 24;

/// Moves the constants of a machine by measured rows.
///
/// # Errors
/// When there is no row, or every row is off by the same thousand: milliseconds for seconds.
pub fn fit(profile: &MachineProfile, before: Constants, rows: &[Observed]) -> Result<Fit, Error> {
    if rows.is_empty() {
        return Err(Error::new("there is nothing to fit").hint("a table or a record with at least one measured step"));
    }
    let all: Vec<usize> = (0..rows.len()).collect();
    let errors_before = errors(profile, &before, rows);
    refuse_milliseconds(&errors_before)?;
    let solver = Solver { profile, before, rows };
    let solved = solver.solve(&all, [0.0; CONSTANTS], ROUNDS);
    let after = solver.posterior(&solved);
    let folds = rows.len().min(MOST_FOLDS);
    let mut left_out = vec![0.0; rows.len()];
    for fold in 0..folds {
        let others: Vec<usize> = all.iter().copied().filter(|row| row % folds != fold).collect();
        let without = if others.is_empty() {
            [0.0; CONSTANTS]
        } else {
            solver.solve(&others, solved.steps, ROUNDS_LEFT_OUT).steps
        };
        for row in all.iter().filter(|row| *row % folds == fold) {
            left_out[*row] = solver.residual(*row, &before.moved(&without)).exp() - 1.0;
        }
    }
    Ok(Fit {
        before,
        errors_after: errors(profile, &after, rows),
        after,
        covariance: solved.covariance,
        scale: solved.scale,
        errors_before,
        left_out,
        folds,
    })
}

/// Relative errors of rows: predicted over measured less one.
pub fn errors(profile: &MachineProfile, constants: &Constants, rows: &[Observed]) -> Vec<f64> {
    rows.iter().map(|row| seconds(profile, constants, &row.step) / row.seconds - 1.0).collect()
}

/// Seconds of a step with these constants.
pub fn seconds(profile: &MachineProfile, constants: &Constants, step: &Step) -> f64 {
    let ranks = step.workload.ranks_per_node.min(step.workload.recipe.mesh.ranks());
    let costs =
        Costs::new(profile, *constants, step.workload.software, ranks as u32).emulating(&step.workload.emulated);
    simulate(step, &costs).seconds
}

/// Refuses rows that are all about a thousand times too long, by their relative errors: nothing else is off by that.
///
/// # Errors
/// When the row in the middle is.
pub fn refuse_milliseconds(errors: &[f64]) -> Result<(), Error> {
    let mut ratios: Vec<f64> = errors.iter().map(|error| 1.0 / (1.0 + error)).collect();
    ratios.sort_by(f64::total_cmp);
    if ratios.get(ratios.len() / 2).is_some_and(|middle| (300.0..3000.0).contains(middle)) {
        return Err(Error::new("the times of the rows are about 1,000 times as long as predicted")
            .cause("they are probably in milliseconds")
            .hint("step_s is in seconds"));
    }
    Ok(())
}

/// A solution.
struct Solved {
    /// How far each constant's logarithm moved.
    steps: [f64; CONSTANTS],
    covariance: SquareMatrix,
    scale: f64,
}

struct Solver<'a> {
    profile: &'a MachineProfile,
    before: Constants,
    rows: &'a [Observed],
}

impl Solver<'_> {
    /// Logarithm of predicted over measured.
    fn residual(&self, row: usize, constants: &Constants) -> f64 {
        let row = &self.rows[row];
        (seconds(self.profile, constants, &row.step) / row.seconds).ln()
    }

    fn solve(&self, rows: &[usize], begin: [f64; CONSTANTS], rounds: usize) -> Solved {
        let mut steps = begin;
        let mut solved = None;
        for round in 0..rounds {
            let here = self.before.moved(&steps);
            let residuals: Vec<f64> = rows.iter().map(|row| self.residual(*row, &here)).collect();
            let scale = scale_of(&residuals);
            let (normal, right) = self.normal_equations(rows, &steps, &residuals, scale, round < 3);
            let Some(by) = solve(&normal, &right) else { break };
            for (step, by) in steps.iter_mut().zip(by) {
                *step += by.clamp(-LONGEST, LONGEST);
            }
            let done = by.iter().all(|by| by.abs() < 1e-4);
            solved = inverse(&normal).map(|covariance| (covariance, scale));
            if done {
                break;
            }
        }
        let (covariance, scale) = solved.unwrap_or_else(|| (self.prior(), LEAST_SCALE));
        Solved { steps, covariance, scale }
    }

    /// Normal equations of a step from here. `gentle`: no row is dropped yet.
    fn normal_equations(
        &self,
        rows: &[usize],
        steps: &[f64; CONSTANTS],
        residuals: &[f64],
        scale: f64,
        gentle: bool,
    ) -> (SquareMatrix, [f64; CONSTANTS]) {
        let mut normal = [[0.0; CONSTANTS]; CONSTANTS];
        let mut right = [0.0; CONSTANTS];
        for (at, name) in ConstantName::ALL.iter().enumerate() {
            let precision = self.before.spread(*name).max(1e-6).powi(-2);
            normal[at][at] += precision;
            right[at] -= precision * steps[at];
        }
        let share = (INDEPENDENT / rows.len() as f64).min(1.0);
        for (row, residual) in rows.iter().zip(residuals) {
            let of_row = (scale.powi(2) + self.rows[*row].spread.powi(2)).sqrt();
            let weight = share * weight(residual / of_row, gentle) / of_row.powi(2);
            if weight <= 0.0 {
                continue;
            }
            let slopes = self.slopes(*row, steps, *residual);
            for a in 0..CONSTANTS {
                right[a] -= weight * slopes[a] * residual;
                for b in 0..CONSTANTS {
                    normal[a][b] += weight * slopes[a] * slopes[b];
                }
            }
        }
        (normal, right)
    }

    /// Derivatives of a row's residual by the logarithms of the constants.
    fn slopes(&self, row: usize, steps: &[f64; CONSTANTS], here: f64) -> [f64; CONSTANTS] {
        let mut slopes = [0.0; CONSTANTS];
        for (at, slope) in slopes.iter_mut().enumerate() {
            let mut there = *steps;
            there[at] += DELTA;
            *slope = (self.residual(row, &self.before.moved(&there)) - here) / DELTA;
        }
        slopes
    }

    fn prior(&self) -> SquareMatrix {
        let mut prior = [[0.0; CONSTANTS]; CONSTANTS];
        for (at, name) in ConstantName::ALL.iter().enumerate() {
            prior[at][at] = self.before.spread(*name).powi(2);
        }
        prior
    }

    fn posterior(&self, solved: &Solved) -> Constants {
        let mut after = self.before.moved(&solved.steps);
        for (at, name) in ConstantName::ALL.iter().enumerate() {
            let value = after.get(*name);
            after.set(*name, value, solved.covariance[at][at].max(0.0).sqrt());
        }
        after
    }
}

/// The scale of residuals, by their median: a fifth of them may be far off.
fn scale_of(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    (1.4826 * sizes[sizes.len() / 2]).max(LEAST_SCALE)
}

/// What a residual of so many scales counts: Huber's weight, then Tukey's.
fn weight(residual: f64, gentle: bool) -> f64 {
    let size = residual.abs();
    match gentle {
        true => (1.345 / size.max(1e-12)).min(1.0),
        false if size < TUKEY => (1.0 - (size / TUKEY).powi(2)).powi(2),
        false => 0.0,
    }
}

#[cfg(test)]
mod tests;
