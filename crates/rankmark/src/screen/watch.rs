//! The screen of a command that follows another one's run: the table and its curves, drawn again in place on a terminal, and
//! one line an update in a pipe.

use std::io;

use record::{CaseLine, Declared, Plan};
use report::rows::{Rows, result_line};

use super::output::{Output, Verbosity};
use super::run::table_width;
use super::width;

/// What is known of a run from outside.
pub(crate) struct State {
    /// The record's directory, as it was named.
    pub(crate) directory: String,
    /// Seconds since the last result.
    pub(crate) quiet_s: Option<f64>,
}

/// See the module's documentation.
pub(crate) struct Watch {
    output: Output,
    rows: Rows,
    total: usize,
    latest: Option<CaseLine>,
}

impl Watch {
    /// A screen for a run of this plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let declared = benchmarks::abouts().into_iter().map(Declared::of).collect();
        let rows = Rows::new(plan, declared);
        Self { output: Output::new(Verbosity::Normal, false), rows, total: plan.cases.len(), latest: None }
    }

    /// Whether standard output takes no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.output.is_closed()
    }

    /// Why it takes no more, where it is not that the reader went away.
    pub(crate) fn lost(&self) -> Option<&io::Error> {
        self.output.lost()
    }

    /// A line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        self.output.line(text);
    }

    /// Takes in new case lines.
    pub(crate) fn put(&mut self, lines: Vec<CaseLine>) {
        lines.iter().for_each(|line| self.rows.put(line));
        self.latest = lines.into_iter().last().or(self.latest.take());
    }

    /// Shows what is new: the table again on a terminal; a line in a pipe, where there are new results.
    pub(crate) fn update(&mut self, state: &State, is_new: bool) {
        if !self.output.is_live() {
            if is_new {
                // How long ago that was says nothing to a later reader.
                let progress = self.progress(&State { quiet_s: None, directory: state.directory.clone() });
                let latest = self.latest.as_ref().map_or(String::new(), |line| format!("   {}", result_line(line)));
                self.line(&format!("{progress}{latest}"));
            }
            return;
        }
        let progress = self.progress(state);
        let mut rows = self.rows.table(super::columns().unwrap_or(100) - 1, width());
        rows.extend(self.rows.curves());
        rows.push(String::new());
        self.output.draw(&rows, Some(&progress));
    }

    /// The whole table, its curves, and how far the run is.
    pub(crate) fn whole(&mut self, state: &State) {
        let mut rows = self.rows.table(table_width(), width());
        rows.extend(self.rows.curves());
        rows.push(String::new());
        rows.push(self.progress(state));
        rows.iter().for_each(|row| self.line(row));
    }

    /// How far the run is, in a line.
    fn progress(&self, state: &State) -> String {
        format!("{}   {}", self.rows.progress(self.total, state.quiet_s), state.directory)
    }
}
