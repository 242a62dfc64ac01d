//! Equal runs in the folder of this one, from which a run of few trials learns how runs scatter.

use std::path::{Path, PathBuf};

use record::store::seen_states;
use record::{CaseLine, Record, RunEnd, RunFile, read_results};
use runner::earlier::{is_here, newest};

/// Case files up to this size are read: some 10,000 cases.
const LARGEST: u64 = 32 << 20;

/// The median times of equal runs next to the record in this folder, of each of its lines.
pub fn medians(own: &Path, file: &RunFile, lines: &[&CaseLine]) -> Vec<Vec<f64>> {
    let is_other = |path: &PathBuf| path.file_name() != own.file_name();
    let of_here = |path: &PathBuf| {
        let size = path.join("cases.jsonl").metadata().map_or(u64::MAX, |about| about.len());
        size <= LARGEST && seen_states(path).is_some_and(|seen| is_here(&seen, (&file.machine, &file.hosts)))
    };
    let paths = newest(own.parent()).into_iter().filter(|path| is_other(path) && of_here(path));
    let earlier: Vec<Record> = paths.filter_map(|path| read_results(&path).ok()).collect();
    let record =
        Record { file: file.clone(), cases: Vec::new(), end: RunEnd::Running, damaged: Vec::new(), notes: Vec::new() };
    diagnose::compare::equal_medians(&record, lines, &earlier.iter().collect::<Vec<_>>())
}
