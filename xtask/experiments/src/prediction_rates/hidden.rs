//! Up to which bandwidth an exchange delays the step beside which it runs.

use serde_json::Value;

/// Bandwidths of links, in MB/s.
pub(super) const BANDWIDTHS: [u32; 5] = [100, 200, 400, 800, 1600];
/// An exchange is hidden where the step takes at most so many times what it takes with the fastest link.
const HIDDEN: f64 = 1.1;

/// The bandwidth below which the step becomes longer, as predicted and as measured. The first rows of `found` are those with overlap, one
/// for each of [`BANDWIDTHS`].
pub(super) fn sentence(found: &Value) -> String {
    let times = |name: &str| -> Vec<f64> {
        let rows = found["rows"].as_array().into_iter().flatten();
        rows.take(BANDWIDTHS.len()).filter_map(|row| row[name].as_f64()).collect()
    };
    match (crossing(&times("predicted_s")), crossing(&times("measured_s"))) {
        (Some(predicted), Some(measured)) => format!(
            "\nWith overlap, the step is {:.0}% longer than with the fastest link at {predicted:.0} MB/s as predicted and at \
             {measured:.0} MB/s as measured: {:+.1}%.\n",
            100.0 * (HIDDEN - 1.0),
            100.0 * (predicted / measured - 1.0)
        ),
        _ => "\nNo bandwidth was found at which the exchange stops being hidden.\n".to_owned(),
    }
}

/// Where the times of [`BANDWIDTHS`] reach [`HIDDEN`] of the last, in MB/s: between two bandwidths, by a line in logarithms.
fn crossing(times: &[f64]) -> Option<f64> {
    let fastest = *times.get(BANDWIDTHS.len() - 1)?;
    let above = |at: usize| (times[at] / (HIDDEN * fastest)).ln();
    let last = (0..times.len()).rev().find(|at| above(*at) > 0.0)?;
    let (slow, fast) = (f64::from(BANDWIDTHS[last]).ln(), f64::from(BANDWIDTHS[last + 1]).ln());
    let share = above(last) / (above(last) - above(last + 1));
    Some((slow + share * (fast - slow)).exp())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bandwidth_is_found_between_two_that_were_measured() {
        // 40 s of MB/s over a link, beside 0.1 s of computation: from 400 MB/s on, all is hidden.
        let exposed = |bandwidth: u32| (40.0 / f64::from(bandwidth)).max(0.1);
        let times: Vec<f64> = BANDWIDTHS.iter().map(|bandwidth| exposed(*bandwidth)).collect();
        let found = crossing(&times).unwrap();
        assert!((found / 364.0 - 1.0).abs() < 0.02, "{found}");
        assert_eq!(crossing(&[0.1; 5]), None, "hidden throughout");
        assert_eq!(crossing(&times[..4]), None, "a row is missing");
        let rows: Vec<Value> =
            times.iter().map(|time| json!({"predicted_s": time, "measured_s": 1.1 * time})).collect();
        assert!(
            sentence(&json!({ "rows": rows })).contains("at 364 MB/s as predicted and at 364 MB/s as measured: +0.0%")
        );
    }
}
