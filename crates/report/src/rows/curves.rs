//! What somebody sees who looks on at a run: how far it is, and a curve over the sizes of each group of rows.

use std::collections::HashMap;

use record::CaseLine;
use terms::{Seconds, Status};
use view::number::{bytes, count, lasting, three_digits};
use view::terminal::sparkline;

use super::{Rows, label};

/// Columns of a curve.
const CURVE: usize = 40;
/// The fewest sizes that make a curve.
const FEWEST: usize = 3;

impl Rows {
    /// How far a run of so many cases is, in a line, and how many seconds ago it had its last result.
    pub fn progress(&self, total: usize, quiet_s: Option<f64>) -> String {
        let lines = || self.lines().map(|(_, line)| line);
        let timed = lines().filter(|line| line.time_s.is_some()).count();
        let trials: u32 = lines().filter_map(|line| line.trials).sum();
        let round = lines().flat_map(|line| line.trial_round.iter().copied()).max();
        let round = round.map_or(String::new(), |round| format!("round {}, ", round + 1));
        let mut parts = vec![format!("{round}{timed} of {} with a result", count(total, "case", "cases"))];
        parts.push(count(trials as usize, "trial", "trials"));
        for status in [Status::Failed, Status::Skipped, Status::NotRun] {
            let number = lines().filter(|line| line.status == status).count();
            parts.extend((number > 0).then(|| format!("{number} {status}")));
        }
        let since = quiet_s.filter(|_| lines().next().is_some());
        parts.extend(since.map(|seconds| format!("last result {} ago", lasting(seconds))));
        parts.join(", ")
    }

    /// A line for each group of rows with several sizes: its headline metric over them.
    pub fn curves(&self) -> Vec<String> {
        let mut places: HashMap<(&str, u32), usize> = HashMap::new();
        let mut groups: Vec<Vec<&CaseLine>> = Vec::new();
        for (heading, line) in self.lines() {
            let place = *places.entry((heading, line.ranks)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(line);
        }
        let mut curves: Vec<String> = groups.iter().filter_map(|group| self.curve(group)).collect();
        if !curves.is_empty() {
            curves.insert(0, String::new());
        }
        curves
    }

    fn curve(&self, lines: &[&CaseLine]) -> Option<String> {
        let first = lines.first()?;
        let declared = self.declared(&first.benchmark);
        let metric = declared.and_then(|declared| {
            let name = declared.show.headline.first()?;
            let metric = declared.metrics.iter().find(|metric| metric.name == *name)?;
            // A bandwidth between ranks is zero where there is one rank: then times tell more.
            lines.iter().any(|line| line.metric(name).is_some_and(|value| value > 0.0)).then_some(metric)
        });
        let value = |line: &CaseLine| match metric {
            Some(metric) => line.metric(&metric.name),
            None => line.time_s.as_ref().map(|time| time.median),
        };
        let mut points: Vec<(u64, f64)> = lines.iter().filter_map(|line| Some((line.bytes?, value(line)?))).collect();
        points.sort_by_key(|(size, _)| *size);
        // Two values of one size would be two curves.
        points.dedup_by_key(|(size, _)| *size);
        if points.len() < FEWEST {
            return None;
        }
        let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        let (low, high) =
            values.iter().fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
        let shown = |value: f64| if metric.is_some() { three_digits(value) } else { Seconds(value).to_string() };
        let (name, unit) = metric.map_or(("time", ""), |metric| (metric.name.as_str(), metric.unit.as_str()));
        let what = first.parameters.values().next().and_then(|value| value.as_str()).unwrap_or(&first.benchmark);
        let [what, backend, name, unit] = [what, &view::study::backend(first), name, unit].map(view::one_line);
        Some(
            format!(
                "  {}  {name}  {} {} {}  {} to {} {unit}",
                view::study::named(&what, None, first.ranks, &backend),
                bytes(points[0].0),
                sparkline(&values, CURVE),
                bytes(points[points.len() - 1].0),
                shown(low),
                shown(high)
            )
            .trim_end()
            .to_owned(),
        )
    }
}

/// A result in a line.
pub fn result_line(line: &CaseLine) -> String {
    let result = match (&line.time_s, &line.reason) {
        (Some(time), _) => Seconds(time.median).to_string(),
        (None, Some(reason)) => format!("{}: {reason}", line.status),
        (None, None) => line.status.to_string(),
    };
    let wrong = line.wrong.map_or(String::new(), |wrong| format!(", wrong {wrong}"));
    view::one_line(&format!("{}: {result}{wrong}", label(line)))
}
