//! What is said of a run around its table: what it is, and, to who looks on, how it ended.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use record::store::run_end;
use record::{BackendState, CaseCounts, CaseLine, RunEnd, RunFile};
use view::number::count;
use view::one_line;
use view::terminal::hanging;

/// What the user calls a run, and what it runs on, in so many columns.
pub fn setup_lines(file: &RunFile, width: usize) -> Vec<String> {
    let (tags, note) = (file.labels.tags.join(", "), file.labels.note.clone().unwrap_or_default());
    let labels = [("tags     ", tags), ("note     ", note)].into_iter().filter(|(_, text)| !text.is_empty());
    let ready =
        |backend: &BackendState| format!("{} {}", backend.name, if backend.ready { "ready" } else { "missing" });
    let mut backends: Vec<String> = file.backends.iter().map(ready).collect();
    // A backend with several libraries has an entry for each.
    backends.dedup();
    let own = [("machine  ", crate::machine_line(&file.machine)), ("backends ", backends.join(" · "))];
    let limits = crate::profile_lines(file).into_iter().map(|profile| ("limits   ", profile));
    labels.chain(own).chain(limits).map(|(label, text)| hanging(label, &text, width)).collect()
}

/// The line of the files that were written of a run; None where none was.
pub fn report_line(written: &[PathBuf]) -> Option<String> {
    let (first, rest) = written.split_first()?;
    let is = |path: &Path, kinds: &[&str]| kinds.iter().any(|kind| path.extension() == Some(OsStr::new(kind)));
    let charts = rest.iter().any(|path| is(path, &["svg", "png"])).then(|| "charts/".to_owned());
    let files = rest.iter().filter(|path| is(path, &["csv", "md"]));
    let files = files.filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()));
    let rest: Vec<String> = files.chain(charts).collect();
    let also = if rest.is_empty() { String::new() } else { format!(" (also {})", rest.join(", ")) };
    Some(format!("report   {}{also}", first.display()))
}

/// Which run it is that somebody looks on at.
pub fn followed(file: &RunFile, directory: &Path) -> String {
    let name = file.labels.name.as_ref().map_or(String::new(), |name| format!("run {name}, "));
    let cases = count(file.plan.cases.len(), "case", "cases");
    let started = file.started.get(..19).unwrap_or(&file.started);
    one_line(&format!("{name}plan {}, {cases}, started {started}Z   record {}", file.experiment, directory.display()))
}

/// What is said last to who looked on.
pub struct FollowedEnd {
    /// The lines.
    pub lines: Vec<String>,
    /// Whether the run ended before all cases had their trials.
    pub incomplete: bool,
}

/// What is said last of a run whose cases have these lines so far. `live`: it goes on.
pub fn followed_end(file: &RunFile, latest: &[CaseLine], live: bool, directory: &Path) -> FollowedEnd {
    let known: HashSet<&str> = latest.iter().map(|line| line.id.as_str()).collect();
    let absent = file.plan.cases.iter().filter(|case| !known.contains(case.id.as_str())).count();
    let mut counts = CaseCounts::of(latest);
    (counts.cases, counts.not_run) = (counts.cases + absent, counts.not_run + absent);
    let end = run_end(file, directory);
    let banner = end.banner(counts);
    if live {
        let line = match end {
            // It may never go on.
            RunEnd::Unknown => banner.unwrap_or_default(),
            RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Killed | RunEnd::Running | RunEnd::Part => {
                "the run goes on".to_owned()
            }
        };
        return FollowedEnd { lines: vec![line], incomplete: false };
    }
    let incomplete = banner.is_some() || absent + counts.lacking > 0;
    let has_banner = banner.is_some();
    let plain = if incomplete { "the run ended before all cases had their trials" } else { "the run ended" };
    let mut lines = vec![banner.unwrap_or_else(|| plain.to_owned())];
    if !has_banner && absent > 0 {
        lines.push(format!("{absent} of {} did not run", count(file.plan.cases.len(), "case", "cases")));
    }
    if incomplete {
        let directory = directory.display().to_string();
        lines.push(format!("continue it: rankmark run --resume {}", crate::shell(&directory)));
    }
    FollowedEnd { lines, incomplete }
}
