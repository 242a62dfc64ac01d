//! What the measurements say together: memory against the caches, one core against all.

use ::view::number::{bytes, three_digits};
use ::view::study::{Measured, Operation};
use ::view::{Finding, View};

/// See the module's documentation.
pub(super) struct HardwareView;

fn threads(point: &Measured) -> u64 {
    let number = |name: &str| point.case.parameters.get(name).and_then(serde_json::Value::as_u64);
    number("threads").unwrap_or(1) * u64::from(point.case.ranks)
}

fn rate(point: &Measured) -> Option<f64> {
    point.case.metric("gbs")
}

/// `2 threads`.
fn on(number: u64) -> String {
    ::view::number::count(number as usize, "thread", "threads")
}

impl View for HardwareView {
    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let points: Vec<&Measured> = section.points().filter(|point| rate(point).is_some()).collect();
        let largest = points.iter().filter_map(|point| point.bytes).max()?;
        let at_largest = || points.iter().copied().filter(|point| point.bytes == Some(largest));
        let best = at_largest().max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))?;
        let range = |point: &Measured| {
            let estimate = point.estimate("gbs", "", section.declared);
            estimate.map_or_else(String::new, |estimate| estimate.range(three_digits))
        };
        let (name, best_rate) = (&section.name, rate(best)?);
        let mut found = vec![Finding::new(format!(
            "{name}: {} GB/s{} at {}, on {}.",
            three_digits(best_rate),
            range(best),
            bytes(largest),
            on(threads(best)),
        ))];
        if let Some(single) = at_largest().find(|point| threads(point) == 1).filter(|_| threads(best) > 1) {
            let factor = best_rate / rate(single)?;
            let (all, factor) = (on(threads(best)), three_digits(factor));
            found.push(Finding::new(format!("{name}: {all} reach {factor} times the bandwidth of one.")));
        }
        Some(found)
    }
}
