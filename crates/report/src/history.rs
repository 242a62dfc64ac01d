//! The runs of machines over time: a line for each case, the runs at which cases changed, and what that rests on.

mod found;
mod json;
mod names;
mod read;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use diagnose::history::{ChangedRun, History, LeftOut, Run, Series};
use stats::{FEWEST_FOR_A_CHANGE, FEWEST_RUNS, MOST_FOR_A_CHANGE};
use view::number::{count, percent, seconds};
use view::one_line;

use crate::document::{
    Block, Card, Column, Document, Item, Table, TableRow, TimeChange, TimePoint, Timeline, Tone, Words, link, strong,
};

pub use found::Histories;
pub use json::HistoryJson;

/// Cases that are listed at one change.
const LISTED: usize = 12;
/// What a record's report may be called, the best to read first.
const REPORTS: [&str; 2] = ["report.html", "report.md"];

/// The runs of one machine, with the name of each of its cases.
pub struct NamedHistory {
    /// The runs.
    pub history: History,
    /// A name for each series.
    pub names: Vec<String>,
}

/// What a person reads of histories. Links to reports are relative to `folder`, where the page is; None: it has no links.
pub fn history(title: &str, machines: &[NamedHistory], left_out: &[LeftOut], folder: Option<&Path>) -> Document {
    let mut blocks =
        vec![Block::OnPage(vec![Block::Heading(1, title.into()), Block::Paragraph(summary(machines).into())])];
    machines.iter().for_each(|machine| blocks.extend(section(machine, folder)));
    if !left_out.is_empty() {
        let item = |left: &LeftOut| Item::from(format!("left out: {}: {}", left.directory, left.why));
        blocks.push(Block::OnPage(vec![Block::Heading(2, "Records that are left out".into())]));
        blocks.push(Block::List(left_out.iter().map(item).collect()));
    }
    Document { title: title.to_owned(), blocks }
}

/// The most runs of one case.
fn most_runs(machines: &[NamedHistory]) -> usize {
    let series = machines.iter().flat_map(|machine| &machine.history.series);
    series.map(|series| series.points.len()).max().unwrap_or(0)
}

fn summary(machines: &[NamedHistory]) -> String {
    let runs: usize = machines.iter().map(|machine| machine.history.runs.len()).sum();
    let changed = match machines.iter().map(|machine| machine.history.changes.len()).sum() {
        0 if most_runs(machines) < FEWEST_FOR_A_CHANGE => "too few of a case to find a change point".to_owned(),
        0 => "no change point".to_owned(),
        changes => format!("cases changed at {}", count(changes, "run", "runs")),
    };
    format!("{} of {}; {changed}.", count(runs, "run", "runs"), count(machines.len(), "machine", "machines"))
}

fn section(machine: &NamedHistory, folder: Option<&Path>) -> Vec<Block> {
    let history = &machine.history;
    let dates: Rc<[String]> = history.runs.iter().map(|run| date(run.started)).collect();
    let mut blocks = vec![Block::Heading(2, history.machine.as_str().into())];
    let latest = history.runs.last().filter(|run| !run.several_hosts).map(|run| crate::machine_line(&run.machine));
    blocks.extend(latest.map(|line| Block::OnPage(vec![Block::Note(line.into())])));
    if history.simulated() {
        let words = format!("{}: times are computed by a model and never measured", strong("SIMULATED"));
        blocks.push(Block::Warning(words.into()));
    }
    blocks.push(Block::Paragraph(extent(machine, &dates).into()));
    blocks.extend(states(history).map(|line| Block::Paragraph(line.into())));
    blocks.extend(dated(history).map(|line| Block::Paragraph(line.into())));
    blocks.extend(damage(history).map(|line| Block::Warning(line.into())));
    blocks.push(Block::Table(cases(machine, &dates)));
    // The newest first: what somebody asks for who looks now.
    history.changes.iter().rev().for_each(|change| blocks.extend(changed(machine, change, &dates)));
    blocks.extend(explained(history).into_iter().map(|line| Block::Paragraph(line.into())));
    blocks.push(Block::OnPage(charts(machine, &dates)));
    blocks.push(Block::OnPage(vec![
        Block::Heading(3, "Runs, the newest first".into()),
        Block::Table(runs(history, folder)),
    ]));
    blocks
}

fn extent(machine: &NamedHistory, dates: &[String]) -> String {
    let (runs, cases) = (dates.len(), machine.names.len());
    let span = match dates {
        [] => String::new(),
        [first, .., last] if first != last => format!(", {first} to {last} UTC"),
        [first, ..] => format!(", {first} UTC"),
    };
    format!("{}, {}{span}", count(runs, "run", "runs"), count(cases, "case", "cases"))
}

fn states(history: &History) -> Option<String> {
    let states = history.series.iter().filter_map(|series| series.state.as_ref()).map(ToString::to_string);
    let states: Vec<String> = states.collect::<BTreeSet<_>>().into_iter().collect();
    let line = || format!("The machine has several states ({}): a case has one series per state.", states.join(", "));
    (!states.is_empty()).then(line)
}

fn dated(history: &History) -> Option<String> {
    let dated = history.runs.iter().filter(|run| run.dated_by.is_some()).count();
    let of = count(dated, "run", "runs");
    let line = format!("The date of {of} is when the file last changed or was imported: the files have no date.");
    (dated > 0).then_some(line)
}

/// What of the records could not be read, and which are incomplete.
fn damage(history: &History) -> impl Iterator<Item = String> {
    history.runs.iter().flat_map(|run| damage_of(run).into_iter().map(|what| format!("{}: {what}", run.directory)))
}

fn damage_of(run: &Run) -> Vec<String> {
    let lines = || format!("{} left out", count(run.damaged, "damaged line", "damaged lines"));
    let damaged = (run.damaged > 0).then(lines);
    damaged.into_iter().chain(run.banner.clone()).collect()
}

/// How often a change point is false.
const RATE: &str = "If nothing changed, the chance of any false change point is at most 5%.";

/// How much equal runs differ, and what the changes rest on.
fn explained(history: &History) -> Vec<String> {
    let most = history.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let noise = history.typical_band().map_or_else(
        || format!("The noise between runs is unknown: that needs {FEWEST_RUNS} runs of a case."),
        |band| {
            let band = percent(band);
            format!("95% of equal runs of a case lie within ±{band} of their middle (median over the cases).")
        },
    );
    let changes = match () {
        () if most < FEWEST_FOR_A_CHANGE => {
            format!("No change point can be found yet: that needs {FEWEST_FOR_A_CHANGE} runs of a case.")
        }
        () if history.changes.is_empty() => format!("No change point. {RATE}"),
        () => RATE.to_owned(),
    };
    let bounded = || format!("Only the last {MOST_FOR_A_CHANGE} runs of a case are searched for change points.");
    [noise, changes].into_iter().chain((most > MOST_FOR_A_CHANGE).then(bounded)).collect()
}

/// A row for each case.
fn cases(machine: &NamedHistory, dates: &Rc<[String]>) -> Table {
    let history = &machine.history;
    let mut table = Table::new([
        Column::left("case").wraps(28, 16),
        Column::right("runs"),
        // The line of times shows it, too.
        Column::right("first").gives_way(1).optional(),
        Column::right("median"),
        Column::right("last").optional(),
        Column::left("time").optional(),
        Column::right("runs differ by").optional(),
        Column::left("changes").optional(),
    ]);
    const DRAWN: usize = 5;
    for (series, name) in history.series.iter().zip(&machine.names) {
        let time = |point: Option<&diagnose::history::SeriesPoint>| point.map(|point| seconds(point.median_s));
        let change = |change: &diagnose::history::SeriesChange| {
            let day = history.runs[change.run].started.strftime("%m-%d").to_string();
            format!("{} {day}", signed(change.ratio))
        };
        let changes: Vec<String> = series.changes.iter().map(change).collect();
        let tone = match series.changes.last() {
            None => Tone::Plain,
            Some(last) if last.ratio > 1.0 => Tone::Bad,
            Some(_) => Tone::Good,
        };
        let cells = [
            name.clone(),
            series.points.len().to_string(),
            time(series.points.first()).unwrap_or_default(),
            seconds(series.median_s()),
            time(series.points.last()).unwrap_or_default(),
            String::new(),
            band(series),
            changes.join(", "),
        ];
        table.push(TableRow::new(cells).tone(7, tone));
    }
    table.draw(DRAWN, history.series.iter().map(|series| timeline(series, dates)).collect());
    table
}

fn timeline(series: &Series, dates: &Rc<[String]>) -> Timeline {
    let point = |point: &diagnose::history::SeriesPoint| TimePoint {
        run: point.run,
        seconds: point.median_s,
        interval: point.printed,
    };
    let change = |change: &diagnose::history::SeriesChange| TimeChange { at: change.at, ratio: change.ratio };
    Timeline {
        dates: Rc::clone(dates),
        points: series.points.iter().map(point).collect(),
        changes: series.changes.iter().map(change).collect(),
    }
}

/// A run at which cases changed: when, which, by how much, and what else differs.
fn changed(machine: &NamedHistory, change: &ChangedRun, dates: &[String]) -> Vec<Block> {
    let history = &machine.history;
    let run = &history.runs[change.run];
    let title = format!("changed {}: {} ({})", dates[change.run], run_name(run), run.directory);
    let line = |(case, number): &(usize, usize)| {
        Item::from(format!("{}: {}", machine.names[*case], change_line(&history.series[*case], *number)))
    };
    let mut items: Vec<Item> = change.cases.iter().take(LISTED).map(line).collect();
    if let Some(more) = change.cases.len().checked_sub(LISTED).filter(|more| *more > 0) {
        items.push(format!("and {} (all with --json)", count(more, "more case", "more cases")).into());
    }
    let differences: Vec<String> = change.differences.iter().map(ToString::to_string).collect();
    items.push(match differences.len() {
        0 => "nothing else in the record differs from the previous run".into(),
        _ => format!("also changed: {}", differences.join("; ")).into(),
    });
    vec![Block::Heading(3, title.into()), Block::List(items)]
}

/// `+12%, 0.910 us -> 1.02 us, 9 runs before, 4 after`.
fn change_line(series: &Series, number: usize) -> String {
    let change = &series.changes[number];
    let [before, after] = change.results;
    let [from, to] = change.level_s.map(seconds);
    format!("{}, {from} -> {to}, {} before, {after} after", signed(change.ratio), count(before, "run", "runs"))
}

/// A chart for each case: of those that changed at once, of the others when somebody asks.
fn charts(machine: &NamedHistory, dates: &Rc<[String]>) -> Vec<Block> {
    let card = |(series, name): (&Series, &String)| {
        let differ = band(series);
        let differ = if differ.is_empty() { differ } else { format!(", runs differ by {differ}") };
        let note = format!("time, {}{differ}", count(series.points.len(), "run", "runs"));
        Card { title: name.clone(), note, timeline: timeline(series, dates) }
    };
    let all = machine.history.series.iter().zip(&machine.names);
    let (changed, steady): (Vec<_>, Vec<_>) = all.partition(|(series, _)| !series.changes.is_empty());
    let [changed, steady] = [changed, steady].map(|cases| cases.into_iter().map(card).collect::<Vec<Card>>());
    let open = changed.is_empty();
    let title = if open { "Charts" } else { "Charts of the other cases" };
    let steady = (!steady.is_empty()).then(|| Block::Folded {
        title: format!("{title} ({})", steady.len()),
        open,
        blocks: vec![Block::Cards(steady)],
    });
    let changed = (!open).then(|| [Block::Heading(3, "Cases that changed".into()), Block::Cards(changed)]);
    changed.into_iter().flatten().chain(steady).collect()
}

/// A row for each run, the newest first.
fn runs(history: &History, folder: Option<&Path>) -> Table {
    let mut table = Table::new([
        Column::left("date (UTC)"),
        Column::left("run"),
        Column::left("tags").optional(),
        Column::left("plan"),
        Column::left("cases"),
        Column::left("record"),
    ]);
    for run in history.runs.iter().rev() {
        let [ok, failed, skipped, open] = run.counts;
        let counted = [(failed, "failed"), (skipped, "skipped"), (open, "not run")];
        let counted = counted.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
        let parts: Vec<String> = std::iter::once(format!("{ok} ok")).chain(counted).chain(damage_of(run)).collect();
        let named = run_name(run);
        let report = folder.and_then(|folder| report_of(Path::new(&run.directory), folder));
        let cells: [Words; 6] = [
            date(run.started).into(),
            report.map_or_else(|| named.clone(), |report| link(&named, &report)).into(),
            run.labels.tags.join(", ").into(),
            run.experiment.as_str().into(),
            parts.join(", ").into(),
            run.directory.as_str().into(),
        ];
        table.push(TableRow::new(cells).tone(4, if failed > 0 { Tone::Bad } else { Tone::Plain }));
    }
    table.without(|at, cells| at == 2 && cells.iter().all(Words::is_empty))
}

/// The path of a record's report from a folder; None where there is no report.
fn report_of(directory: &Path, folder: &Path) -> Option<String> {
    let report = REPORTS.iter().map(|name| directory.join(name)).find(|path| path.is_file())?;
    relative(&report.canonicalize().ok()?, folder)
}

/// The path from one folder to a file; both are absolute and without links. None where it is not text.
fn relative(file: &Path, base: &Path) -> Option<String> {
    let common = file.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(file.components().skip(common)).collect();
    path.to_str().map(str::to_owned)
}

/// `2026-11-24 10:15`.
fn date(started: jiff::Timestamp) -> String {
    started.strftime("%Y-%m-%d %H:%M").to_string()
}

/// What the user calls a run, else its plan's name.
fn run_name(run: &Run) -> String {
    one_line(run.labels.name.as_ref().unwrap_or(&run.experiment))
}

/// `+12%`, `-3.1%`.
fn signed(ratio: f64) -> String {
    format!("{}{}", if ratio < 1.0 { "" } else { "+" }, percent(ratio - 1.0))
}

/// `±3.1%`; empty below five runs.
fn band(series: &Series) -> String {
    series.noise.map_or(String::new(), |noise| format!("±{}", percent(noise.band())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_from_the_page_to_the_report() {
        for (file, base, expected) in [
            ("/a/results/r1/report.md", "/a/results", "r1/report.md"),
            ("/a/results/r1/report.md", "/a/pages/x", "../../results/r1/report.md"),
            ("/a/report.md", "/a", "report.md"),
        ] {
            assert_eq!(relative(Path::new(file), Path::new(base)).as_deref(), Some(expected));
        }
    }

    #[test]
    fn no_record_has_a_page() {
        let page = history("results", &[], &[], None).page().into_string();
        assert!(page.starts_with("<!doctype html>") && page.contains("<h1>results</h1>"), "{page}");
    }
}
