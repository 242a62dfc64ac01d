//! The screen of a command that follows another one's run: the table and its curves, drawn again in place on a terminal, and
//! one line an update in a pipe.

use std::io::{self, Write};

use record::{CaseLine, Declared, Plan};
use report::rows::{Rows, result_line};
use view::terminal;

use super::live::Live;
use super::run::table_width;
use super::{is_watched, width};

/// What is known of a run from outside.
pub(crate) struct State {
    /// The record's directory, as it was named.
    pub(crate) directory: String,
    /// Seconds since the last result.
    pub(crate) quiet_s: Option<f64>,
}

/// See the module's documentation.
pub(crate) struct Watch {
    out: anstream::AutoStream<io::Stdout>,
    live: Option<Live>,
    /// Standard output takes no more.
    pub(crate) closed: bool,
    /// Why, where it is not that the reader went away.
    pub(crate) lost: Option<io::Error>,
    rows: Rows,
    total: usize,
    latest: Option<CaseLine>,
}

impl Watch {
    /// A screen for a run of this plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let out = anstream::stdout();
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let declared = benchmarks::abouts().into_iter().map(Declared::of).collect();
        let moves = out.current_choice() != anstream::ColorChoice::Never;
        let live = (is_watched(io::stdout()) && !dumb && moves).then(Live::default);
        Self {
            out,
            live,
            closed: false,
            lost: None,
            rows: Rows::new(plan, declared),
            total: plan.cases.len(),
            latest: None,
        }
    }

    fn write(&mut self, text: &str) {
        if self.closed {
            return;
        }
        if let Err(error) = self.out.write_all(terminal::output(text).as_bytes()).and_then(|()| self.out.flush()) {
            self.closed = true;
            self.lost = Some(error).filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        }
    }

    /// A line that stays.
    pub(crate) fn line(&mut self, text: &str) {
        let cleared = self.live.as_mut().map(Live::clear).unwrap_or_default();
        self.write(&format!("{cleared}{text}\n"));
    }

    /// Takes in new case lines.
    pub(crate) fn put(&mut self, lines: Vec<CaseLine>) {
        lines.iter().for_each(|line| self.rows.put(line));
        self.latest = lines.into_iter().last().or(self.latest.take());
    }

    /// Shows what is new: the table again on a terminal; a line in a pipe, where there are new results.
    pub(crate) fn update(&mut self, state: &State, is_new: bool) {
        if self.live.is_none() {
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
        let text = self.live.as_mut().map(|live| live.draw(&rows, Some(&progress))).unwrap_or_default();
        self.write(&text);
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
