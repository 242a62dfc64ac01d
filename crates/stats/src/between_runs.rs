//! The noise between runs: by how much the medians of equal runs scatter.

/// The fewest runs that tell their noise.
pub const FEWEST_RUNS: usize = 5;

/// How the medians of equal runs scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BetweenRuns {
    /// Standard deviation of the natural logarithm of a run's median.
    pub sd_log: f64,
    /// Degrees of freedom with which it is known.
    pub degrees: f64,
    /// Runs that it comes from.
    pub runs: usize,
}

/// The noise of these medians of equal runs, in the order of their dates. None below [`FEWEST_RUNS`], and for times that are
/// not positive.
///
/// The mean square of successive differences (von Neumann, Annals of Mathematical Statistics 12, 1941): a slow drift or a few
/// steps of the series count little, where they would swell the plain variance. Its degrees of freedom are
/// `2 (n-1)^2 / (3n - 4)`.
pub fn between_runs(medians: &[f64]) -> Option<BetweenRuns> {
    let runs = medians.len();
    if runs < FEWEST_RUNS || medians.iter().any(|median| median.is_nan() || *median <= 0.0 || median.is_infinite()) {
        return None;
    }
    let logs: Vec<f64> = medians.iter().map(|median| median.ln()).collect();
    let n = runs as f64;
    let squares: f64 = logs.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let variance = squares / (2.0 * (n - 1.0));
    let degrees = 2.0 * (n - 1.0).powi(2) / (3.0 * n - 4.0);
    Some(BetweenRuns { sd_log: variance.sqrt(), degrees, runs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Marginal, Situation, StationarySeries};

    #[test]
    fn few_runs_and_impossible_times_tell_nothing() {
        assert_eq!(between_runs(&[1.0; 4]), None);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(between_runs(&[1.0, 1.0, wrong, 1.0, 1.0]), None, "{wrong}");
        }
        assert_eq!(between_runs(&[2.0; 5]).map(|noise| noise.sd_log), Some(0.0));
    }

    #[test]
    fn a_step_does_not_count_as_noise() {
        let quiet = [1.00, 1.02, 0.99, 1.01, 0.98, 1.00, 1.02, 0.99, 1.01, 1.00];
        let stepped: Vec<f64> = quiet.iter().enumerate().map(|(i, x)| if i < 5 { *x } else { x * 1.5 }).collect();
        let (flat, step) = (between_runs(&quiet).unwrap(), between_runs(&stepped).unwrap());
        assert!(flat.sd_log > 0.008 && flat.sd_log < 0.03, "{flat:?}");
        // One step of 41% in nine differences: 0.096 of noise, where the plain deviation is 0.21.
        assert!(step.sd_log < 0.12, "{step:?}");
    }

    #[test]
    fn the_deviation_of_independent_runs_is_found() {
        let found: Vec<f64> = (0..400)
            .map(|seed| {
                let situation = Situation { phi: 0.0, marginal: Marginal::Lognormal, noise: 0.05 };
                let mut series = StationarySeries::new(situation, seed);
                series.extend(8);
                let noise = between_runs(&series.samples).unwrap();
                assert!((noise.degrees - 4.9).abs() < 1e-9 && noise.runs == 8, "{noise:?}");
                noise.sd_log.powi(2)
            })
            .collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!((mean.sqrt() / 0.05 - 1.0).abs() < 0.05, "{}", mean.sqrt());
        // The variance of a chi-square with v degrees over v is 2/v.
        let spread = found.iter().map(|x| (x / mean - 1.0).powi(2)).sum::<f64>() / found.len() as f64;
        assert!((spread / (2.0 / 4.9) - 1.0).abs() < 0.35, "{spread}");
    }
}
