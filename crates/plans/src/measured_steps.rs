//! Measured training steps, which constants are fitted to: rows of a table, or training cases of a record.

use std::io::Read as _;
use std::path::Path;

use predict::fit::Observed;
use predict::{Emulated, Software, Workload};
use record::{Case, CaseLine, read_run};
use terms::{Error, Status};

/// Most bytes of a table.
const LARGEST: u64 = 64 << 20;

/// Whether a path is that of a table rather than of a record.
pub fn is_table(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|kind| kind == "csv")
}

/// The program whose steps a path has, unless somebody says otherwise: tables of others are of Megatron-LM.
pub fn software(path: &Path) -> Software {
    if is_table(path) { Software::Megatron } else { Software::Rankmark }
}

/// Reads measured steps. `remark` gets lines of what was left out.
///
/// # Errors
/// When there is nothing to read, or nothing that can be used.
pub fn read(path: &Path, remark: &mut dyn FnMut(&str)) -> Result<Vec<Observed>, Error> {
    if !is_table(path) {
        return of_record(path, remark);
    }
    let unreadable = |error: std::io::Error| Error::new(format!("cannot read {}", path.display())).cause(error);
    let mut bytes = Vec::new();
    let file = record::file::open_named(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        let what = format!("{} is larger than {} MiB", path.display(), LARGEST >> 20);
        return Err(Error::new(what).hint("name a table of fewer rows"));
    }
    let text = String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)))?;
    let rows = predict::rows::read_rows(&text)?;
    for (line, why) in rows.skipped.iter().take(10) {
        remark(&format!("note: line {line} is left out: {}\n", view::one_line(why)));
    }
    if rows.skipped.len() > 10 {
        remark(&format!("note: {} more lines are left out\n", rows.skipped.len() - 10));
    }
    let twice: usize = rows.rows.iter().filter(|row| row.count > 1).map(|row| row.count).sum();
    if twice > 0 {
        remark(&format!(
            "note: {twice} rows repeat others with other times: what they differ by becomes their spread\n"
        ));
    }
    rows.rows.iter().map(Observed::from_row).collect()
}

/// The training steps of a record that computed something.
fn of_record(path: &Path, remark: &mut dyn FnMut(&str)) -> Result<Vec<Observed>, Error> {
    let record = read_run(path)?;
    if let Some(banner) = record.banner() {
        remark(&format!("warning: {}\n", view::one_line(&format!("{}: {banner}", path.display()))));
    }
    let measured = record.cases.iter().filter(|line| line.status == Status::Ok);
    let found = measured.filter_map(|line| observed(line).transpose()).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() {
        return Err(Error::new(format!("{} has no measured training step", path.display()))
            .hint("`rankmark train` makes a record with one"));
    }
    Ok(found)
}

/// A training step that computed something, with its time; None of other cases.
fn observed(line: &CaseLine) -> Result<Option<Observed>, Error> {
    let workload = workload(&Case::new(&line.benchmark, line.parameters.clone()))?;
    let Some(workload) = workload.filter(|workload| workload.emulated.sleep.is_none()) else { return Ok(None) };
    let Some(time) = &line.time_s else { return Ok(None) };
    Ok(Some(Observed { step: workload.step()?, seconds: time.median, spread: 0.0 }))
}

/// The step of a case that trains on native ranks, with what it emulates; None of other cases.
pub(crate) fn workload(case: &Case) -> Result<Option<Workload>, Error> {
    let Some(Ok((recipe, sleep))) = benchmarks::recipe(case) else { return Ok(None) };
    // A link that was slowed down is the step's and not the machine's.
    let pace = benchmarks::pace_of(&case.parameters)?;
    // All ranks of this host are on one node.
    let node = recipe.mesh.ranks();
    Ok(Some(Workload { emulated: Emulated { sleep, pace }, ..Workload::new(recipe, node) }))
}

#[cfg(test)]
pub(crate) mod tests {
    use record::TimeSummary;

    use super::*;

    /// A case of a plan, as a record has it where it takes so long.
    pub(crate) fn line(case: &str, median: f64) -> CaseLine {
        let text = format!("experiment: steps\ncases:\n  - {{{case}}}\n");
        let plan = record::plan::read(&text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
        let mut line = CaseLine::unmeasured(&plan.cases[0], Status::Ok, "");
        line.time_s = Some(TimeSummary { median, ..TimeSummary::default() });
        line
    }

    #[test]
    fn a_table_is_read_whole_or_not_at_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Holes take no room on the disk.
        file.as_file().set_len(LARGEST + 1).unwrap();
        let Err(why) = read(file.path(), &mut |_| {}) else { panic!("it was read") };
        assert!(why.to_string().contains("is larger than 64 MiB"), "{why}");
    }

    #[test]
    fn a_step_over_a_slow_link_is_predicted_over_one() {
        let plain = "benchmark: training, model: gpt2-mini, backend: shm, ranks: 2, batch: 2";
        let own = observed(&line(plain, 0.5)).unwrap().unwrap();
        assert_eq!((own.step.workload.emulated, own.seconds), (Emulated::default(), 0.5));
        let paced = observed(&line(&format!("{plain}, pace_bandwidth: 100MB/s"), 0.5)).unwrap().unwrap();
        let pace = paced.step.workload.emulated.pace.unwrap();
        assert_eq!((pace.bandwidth.0, pace.latency.0), (1e8, 0.0));
        let asleep = format!("{plain}, compute: sleep, sleep_time: 1ms, sleep_jitter: 0");
        assert!(observed(&line(&asleep, 0.5)).unwrap().is_none());
    }
}
