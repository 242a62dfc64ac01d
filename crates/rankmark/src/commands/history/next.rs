//! What to type after a history: the comparison of the two runs that matter most, or the report of the only one.

use std::path::Path;

use diagnose::history::History;

use super::found::Histories;
use crate::screen;

/// The line, of the machine with the latest run.
pub(super) fn after(found: &Histories) -> String {
    let histories = found.machines.iter().map(|machine| &machine.history);
    let latest = histories.max_by_key(|history| history.runs.last().map(|run| run.started));
    let Some(history) = latest else { return String::new() };
    let directory = |run: usize| history.runs[run].directory.as_str();
    match pair(history) {
        Some(([before, after], does)) => {
            screen::next(&["rankmark", "compare", directory(before), directory(after), "--fail-on", "none"], does)
        }
        None => screen::next_report(&[Path::new(directory(history.runs.len() - 1))], "tables and charts of this run"),
    }
}

/// The runs around the last change; else the latest run and the one before it that has a case in common.
fn pair(history: &History) -> Option<([usize; 2], &'static str)> {
    if let Some(change) = history.changes.last() {
        return Some(([change.before, change.run], "the runs around the last change"));
    }
    let last = history.runs.len().checked_sub(1)?;
    let before = history.series.iter().filter_map(|series| match series.points.as_slice() {
        [.., before, point] if point.run == last => Some(before.run),
        _ => None,
    });
    Some(([before.max()?, last], "the latest run and the one before it"))
}
