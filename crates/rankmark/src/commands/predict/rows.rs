//! Measured steps: rows of a table, or training cases of a record.

use std::io::Read;
use std::path::Path;

use predict::fit::Observed;
use predict::{Emulated, Fitted, Predictor, Workload};
use record::{Case, CaseLine, read_run};
use terms::Status;

use crate::{Failure, incomplete, screen};

/// Most bytes of a table.
const LARGEST: u64 = 64 << 20;

/// Whether a path is that of a table rather than of a record.
pub(super) fn is_table(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|kind| kind == "csv")
}

/// Reads measured steps.
///
/// # Errors
/// When there is nothing to read, or nothing that can be used.
pub(super) fn read(path: &Path) -> Result<Vec<Observed>, Failure> {
    if !is_table(path) {
        return of_record(path);
    }
    let unreadable = |error: std::io::Error| Failure::new(format!("cannot read {}", path.display())).cause(error);
    let mut bytes = Vec::new();
    let file = record::file::open_named(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        let what = format!("{} is larger than {} MiB", path.display(), LARGEST >> 20);
        return Err(Failure::new(what).hint("name a table of fewer rows"));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)))?;
    let rows = predict::rows::read_rows(&text)?;
    for (line, why) in rows.skipped.iter().take(10) {
        screen::remark(&format!("note: line {line} is left out: {}\n", view::one_line(why)));
    }
    if rows.skipped.len() > 10 {
        screen::remark(&format!("note: {} more lines are left out\n", rows.skipped.len() - 10));
    }
    let twice: usize = rows.rows.iter().filter(|row| row.count > 1).map(|row| row.count).sum();
    if twice > 0 {
        screen::remark(&format!(
            "note: {twice} rows repeat others with other times: what they differ by becomes their spread\n"
        ));
    }
    rows.rows.iter().map(|row| Observed::from_row(row).map_err(Failure::from)).collect()
}

/// The training steps of a record that computed something.
fn of_record(path: &Path) -> Result<Vec<Observed>, Failure> {
    let record = read_run(path)?;
    incomplete::warn(path, record.banner().as_deref());
    let mut found = Vec::new();
    for line in record.cases.iter().filter(|line| line.status == Status::Ok) {
        found.extend(observed(line)?);
    }
    if found.is_empty() {
        return Err(Failure::new(format!("{} has no measured training step", path.display()))
            .hint("`rankmark train` makes a record with one"));
    }
    Ok(found)
}

/// A training step that computed something, with its time; None of other cases.
fn observed(line: &CaseLine) -> Result<Option<Observed>, Failure> {
    let case = Case::new(&line.benchmark, line.parameters.clone());
    let Some(Ok((recipe, None))) = benchmarks::recipe(&case) else { return Ok(None) };
    let Some(time) = &line.time_s else { return Ok(None) };
    // A link that was slowed down is the step's and not the machine's.
    let pace = benchmarks::pace_of(&case.parameters).map_err(terms::Error::from)?;
    // All ranks of this host are on one node.
    let node = recipe.mesh.ranks();
    let workload = Workload { emulated: Emulated { sleep: None, pace }, ..Workload::new(recipe, node) };
    Ok(Some(Observed { step: workload.step()?, seconds: time.median, spread: 0.0 }))
}

/// Fits a predictor to the rows of a path; with `draw`, to so many that are drawn with a seed.
///
/// # Errors
/// As [`read`].
pub(super) fn fitted(predictor: &mut Predictor, path: &Path, draw: Option<(usize, u64)>) -> Result<Fitted, Failure> {
    Ok(predict::fitted(predictor, read(path)?, draw)?)
}

#[cfg(test)]
mod tests {
    use record::TimeSummary;

    use super::*;

    /// A case of a plan, as a record has it.
    fn line(case: &str) -> CaseLine {
        let text = format!("experiment: steps\ncases:\n  - {{{case}}}\n");
        let plan = record::plan::read(&text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
        let mut line = CaseLine::unmeasured(&plan.cases[0], Status::Ok, "");
        line.time_s = Some(TimeSummary { median: 0.5, ..TimeSummary::default() });
        line
    }

    #[test]
    fn a_table_is_read_whole_or_not_at_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Holes take no room on the disk.
        file.as_file().set_len(LARGEST + 1).unwrap();
        let Err(why) = read(file.path()) else { panic!("it was read") };
        assert!(why.to_string().contains("is larger than 64 MiB"), "{why}");
    }

    #[test]
    fn a_step_over_a_slow_link_is_predicted_over_one() {
        let plain = "benchmark: training, model: gpt2-mini, backend: shm, ranks: 2, batch: 2";
        let own = observed(&line(plain)).unwrap().unwrap();
        assert_eq!((own.step.workload.emulated, own.seconds), (Emulated::default(), 0.5));
        let paced = observed(&line(&format!("{plain}, pace_bandwidth: 100MB/s"))).unwrap().unwrap();
        let pace = paced.step.workload.emulated.pace.unwrap();
        assert_eq!((pace.bandwidth.0, pace.latency.0), (1e8, 0.0));
        let asleep = format!("{plain}, compute: sleep, sleep_time: 1ms, sleep_jitter: 0");
        assert!(observed(&line(&asleep)).unwrap().is_none());
    }
}
