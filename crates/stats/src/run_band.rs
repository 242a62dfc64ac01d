//! The noise between runs as one printed number: within how much of the middle of their series equal runs lie.

use crate::distribution::student_quantile;
use crate::{BetweenRuns, ChangePoint, between_runs, median};

impl BetweenRuns {
    /// 95% of further equal runs have a median within this relative distance of the middle: 0.03 reads "runs differ by ±3%".
    pub fn band(&self) -> f64 {
        (student_quantile(0.975, self.degrees.max(1.0)) * self.sd_log).exp_m1()
    }
}

/// The noise of runs around the levels that change points separate: a step is not noise. None as for [`between_runs`].
pub fn noise_around(medians: &[f64], changes: &[ChangePoint]) -> Option<BetweenRuns> {
    let mut edges: Vec<usize> = changes.iter().map(|change| change.at).collect();
    edges.insert(0, 0);
    edges.push(medians.len());
    let level = |pair: &[usize]| {
        let part = &medians[pair[0]..pair[1]];
        let middle = if part.is_empty() { 1.0 } else { median(part) };
        part.iter().map(|value| value / middle).collect::<Vec<f64>>()
    };
    between_runs(&edges.windows(2).flat_map(level).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_wider_than_two_deviations() {
        let noise = BetweenRuns { sd_log: 0.01, degrees: 12.0, runs: 20 };
        assert!((noise.band() - 0.0220).abs() < 2e-4, "{}", noise.band());
    }

    #[test]
    fn a_step_that_is_known_is_no_noise() {
        let medians: Vec<f64> = (0..12).map(|run| if run < 6 { 1.0 } else { 1.5 } * [0.99, 1.01][run % 2]).collect();
        let change = ChangePoint { at: 6, ratio: 1.5, p_value: 0.01 };
        let [plain, around] = [&[][..], &[change]].map(|changes| noise_around(&medians, changes).unwrap().sd_log);
        assert!(around < 0.016 && plain > 4.0 * around, "{plain} {around}");
        assert_eq!(noise_around(&medians[..4], &[]), None);
    }
}
