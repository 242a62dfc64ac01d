//! What an equal run would show, by the medians of runs that were made before.
//!
//! The trials of one run do not see what stays the same for the whole run and changes until the next: which cores a virtual
//! machine has, where memory lies, who else is there. Only other runs show that.

use crate::distribution::student_quantile;
use crate::quantile::standard_deviation;

/// The fewest earlier runs that tell how runs scatter.
pub const FEWEST_EARLIER: usize = 3;

/// Standard deviation of the logarithm of a run's median on a machine without earlier runs: 3%.
const USUAL_SD: f64 = 0.03;
/// Degrees of freedom that this is worth: as much as five runs.
const USUAL_DEGREES: f64 = 4.0;

/// The 95% interval of the median that an equal run shows, around the median of this run. The scatter of `earlier` medians and
/// of this one is shrunk towards a usual one, as that of few runs is known badly. None below [`FEWEST_EARLIER`], and for times
/// that are not positive.
///
/// Both runs scatter, so their logarithms differ with twice the variance of one.
pub fn equal_run_interval(median: f64, earlier: &[f64]) -> Option<[f64; 2]> {
    let usable = |value: &f64| value.is_finite() && *value > 0.0;
    if earlier.len() < FEWEST_EARLIER || !usable(&median) || !earlier.iter().all(usable) {
        return None;
    }
    let logs: Vec<f64> = earlier.iter().chain([&median]).map(|median| median.ln()).collect();
    let own = (logs.len() - 1) as f64;
    let degrees = own + USUAL_DEGREES;
    let variance = (own * standard_deviation(&logs)?.powi(2) + USUAL_DEGREES * USUAL_SD.powi(2)) / degrees;
    let reach = student_quantile(0.975, degrees) * (2.0 * variance).sqrt();
    Some([median * (-reach).exp(), median * reach.exp()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_and_impossible_times_tell_nothing() {
        assert_eq!(equal_run_interval(1.0, &[1.0; 2]), None);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(equal_run_interval(1.0, &[1.0, 1.0, wrong]), None, "{wrong}");
            assert_eq!(equal_run_interval(wrong, &[1.0; 3]), None, "{wrong}");
        }
    }

    #[test]
    fn the_scatter_of_runs_is_shrunk_towards_the_usual_one() {
        let half = |earlier: &[f64]| equal_run_interval(1.0, earlier).map(|[_, high]| high.ln()).unwrap();
        // Runs that agree: t(7) = 2.365 times the root of twice 4/7 of 0.03 squared.
        assert!((half(&[1.0; 3]) - 2.365 * (2.0 * 4.0 / 7.0 * 0.0009f64).sqrt()).abs() < 1e-3);
        let scattered = [1.2, 0.8, 1.1, 0.9, 1.15, 0.85];
        assert!(half(&scattered[..3]) > 3.0 * half(&[1.0; 3]));
        let many: Vec<f64> = scattered.iter().copied().cycle().take(60).collect();
        // Of many runs the default is forgotten: what remains is their own scatter.
        let own =
            2.0 * (2.0 * standard_deviation(&many.iter().map(|x| x.ln()).collect::<Vec<_>>()).unwrap().powi(2)).sqrt();
        assert!((half(&many) / own - 1.0).abs() < 0.08, "{} {own}", half(&many));
    }
}
