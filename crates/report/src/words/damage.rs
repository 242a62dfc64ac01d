//! What of a record is damaged or missing: the banners that say so, and the list that names it.

use record::CaseCounts;

use crate::Run;
use crate::document::{Block, bullets};
use crate::number::{count, thousands};

/// Damaged lines that are named; more are counted.
const NAMED: usize = 50;

/// Lines that stand at the top of every page; none where the record is whole.
pub(crate) fn banners(run: &Run) -> Vec<String> {
    damaged(run).into_iter().chain(end_banner(run)).collect()
}

/// How much of the record is damaged.
fn damaged(run: &Run) -> Option<String> {
    let number = |holds: &dyn Fn(&record::DamagedLine) -> bool| run.damaged.iter().filter(|line| holds(line)).count();
    let left_out = number(&|line| line.is_there);
    let missing = number(&|line| !line.is_there && !line.is_of_run_file());
    let mut parts = Vec::new();
    if left_out > 0 {
        let what = if left_out == 1 { "is damaged and is left out" } else { "are damaged and are left out" };
        let of = count(left_out, "line", "lines");
        parts.push(format!("{of} {what}, so cases or samples may be missing"));
    }
    if missing > 0 {
        parts.push("lines are missing, so results may be missing or come from fewer trials".to_owned());
    }
    if number(&record::DamagedLine::is_of_run_file) > 0 {
        parts.push("run.json is damaged, so what the report says about the run may be wrong or incomplete".to_owned());
    }
    (!parts.is_empty()).then(|| format!("DAMAGED RECORD: {}", parts.join("; ")))
}

/// Says that a run did not come to its end, and what is missing. None where it did.
pub fn end_banner(run: &Run) -> Option<String> {
    run.end.banner(CaseCounts::of(&run.cases))
}

/// What stands over a picture: that the run is incomplete, in as few words as a picture has room for, before its own banner.
pub(crate) fn picture_banner(run: &Run, own: Option<String>) -> Option<String> {
    let end = end_banner(run).and_then(|banner| banner.split(": ").next().map(str::to_owned));
    let parts: Vec<String> = end.into_iter().chain(own).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A bullet for each.
pub(crate) fn list(run: &Run) -> Vec<Block> {
    let named = run.damaged.iter().take(NAMED).map(ToString::to_string);
    let more = run.damaged.len().saturating_sub(NAMED);
    bullets(named.chain((more > 0).then(|| format!("and {} more", thousands(more as i64)))))
}
