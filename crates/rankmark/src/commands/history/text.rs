//! A history as a terminal shows it.

use std::collections::BTreeSet;

use diagnose::history::{ChangedRun, History, Series};
use stats::{FEWEST_FOR_A_CHANGE, FEWEST_RUNS, MOST_FOR_A_CHANGE};
use view::number::{count, percent, seconds};

use super::found::{Histories, NamedHistory};
use super::words::{band, date, plain, run_name, signed};
use terminal::{Column, Row, Style, Table, sparkline, wrap};

/// Cases that are listed at one change.
const LISTED: usize = 12;
/// Columns of a line of values, where there is room.
const SPARK: usize = 20;

/// The whole history in so many columns.
pub(super) fn text(found: &Histories, width: usize) -> String {
    let mut out = String::new();
    for (index, machine) in found.machines.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out += &section(machine, width);
    }
    for left in &found.left_out {
        out += &format!("left out  {}: {}\n", plain(&left.directory), plain(&left.why));
    }
    out
}

fn section(named: &NamedHistory, width: usize) -> String {
    let history = &named.history;
    let runs = &history.runs;
    let mut out = format!("{}\n", Style::Bold.paint(&plain(&history.machine)));
    let (first, last) = (date(runs[0].started), date(runs[runs.len() - 1].started));
    let span = if first == last { first } else { format!("{first} to {last}") };
    out +=
        &format!("{}, {}, {span} UTC\n", count(runs.len(), "run", "runs"), count(named.names.len(), "case", "cases"));
    let states: BTreeSet<String> =
        history.series.iter().filter_map(|series| series.state.as_ref()).map(ToString::to_string).collect();
    if !states.is_empty() {
        let states: Vec<String> = states.into_iter().collect();
        let line = format!("The machine has several states ({}): a case has a series in each.", states.join(", "));
        out += &format!("{}\n", wrap(&line, width));
    }
    if history.simulated() {
        out += &format!("{}  times are computed by a model and never measured\n", Style::Warning.paint("SIMULATED"));
    }
    let dated = runs.iter().filter(|run| run.dated_by.is_some()).count();
    if dated > 0 {
        let runs = count(dated, "run", "runs");
        let line =
            format!("The date of {runs} is when the file last changed, or was imported: the files do not tell it.");
        out += &format!("{}\n", wrap(&line, width));
    }
    let damaged = runs.iter().filter(|run| run.damaged > 0);
    for run in damaged {
        let lines = count(run.damaged, "damaged line", "damaged lines");
        out += &format!("warning: {}: {lines} left out\n", plain(&run.directory));
    }
    for (run, banner) in runs.iter().filter_map(|run| Some((run, run.banner.as_ref()?))) {
        out += &format!("warning: {}: {}\n", plain(&run.directory), plain(banner));
    }
    out.push('\n');
    out += &table(named, width);
    out.push('\n');
    for change in &history.changes {
        out += &changed(named, change, width);
    }
    for line in explained(history) {
        out += &format!("{}\n", wrap(&line, width));
    }
    out
}

/// How often a change point is false.
pub(super) const RATE: &str = "Equal runs raise a false change point, in any case, with a chance of at most 5%.";

/// How much equal runs differ, in a sentence; None where that is not known.
pub(super) fn noise(history: &History) -> Option<String> {
    let band = percent(history.typical_band()?);
    Some(format!("95% of equal runs of a case lie within ±{band} of their middle (median over the cases)."))
}

/// What the table and the changes rest on.
fn explained(history: &History) -> Vec<String> {
    let most = history.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    lines.push(
        noise(history)
            .unwrap_or_else(|| format!("The noise between runs is known from {FEWEST_RUNS} runs of a case on.")),
    );
    if most < FEWEST_FOR_A_CHANGE {
        lines.push(format!("Change points are searched from {FEWEST_FOR_A_CHANGE} runs of a case on."));
    } else if history.changes.is_empty() {
        lines.push(
            "No change point. Equal runs raise a false one, in any case, with a chance of at most 5%.".to_owned(),
        );
    } else {
        lines.push("Equal runs raise a false change point, in any case, with a chance of at most 5%.".to_owned());
    }
    if most > MOST_FOR_A_CHANGE {
        lines.push(format!("Change points are searched in the last {MOST_FOR_A_CHANGE} runs of a case."));
    }
    lines
}

/// A line a case. Where the lines are too wide, the first time is left out, then the line of values is shorter, then names of
/// cases take several lines.
fn table(named: &NamedHistory, width: usize) -> String {
    let with = |spark: usize, wraps: bool| {
        let case = Column::left("case");
        let mut table = Table::new([
            if wraps { case.wraps(28, 16) } else { case },
            Column::right("runs"),
            // The line of values shows it, too.
            Column::right("first").gives_way(1).optional(),
            Column::right("median"),
            Column::right("last").optional(),
            Column::left("time").optional(),
            Column::right("runs differ by").optional(),
            Column::left("changes").optional(),
        ]);
        let series = named.history.series.iter().zip(&named.names);
        series.for_each(|(series, name)| table.push(row(series, name, &named.history, spark)));
        table
    };
    let whole = [with(SPARK, false), with(SPARK / 2, false)];
    let fitting = whole.into_iter().find(|table| table.fits(width));
    fitting.unwrap_or_else(|| with(SPARK / 2, true)).text(width)
}

fn row(series: &Series, name: &str, history: &History, spark: usize) -> Row {
    let time =
        |point: Option<&diagnose::history::SeriesPoint>| point.map_or(String::new(), |point| seconds(point.median_s));
    let change = |change: &diagnose::history::SeriesChange| {
        let day = history.runs[change.run].started.strftime("%m-%d").to_string();
        format!("{} {day}", signed(change.ratio))
    };
    let values: Vec<f64> = series.points.iter().map(|point| point.median_s).collect();
    let changes: Vec<String> = series.changes.iter().map(change).collect();
    Row::new([
        name.to_owned(),
        series.points.len().to_string(),
        time(series.points.first()),
        seconds(series.median_s()),
        time(series.points.last()),
        sparkline(&values, spark),
        band(series),
        changes.join(", "),
    ])
}

/// A run at which cases changed: when, which, by how much, and what else differs.
fn changed(named: &NamedHistory, change: &ChangedRun, width: usize) -> String {
    let history = &named.history;
    let run = &history.runs[change.run];
    let mut out = format!(
        "{}  {}  {}\n",
        Style::Bold.paint(&format!("changed {}", date(run.started))),
        run_name(run),
        plain(&run.directory)
    );
    let names = change.cases.iter().map(|(case, _)| named.names[*case].chars().count());
    let length = names.take(LISTED).max().unwrap_or(0);
    for (case, number) in change.cases.iter().take(LISTED) {
        out += &format!("  {:length$}  {}\n", named.names[*case], series_line(&history.series[*case], *number));
    }
    if let Some(more) = change.cases.len().checked_sub(LISTED).filter(|more| *more > 0) {
        out += &format!("  and {} (all with --json)\n", count(more, "more case", "more cases"));
    }
    let differences: Vec<String> = change.differences.iter().map(|difference| plain(&difference.to_string())).collect();
    let also = match differences.len() {
        0 => "nothing else that the record keeps differs from the run before".to_owned(),
        _ => format!("also changed: {}", differences.join("; ")),
    };
    out + &format!("  {}\n\n", wrap(&also, width.saturating_sub(2)).replace('\n', "\n  "))
}

/// `+12%  0.910 us -> 1.02 us  9 runs before, 4 after`.
pub(super) fn series_line(series: &Series, number: usize) -> String {
    let change = &series.changes[number];
    let [before, after] = change.results;
    let [from, to] = change.level_s.map(seconds);
    format!("{}  {from} -> {to}  {} before, {after} after", signed(change.ratio), count(before, "run", "runs"))
}
