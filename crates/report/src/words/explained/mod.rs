//! What traces of a run's cases showed (`profile.json`), made fit for a report: values that cannot be shown are left out and
//! counted, lists are bounded, names of files differ. Each format shows the same of it.
//!
//! Nothing is computed here beyond what the file says.

mod charts;
mod tables;
mod waterfall;
mod words;

use record::file::FileStem;
use record::{EXPLAINED_FILE, ExplainedCase, ExplainedFinding};
use view::NamedChart;

use crate::document::{Block, code};
use crate::escape::one_line;
use crate::number::count;
use crate::study::banner;
use crate::words::damage::picture_banner;
use crate::{Run, words::origin};

pub(crate) use tables::Named;
pub(crate) use waterfall::losses;
pub(crate) use words::{blocks, saved};

/// The title of the section.
pub(crate) const TITLE: &str = "What limits the steps";
/// Cases that are shown; more are counted.
const CASES: usize = 24;
/// Findings of a case that are shown.
const FINDINGS: usize = 3;
/// Notes of a case that are shown.
const NOTES: usize = 12;
/// Tables of a case that are shown and written.
const TABLES: usize = 32;

/// What a report shows of one case.
pub(crate) struct Explanation<'r> {
    /// The case in words.
    pub(crate) title: String,
    /// What limits its steps.
    pub(crate) verdict: &'r str,
    /// The first findings.
    pub(crate) findings: &'r [ExplainedFinding],
    /// What a reader should know, from the file and of the file.
    pub(crate) notes: Vec<String>,
    /// Phases, timeline, waterfall and blame, as far as the file has them.
    pub(crate) charts: Vec<NamedChart>,
    /// The tables.
    pub(crate) tables: Vec<Named<'r>>,
}

/// What a run's traces showed: its first cases, and how many more there are.
pub(crate) fn of_run(run: &Run) -> (Vec<Explanation<'_>>, Option<Block>) {
    let Some(all) = &run.explained else { return (Vec::new(), None) };
    let mut stems: Vec<FileStem> = Vec::new();
    let shown = all.cases.iter().take(CASES).map(|of| explanation(run, of, fresh(&mut stems, &of.case))).collect();
    let more = all.cases.len().saturating_sub(CASES);
    let words = || format!("Only in {}: {}.", code(EXPLAINED_FILE), count(more, "more case", "more cases"));
    let more = (more > 0).then(|| Block::Paragraph(words().into()));
    (shown, more)
}

/// What the traces of a job showed, where they are all that the record has: nobody checked results, and no other case ran.
pub(crate) fn explained_job(run: &Run) -> Option<&ExplainedCase> {
    let [line] = run.cases.as_slice() else { return None };
    let [of] = run.explained.as_ref()?.cases.as_slice() else { return None };
    let is_all = of.case == line.id && line.wrong.is_none() && !line.simulated && !of.verdict.trim().is_empty();
    is_all.then_some(of)
}

/// The tables of a run's traces.
pub(crate) fn tables_of(run: &Run) -> Vec<Named<'_>> {
    of_run(run).0.into_iter().flat_map(|of| of.tables).collect()
}

/// The charts of a run's traces.
pub(crate) fn charts_of(run: &Run) -> Vec<NamedChart> {
    of_run(run).0.into_iter().flat_map(|of| of.charts).collect()
}

/// A stem for a file's name that none of the others has.
fn fresh(taken: &mut Vec<FileStem>, name: &str) -> FileStem {
    let stem = FileStem::of(name);
    let mut fresh = stem.clone();
    let mut number = 2_u64;
    while taken.contains(&fresh) {
        fresh = stem.and(number);
        number += 1;
    }
    taken.push(fresh.clone());
    fresh
}

/// A command without the folders of its programs and files: what "Run it again" has in full.
fn short_paths(title: &str) -> String {
    let short = |word: &str| match word.rsplit_once('/') {
        Some((_, name)) if word.starts_with('/') && !name.is_empty() => name.to_owned(),
        _ => word.to_owned(),
    };
    title.split(' ').map(short).collect::<Vec<_>>().join(" ")
}

fn explanation<'r>(run: &Run, of: &'r ExplainedCase, stem: FileStem) -> Explanation<'r> {
    let line = run.cases.iter().find(|line| line.id == of.case);
    let title = [of.title.as_str(), of.case.as_str(), "case"].into_iter().map(one_line).find(|text| !text.is_empty());
    let title = short_paths(&title.unwrap_or_default());
    let fall = waterfall::waterfall(of, line);
    let (mut charts, own) = charts::of_case(of, fall.as_ref(), &FileStem::of("profile").and(&stem));
    let (banner, origin) = (picture_banner(run, banner(line.into_iter())), origin::of_case(run, line));
    for chart in &mut charts {
        chart.spec.subtitle.clone_from(&title);
        chart.spec.banner.clone_from(&banner);
        chart.spec.origin.clone_from(&origin);
    }
    let mut notes: Vec<String> = of.notes.iter().take(NOTES).map(|note| one_line(note)).collect();
    let left_out = |all: usize, most: usize, one: &str, many: &str| {
        (all > most).then(|| format!("Only in {EXPLAINED_FILE}: {}.", count(all - most, one, many)))
    };
    notes.extend(left_out(of.notes.len(), NOTES, "more note", "more notes"));
    notes.extend(left_out(of.findings.len(), FINDINGS, "more finding", "more findings"));
    notes.extend(left_out(of.tables.len(), TABLES, "more table", "more tables"));
    notes.extend(own);
    notes.retain(|note| !note.is_empty());
    let mut names = Vec::new();
    let tables = of.tables.iter().filter(|table| !table.columns.is_empty()).take(TABLES);
    let tables = tables.map(|table| Named::new(&stem, &fresh(&mut names, &table.name), table)).collect();
    let findings = &of.findings[..of.findings.len().min(FINDINGS)];
    Explanation { title, verdict: &of.verdict, findings, notes, charts, tables }
}
