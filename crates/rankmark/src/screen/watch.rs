//! The screen of a command that follows another one's run: the table and its curves, drawn again in place on a terminal, and
//! one line an update in a pipe.

use std::collections::HashMap;
use std::io::{self, Write};

use record::{CaseLine, Plan};
use terms::{Seconds, Status};
use view::number::{bytes, count, three_digits};

use super::is_watched;
use super::live::{Live, Rows};
use super::run::{label, minutes, table_width};
use terminal::sparkline;

/// Columns of a curve.
const CURVE: usize = 40;
/// The fewest sizes that make a curve.
const FEWEST: usize = 3;

/// What is known of a run from outside.
pub(crate) struct State {
    /// The record's directory, as it was named.
    pub(crate) directory: String,
    /// Seconds since the last result.
    pub(crate) quiet_s: Option<f64>,
}

/// See the module's documentation.
pub(crate) struct Watch {
    out: anstream::AutoStream<io::Stdout>,
    live: Option<Live>,
    /// Standard output takes no more.
    pub(crate) closed: bool,
    /// Why, where it is not that the reader went away.
    pub(crate) lost: Option<io::Error>,
    rows: Rows,
    total: usize,
    latest: Option<CaseLine>,
}

impl Watch {
    /// A screen for a run of this plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let out = anstream::stdout();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let moves = out.current_choice() != anstream::ColorChoice::Never;
        let live = (is_watched(io::stdout()) && !dumb && moves).then(Live::default);
        Self { out, live, closed: false, lost: None, rows: Rows::new(plan), total: plan.cases.len(), latest: None }
    }

    fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        if let Err(error) = self.out.write_all(terminal::output(text).as_bytes()).and_then(|()| self.out.flush()) {
            self.closed = true;
            self.lost = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }

    /// A line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        let cleared = self.live.as_mut().map(Live::clear).unwrap_or_default();
        self.write(&format!("{cleared}{text}\n"));
    }

    /// Takes in new case lines.
    pub(crate) fn put(&mut self, lines: Vec<CaseLine>) {
        lines.iter().for_each(|line| self.rows.put(line));
        self.latest = lines.into_iter().last().or(self.latest.take());
    }

    /// Shows what is new: the table again on a terminal; a line in a pipe, where there are new results.
    pub(crate) fn update(&mut self, state: &State, is_new: bool) {
        if self.live.is_none() {
            if is_new {
                // How long ago that was says nothing to a later reader.
                let progress = self.progress(&State { quiet_s: None, directory: state.directory.clone() });
                let latest = self.latest.as_ref().map_or(String::new(), |line| format!("   {}", result_line(line)));
                self.line(&format!("{progress}{latest}"));
            }
            return;
        }
        let progress = self.progress(state);
        let mut rows = self.rows.table(super::columns().unwrap_or(100) - 1);
        rows.extend(self.curves());
        rows.push(String::new());
        let text = self.live.as_mut().map(|live| live.draw(&rows, Some(&progress))).unwrap_or_default();
        self.write(&text);
    }

    /// The whole table, its curves, and how far the run is.
    pub(crate) fn whole(&mut self, state: &State) {
        let mut rows = self.rows.table(table_width());
        rows.extend(self.curves());
        rows.push(String::new());
        rows.push(self.progress(state));
        rows.iter().for_each(|row| self.line(row));
    }

    /// How far the run is, in a line.
    fn progress(&self, state: &State) -> String {
        let lines = || self.rows.lines().map(|(_, line)| line);
        let timed = lines().filter(|line| line.time_s.is_some()).count();
        let trials: u32 = lines().filter_map(|line| line.trials).sum();
        let round = lines().flat_map(|line| line.trial_round.iter().copied()).max();
        let round = round.map_or(String::new(), |round| format!("round {}, ", round + 1));
        let mut parts = vec![format!("{round}{timed} of {} with a result", count(self.total, "case", "cases"))];
        parts.push(count(trials as usize, "trial", "trials"));
        for status in [Status::Failed, Status::Skipped, Status::NotRun] {
            let number = lines().filter(|line| line.status == status).count();
            parts.extend((number > 0).then(|| format!("{number} {status}")));
        }
        let since = state.quiet_s.filter(|_| lines().next().is_some());
        parts.extend(since.map(|seconds| format!("last result {} ago", minutes(seconds))));
        format!("{}   {}", parts.join(", "), state.directory)
    }

    /// A line for each group of rows with several sizes: its headline metric over them.
    fn curves(&self) -> Vec<String> {
        let mut places: HashMap<(&str, u32), usize> = HashMap::new();
        let mut groups: Vec<Vec<&CaseLine>> = Vec::new();
        for (heading, line) in self.rows.lines() {
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
        let declared = self.rows.declared(&first.benchmark);
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
fn result_line(line: &CaseLine) -> String {
    let result = match (&line.time_s, &line.reason) {
        (Some(time), _) => Seconds(time.median).to_string(),
        (None, Some(reason)) => format!("{}: {reason}", line.status),
        (None, None) => line.status.to_string(),
    };
    let wrong = line.wrong.map_or(String::new(), |wrong| format!(", wrong {wrong}"));
    view::one_line(&format!("{}: {result}{wrong}", label(line)))
}
