//! A line of values as text, `▁▂▃▅▇`, and how much of something is done, `=====>`.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar for each value, in at most so many columns: of more values, the median of each part. Bars reach from the smallest to
/// the largest value; differences below 2% stay in the middle, so that noise does not look like a change.
pub fn sparkline(values: &[f64], columns: usize) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let shown = values.len().min(columns);
    let part = |index: usize| stats::median(&values[index * values.len() / shown..(index + 1) * values.len() / shown]);
    let parts: Vec<f64> = (0..shown).map(part).collect();
    let low = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let high = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = high - low;
    let is_noise = range <= 0.02 * high.abs();
    let bar = |value: &f64| {
        let share = if is_noise { 0.5 } else { (value - low) / range };
        BARS[((share * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    parts.iter().map(bar).collect()
}

/// Columns of a bar of progress.
const BAR: usize = 24;

/// A bar that shows which share is done.
pub fn bar(done: f64) -> String {
    let filled = ((done.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR - 1);
    format!("{}>{}", "=".repeat(filled), " ".repeat(BAR - filled - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_values() {
        assert_eq!(sparkline(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 20), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[8.0, 1.0], 20), "█▁");
        assert_eq!(sparkline(&[3.0, 3.0, 3.0], 20), "▅▅▅");
        assert_eq!(sparkline(&[1.0, 1.001], 20), "▅▅", "a thousandth is not a change");
        assert_eq!((sparkline(&[], 20), sparkline(&[f64::NAN], 20)), (String::new(), String::new()));
    }

    #[test]
    fn many_values_are_medians_of_parts() {
        let values: Vec<f64> = (0..100).map(|run| if run < 50 { 1.0 } else { 2.0 }).collect();
        assert_eq!(sparkline(&values, 4), "▁▁██");
    }

    #[test]
    fn the_bar_is_never_longer_than_its_place() {
        assert!([0.0, 0.5, 1.0, 7.0].iter().all(|done| bar(*done).len() == BAR));
    }
}
