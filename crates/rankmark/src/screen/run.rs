//! The screen of a measuring command: it watches the run.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plans::estimate::Estimate;
use plans::next::Proposal;
use record::{Case, CaseLine, Caveat, Declared, Plan, RunFile};
use report::rows::{self, Rows, label};
use terms::{Seconds, Status};
use view::number::lasting;

use super::output::Output;
use super::progress_pause::ProgressPause;
use super::{Verbosity, is_watched, simulated, title, width};
use view::terminal::{bar, hanging};

/// See the module's documentation.
pub(crate) struct Screen {
    pub(crate) output: Output,
    process_begun: Instant,
    /// From the process's start to the first sample that is kept.
    first_sample: Option<Duration>,
    begun: Instant,
    now: Option<Now>,
    rows: Rows,
    /// Cases that need further trials.
    open: usize,
    total: usize,
    progress_pause: ProgressPause,
    /// How long the run takes.
    estimate: Estimate,
    /// Rounds of this run that are made.
    made: u32,
}

/// The case that is visited.
struct Now {
    label: String,
    number: usize,
    total: usize,
    round: u32,
}

impl Screen {
    pub(crate) fn new(
        verbosity: Verbosity,
        json: bool,
        process_begun: Instant,
        (plan, estimate): (&Plan, Estimate),
    ) -> Self {
        Self {
            output: Output::new(verbosity, json),
            process_begun,
            first_sample: None,
            begun: Instant::now(),
            now: None,
            rows: Rows::new(plan, benchmarks::abouts().into_iter().map(Declared::of).collect()),
            open: plan.cases.len(),
            total: plan.cases.len(),
            progress_pause: ProgressPause::new(Instant::now()),
            estimate,
            made: 0,
        }
    }

    /// The table so far, where a run ends with an error and has no report.
    pub(crate) fn table(&mut self) {
        self.output.clear_live();
        self.output.lines(&self.rows.table(table_width(), width()));
    }

    /// What runs, where it is kept, on what machine.
    pub(crate) fn header(&mut self, file: &RunFile, directory: &Path, done: usize, notes: &[String]) {
        let cases = file.plan.cases.len();
        self.open = cases - done;
        self.estimate = self.estimate.share(self.open as f64 / cases.max(1) as f64);
        let known = if done > 0 { format!(" ({done} done before, {} left)", cases - done) } else { String::new() };
        let word = if cases == 1 { "case" } else { "cases" };
        let run = file.labels.name.as_ref().map_or(String::new(), |name| format!("run {name}, "));
        let plan =
            format!("{run}plan {}, {cases} {word}{known}{}", file.experiment, duration(&file.plan, &self.estimate));
        self.output.line(&title(&file.tool, plan, directory, line_width()));
        self.output.lines(&rows::setup_lines(file, width()));
        if file.simulated {
            self.output.line(&simulated("times of backend `sim`"));
        }
        self.notes(notes.iter());
    }

    pub(crate) fn notes<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        notes.for_each(|note| self.output.line(&hanging("note: ", &view::one_line(note), line_width())));
    }

    /// A case that an earlier run has done.
    pub(crate) fn known(&mut self, line: &CaseLine) {
        self.rows.put(line);
    }

    /// Gives back the room of the rows so far: those of the end are of the record.
    pub(crate) fn forget_rows(&mut self) {
        self.rows.forget();
    }

    fn failed(&mut self, line: &CaseLine) {
        let Some(reason) = &line.reason else { return };
        let (number, total) = self.now.as_ref().map_or((0, self.total), |now| (now.number, now.total));
        self.output.line(&view::one_line(&format!("case {number}/{total} {}: {reason}", line.status)));
    }

    /// Draws the table so far and the line of progress, where somebody watches.
    fn draw(&mut self, share_of_case: f64, whatever: bool) {
        if !self.output.is_due(whatever) {
            return;
        }
        let progress = self.now.as_ref().map(|now| {
            let done = (now.number as f64 - 1.0 + share_of_case.clamp(0.0, 1.0)) / now.total.max(1) as f64;
            let left = self.left(done);
            let Now { label, number, total, round } = now;
            let round = round + 1;
            // What a narrow terminal cuts off is at the end.
            format!("  [{}]  {left}   round {round}: {number}/{total}   {label}   {} open", bar(done), self.open)
        });
        let columns = super::columns().unwrap_or(100) - 1;
        self.output.draw(&self.rows.table(columns, width()), progress.as_deref());
    }

    /// How long the run still takes, after this share of the round; how long it has taken where nothing is known of the rest.
    fn left(&self, share_of_round: f64) -> String {
        self.remaining(share_of_round).unwrap_or_else(|| lasting(self.begun.elapsed().as_secs_f64()))
    }

    /// `at most 40 s left`; None where nothing is known of the rest.
    fn remaining(&self, share_of_round: f64) -> Option<String> {
        let left = self.estimate.left(f64::from(self.made) + share_of_round, self.begun.elapsed().as_secs_f64());
        let at_most = if self.estimate.least.is_some() { "at most " } else { "" };
        (left >= 1.0).then(|| format!("{at_most}{} left", lasting(left)))
    }

    /// In a pipe: how far the round is, and what was measured last, now and then.
    fn tell_trial(&mut self, line: &CaseLine) {
        let Some((now, time)) = self.now.as_ref().zip(line.time_s.as_ref()).filter(|_| !self.output.is_live()) else {
            return;
        };
        let (round, number, total) = (now.round + 1, now.number, now.total);
        // The end of a round has its own line.
        if number == total || !self.progress_pause.is_due(Instant::now()) {
            return;
        }
        let since = lasting(self.begun.elapsed().as_secs_f64());
        let wrong = line.wrong.map_or("-".to_owned(), |wrong| wrong.to_string());
        let preliminary = if line.caveats.contains(&Caveat::Preliminary) { ", preliminary" } else { "" };
        let result = format!("{}: {}, wrong {wrong}{preliminary}", label(line), Seconds(time.median));
        let left =
            self.remaining(number as f64 / total.max(1) as f64).map_or(String::new(), |left| format!(", {left}"));
        self.output.line(&format!("round {round}: {number}/{total} after {since}{left}   {result}"));
    }

    /// What the run says, what went wrong, where the report is, what to run next.
    pub(crate) fn end(&mut self, run: &report::Run, written: &[PathBuf], next: Option<&Proposal>) {
        self.output.clear_live();
        let (in_full, widths) = (self.output.is_verbose(), (table_width(), width(), line_width()));
        self.output.lines(&self.rows.ended(run, in_full, widths));
        let unwell = rows::unwell(run, line_width());
        if !unwell.faults.is_empty() {
            self.output.line("");
        }
        self.output.faults(&unwell.faults);
        unwell.again.into_iter().for_each(|command| self.output.line(&format!("rerun just these: {command}")));
        self.output.line("");
        if let Some(overhead) = run.overhead.filter(|_| self.output.is_verbose()) {
            let start = self.first_sample.map_or(String::new(), |time| {
                format!(", first sample {:.0} ms after the start", time.as_secs_f64() * 1e3)
            });
            let costs = format!("{:.0} ns a sample, {:.1} ns a call", overhead.sample_ns, overhead.call_ns);
            self.output.line(&hanging("overhead ", &format!("{costs}{start}"), line_width()));
        }
        rows::report_line(written).into_iter().for_each(|line| self.output.line(&line));
        if let Some(next) = next {
            self.output.line(super::next::quoted(&next.words, &next.tells).trim_end());
        }
    }
}

/// Columns that a table may take: a terminal's but for the last, where some of them begin a new line. A file has room for all.
pub(super) fn table_width() -> usize {
    if is_watched(io::stdout()) { super::columns().unwrap_or(100) - 1 } else { usize::from(u16::MAX) }
}

/// Columns that a line may take that programs look for.
pub(super) fn line_width() -> usize {
    if io::stdout().is_terminal() { width() } else { usize::from(u16::MAX) }
}

/// How long the run takes, in words.
fn duration(plan: &Plan, estimate: &Estimate) -> String {
    let is_quick = !plan.cases.is_empty() && plan.cases.iter().all(|case| case.is_quick());
    let look = if is_quick { ", a quick look without intervals" } else { "" };
    format!("{look}, {}", estimate.words())
}

impl runner::Observer for Screen {
    fn begins(&mut self, case: &Case, number: usize, total: usize, round: u32) {
        self.now = Some(Now { label: case.label(), number, total, round });
        self.draw(0.0, false);
    }

    fn progress(&mut self, elapsed_s: f64, max_s: f64) {
        self.first_sample.get_or_insert_with(|| self.process_begun.elapsed());
        self.draw(if max_s > 0.0 { elapsed_s / max_s } else { 0.0 }, false);
    }

    fn updates(&mut self, line: &CaseLine) {
        self.rows.put(line);
        // Cases that were not measured are listed once, at the end.
        if line.status == Status::Failed {
            self.failed(line);
        }
        self.tell_trial(line);
        self.draw(1.0, false);
    }

    fn looks_closer(&mut self, case: &Case, number: usize, total: usize) {
        let label = format!("records steps to explain them: {}, {}", case.subject(), view::study::ranks(case.ranks()));
        self.now = Some(Now { label, number, total, round: self.now.as_ref().map_or(0, |now| now.round) });
        self.draw(0.0, true);
    }

    fn remarks(&mut self, text: &str) {
        self.notes([text.to_owned()].iter());
    }

    fn rounds(&mut self, made: u32, open: usize) {
        self.open = open;
        self.made += 1;
        if self.output.is_live() {
            self.draw(1.0, true);
        } else if open > 0 && self.progress_pause.is_due(Instant::now()) {
            let since = lasting(self.begun.elapsed().as_secs_f64());
            let now = self.now.as_ref().map_or(String::new(), |now| format!(", now {}", now.label));
            let left = self.remaining(0.0).map_or(String::new(), |left| format!(", {left}"));
            self.output
                .line(&format!("round {made} made after {since}{left}, {open} of {} cases open{now}", self.total));
        }
    }

    fn ends(&mut self, line: &CaseLine) {
        self.rows.put(line);
        // A line that does not serialise would have failed on its way to the disk.
        self.output.json(|| record::line_text(line).unwrap_or_default());
    }
}
