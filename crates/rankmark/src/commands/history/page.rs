//! A history as a page: what `report::index` draws.

use std::path::{Component, Path, PathBuf};

use diagnose::history::{ChangedRun, Run, Series};
use report::index::{Index, IndexCase, IndexChange, IndexMachine, IndexMark, IndexPoint, IndexRun, write_index};
use view::number::count;

use super::found::{Histories, NamedHistory};
use super::text;
use super::words::{band, date, plain, run_name};
use crate::Failure;

/// The name of the page in a folder of records.
pub(crate) const INDEX_FILE: &str = "index.html";

/// What a record's report may be called, the best to read first.
const REPORTS: [&str; 2] = ["report.html", "report.md"];

/// Writes the page to this file. Links are relative to the file's folder.
pub(super) fn write(found: &Histories, title: &str, file: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = file.file_name() else {
        return Err(Failure::new(format!("`{}` cannot name a page", file.display())).hint("--html history.html"));
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that is made with the page has no links on its way.
    let base = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok();
    let file = folder.join(name);
    write_index(&index(found, title, base.as_deref()), &file)?;
    Ok(file)
}

fn index(found: &Histories, title: &str, base: Option<&Path>) -> Index {
    let machines: Vec<IndexMachine> = found.machines.iter().map(|named| machine(named, base)).collect();
    let runs: usize = machines.iter().map(|machine| machine.runs.len()).sum();
    let changes: usize = machines.iter().map(|machine| machine.changes.len()).sum();
    let changed = match changes {
        0 => "no change point".to_owned(),
        changes => format!("cases changed at {}", count(changes, "run", "runs")),
    };
    let of = format!("{} of {}", count(runs, "run", "runs"), count(machines.len(), "machine", "machines"));
    let left_out = found.left_out.iter().map(|left| [left.directory.clone(), left.why.clone()]).collect();
    Index { title: title.to_owned(), summary: format!("{of}; {changed}."), machines, left_out }
}

fn machine(named: &NamedHistory, base: Option<&Path>) -> IndexMachine {
    let history = &named.history;
    let latest = history.runs.last().map(|run| report::machine_line(&run.machine)).unwrap_or_default();
    let several = history.runs.last().is_some_and(|run| run.several_hosts);
    let name = match history.runs.last() {
        // One host: its whole line, which the key repeats in part.
        Some(run) if !several && !latest.is_empty() => format!("{}: {latest}", run.machine.host),
        _ => history.machine.clone(),
    };
    let banner = history.simulated().then(|| "SIMULATED: times are computed by a model and never measured".to_owned());
    let noise = text::noise(history).map(|noise| format!("{noise} {}", text::RATE));
    IndexMachine {
        name,
        banner,
        runs: history.runs.iter().map(|of| run(of, base)).collect(),
        cases: history.series.iter().zip(&named.names).map(|(series, name)| case(series, name)).collect(),
        changes: history.changes.iter().map(|of| change(of, named)).collect(),
        noise: noise.unwrap_or_default(),
    }
}

fn run(run: &Run, base: Option<&Path>) -> IndexRun {
    let damaged =
        (run.damaged > 0).then(|| format!("{} left out", count(run.damaged, "damaged line", "damaged lines")));
    let note = run.banner.clone().into_iter().chain(damaged).collect::<Vec<_>>().join(", ");
    IndexRun {
        date: date(run.started),
        name: run_name(run),
        tags: run.labels.tags.join(", "),
        plan: plain(&run.experiment),
        counts: run.counts,
        note,
        link: base.and_then(|base| link(Path::new(&run.directory), base)),
        directory: run.directory.clone(),
    }
}

/// The path of a record's report from the page's folder; None where there is no report.
fn link(directory: &Path, base: &Path) -> Option<String> {
    let report = REPORTS.iter().map(|name| directory.join(name)).find(|path| path.is_file())?;
    relative(&report.canonicalize().ok()?, base)
}

/// The path from one folder to a file; both are absolute and without links. None where it is not text.
fn relative(file: &Path, base: &Path) -> Option<String> {
    let common = file.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(file.components().skip(common)).collect();
    path.to_str().map(str::to_owned)
}

fn case(series: &Series, name: &str) -> IndexCase {
    let point = |point: &diagnose::history::SeriesPoint| IndexPoint {
        run: point.run,
        median_s: point.median_s,
        ci95: point.ci95,
    };
    let mark = |change: &diagnose::history::SeriesChange| IndexMark { at: change.at, ratio: change.ratio };
    IndexCase {
        label: name.to_owned(),
        points: series.points.iter().map(point).collect(),
        noise: band(series),
        changes: series.changes.iter().map(mark).collect(),
    }
}

fn change(change: &ChangedRun, named: &NamedHistory) -> IndexChange {
    let line = |(case, number): &(usize, usize)| {
        let series_line = text::series_line(&named.history.series[*case], *number).replace("  ", ", ");
        format!("{}: {series_line}", named.names[*case])
    };
    IndexChange {
        run: change.run,
        better: change.cases.iter().all(|(case, number)| named.history.series[*case].changes[*number].ratio < 1.0),
        cases: change.cases.iter().map(line).collect(),
        differences: change.differences.iter().map(ToString::to_string).collect(),
    }
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
}
