//! Measured steps: rows of a table, or training cases of a record.

use std::io::Read;
use std::path::Path;

use predict::fit::Observed;
use predict::{Fitted, Predictor};
use record::read_run;
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
    let mut text = String::new();
    let file = record::file::open_named(path).map_err(unreadable)?;
    file.take(LARGEST).read_to_string(&mut text).map_err(unreadable)?;
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
        let case = record::Case::new(&line.benchmark, line.parameters.clone());
        let Some(Ok((recipe, None))) = benchmarks::recipe(&case) else { continue };
        let Some(time) = &line.time_s else { continue };
        // All ranks of this host are on one node.
        let node = recipe.mesh.ranks();
        let workload = predict::Workload::new(recipe, node);
        found.push(Observed { step: workload.step()?, seconds: time.median, spread: 0.0 });
    }
    if found.is_empty() {
        return Err(Failure::new(format!("{} has no measured training step", path.display()))
            .hint("`rankmark train` makes a record with one"));
    }
    Ok(found)
}

/// Fits a predictor to the rows of a path; with `draw`, to so many that are drawn with a seed.
///
/// # Errors
/// As [`read`].
pub(super) fn fitted(predictor: &mut Predictor, path: &Path, draw: Option<(usize, u64)>) -> Result<Fitted, Failure> {
    Ok(predict::fitted(predictor, read(path)?, draw)?)
}
