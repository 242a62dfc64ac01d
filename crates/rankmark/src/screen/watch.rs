//! The screen of a command that follows another one's run: the table and its curves, drawn again in place on a terminal, and
//! one line an update in a pipe.

use std::path::{Path, PathBuf};

use record::{CaseLine, Declared, Plan};
use report::rows::{Rows, result_line};

use super::output::{Output, Verbosity};
use super::run::table_width;
use super::width;

/// See the module's documentation.
pub(crate) struct Watch {
    pub(crate) output: Output,
    rows: Rows,
    total: usize,
    latest: Option<CaseLine>,
    /// The record's directory, as it was named.
    directory: PathBuf,
}

impl Watch {
    /// A screen for a run of this plan into this directory.
    pub(crate) fn new(plan: &Plan, directory: &Path) -> Self {
        let declared = benchmarks::abouts().into_iter().map(Declared::of).collect();
        let rows = Rows::new(plan, declared);
        let (output, total) = (Output::new(Verbosity::Normal, false), plan.cases.len());
        Self { output, rows, total, latest: None, directory: directory.to_owned() }
    }

    /// Takes in new case lines.
    pub(crate) fn put(&mut self, lines: Vec<CaseLine>) {
        lines.iter().for_each(|line| self.rows.put(line));
        self.latest = lines.into_iter().last().or(self.latest.take());
    }

    /// Shows what is new: the table again on a terminal; a line in a pipe, where there are new results. The last result came so
    /// many seconds ago.
    pub(crate) fn update(&mut self, quiet_s: Option<f64>, is_new: bool) {
        if self.output.is_live() {
            let (rows, progress) = (self.rows(super::columns().unwrap_or(100) - 1), self.progress(quiet_s));
            self.output.draw(&rows, Some(&progress));
        } else if is_new {
            let latest = self.latest.as_ref().map_or(String::new(), |line| format!("   {}", result_line(line)));
            // How long ago that was says nothing to a later reader.
            let progress = self.progress(None);
            self.output.line(&format!("{progress}{latest}"));
        }
    }

    /// The whole table, its curves, and how far the run is.
    pub(crate) fn whole(&mut self, quiet_s: Option<f64>) {
        let mut rows = self.rows(table_width());
        rows.push(self.progress(quiet_s));
        self.output.lines(&rows);
    }

    /// The table in so many columns, its curves, and an empty line.
    fn rows(&self, columns: usize) -> Vec<String> {
        let mut rows = self.rows.table(columns, width());
        rows.extend(self.rows.curves());
        rows.push(String::new());
        rows
    }

    /// How far the run is, in a line.
    fn progress(&self, quiet_s: Option<f64>) -> String {
        format!("{}   {}", self.rows.progress(self.total, quiet_s), self.directory.display())
    }
}
