//! The screen of an interleaved comparison: what each side is, the ratio of each case while it becomes known, and what
//! follows in words.

use std::path::{Path, PathBuf};
use std::time::Instant;

use record::{ComparedCase, RunFile};
use report::caveats::Wording;
use report::rows::{self, PairRows};
use runner::{Matched, PairObserver};
use view::Compared;
use view::number::{self, lasting};
use view::terminal::{bar, hanging};

use super::next::next_report;
use super::output::Output;
use super::progress_pause::ProgressPause;
use super::run::table_width;
use super::{Verbosity, simulated, title, width};

/// See the module's documentation.
pub(crate) struct PairScreen {
    pub(crate) output: Output,
    rows: PairRows,
    begun: Instant,
    /// What is visited, and how much of the pair is done.
    now: Option<(String, f64)>,
    progress_pause: ProgressPause,
}

impl PairScreen {
    pub(crate) fn new(verbosity: Verbosity, json: bool, threshold: f64, matched: &[Matched]) -> Self {
        Self {
            output: Output::new(verbosity, json),
            rows: PairRows::new(threshold, &matched.iter().map(|[a, _]| a).collect::<Vec<_>>()),
            begun: Instant::now(),
            now: None,
            progress_pause: ProgressPause::new(Instant::now()),
        }
    }

    /// What is compared, by which rule, where it is kept, on what machine.
    pub(crate) fn header(&mut self, file: &RunFile, directory: &Path, max_seconds: f64, notes: &[String]) {
        let all = self.labels().len();
        let cases = number::count(all, "case", "cases");
        let plan = format!("interleaved comparison, {cases}, at most {} each", lasting(max_seconds));
        self.output.line(&title(&file.tool, plan, directory, width()));
        self.output.line(&hanging("machine  ", &report::machine_line(&file.machine), width()));
        self.output.lines(&rows::side_lines(file, all, width()));
        if file.simulated {
            self.output.line(&simulated("times of backend `sim`"));
        }
        for note in notes {
            self.output.line(&hanging("note: ", note, width()));
        }
    }

    fn draw(&mut self, whatever: bool) {
        if !self.output.is_due(whatever) {
            return;
        }
        let since = lasting(self.begun.elapsed().as_secs_f64());
        let progress = self.now.as_ref().map(|(what, done)| format!("  [{}]  {what}   {since}", bar(*done)));
        let rows = self.rows.table(super::columns().unwrap_or(100) - 1);
        self.output.draw(&rows, progress.as_deref());
    }

    /// What each case is called, in the order of the cases.
    pub(crate) fn labels(&self) -> &[String] {
        self.rows.labels()
    }

    /// The table, what it says in words, what went wrong, where the report is.
    pub(crate) fn end(&mut self, cases: &[ComparedCase], compared: &[Compared], written: &[PathBuf]) {
        self.output.clear_live();
        compared.iter().enumerate().for_each(|(at, one)| self.rows.put(at, one));
        self.output.line("");
        self.output.lines(&self.rows.table(table_width()));
        self.output.line("");
        self.output.lines(&self.rows.sentences(cases, width()));
        let caveats = rows::all_caveats(compared.iter().flat_map(|one| &one.lines));
        if !caveats.is_empty() {
            let words: Vec<String> = caveats.iter().map(|caveat| Wording::default().words(*caveat)).collect();
            self.output.line("");
            self.output.line(&hanging("caveats  ", &words.join(", "), width()));
        }
        if self.output.is_verbose() {
            self.output.lines(&rows::caveats_in_full(&caveats, Wording::default(), width()));
        }
        let unwell = self.rows.unwell(compared, self.output.is_quiet(), width());
        self.output.faults(&unwell);
        if let Some(first) = written.first() {
            self.output.line("");
            self.output.line(&format!("report   {}", first.display()));
            let directory = first.parent().unwrap_or(Path::new("."));
            self.output.line(next_report(&[directory], "the ratios of each case, and its times").trim_end());
        }
        for case in cases {
            self.output.json(|| record::to_json(case).unwrap_or_default());
        }
    }
}

impl PairObserver for PairScreen {
    fn begins(&mut self, index: usize, number: usize, total: usize, pair: u32) {
        let what = self.rows.visited(index, (number, total), pair);
        self.now = Some((what, (number as f64 - 1.0) / total.max(1) as f64));
        self.draw(false);
    }

    fn updates(&mut self, index: usize, compared: &Compared) {
        self.rows.put(index, compared);
        self.draw(false);
    }

    fn pairs(&mut self, made: u32, open: usize) {
        if self.output.is_live() {
            self.draw(true);
        } else if open > 0 && self.progress_pause.is_due(Instant::now()) {
            let (since, total) = (lasting(self.begun.elapsed().as_secs_f64()), self.labels().len());
            self.output.line(&format!("pair {made} made after {since}, {open} of {total} cases open"));
        }
    }
}
