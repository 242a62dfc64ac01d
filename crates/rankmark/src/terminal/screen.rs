//! The screen of a measuring command: it watches the run.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use record::{Case, CaseLine, Plan, RunFile};
use terms::{Bytes, Seconds, Status};

use super::text::wrap;
use super::{is_watched, table};

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// Where text goes.
enum Out {
    Stdout(anstream::AutoStream<io::Stdout>),
    Stderr(anstream::AutoStream<io::Stderr>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stdout(out) => out,
            Self::Stderr(out) => out,
        }
    }
}

/// See the module's documentation.
pub(crate) struct Screen {
    verbosity: Verbosity,
    json: bool,
    out: Out,
    /// Somebody is watching a terminal: one line is rewritten to show progress.
    live: bool,
    /// The reader went away.
    closed: bool,
    progress_shown: bool,
    heading: String,
    process_begun: Instant,
    /// From the process's start to the first sample that is kept.
    first_sample: Option<Duration>,
    begun: Instant,
    drawn: Instant,
    now: Option<Now>,
    total: usize,
    ended: usize,
    /// Times that each case is launched; above 1 in random order, so that rows wait for the end.
    launches: u64,
    /// The last launch that was told of.
    launch: u32,
    /// The plan's cases, in its order.
    order: Vec<String>,
}

/// The case that runs.
struct Now {
    label: String,
    number: usize,
    total: usize,
}

/// A paragraph, not a page: the report has them all.
const SENTENCES: usize = 4;
const BAR: usize = 24;
const REDRAW: Duration = Duration::from_millis(100);

impl Screen {
    pub(crate) fn new(verbosity: Verbosity, json: bool, process_begun: Instant, plan: &Plan) -> Self {
        let out = if json { Out::Stderr(anstream::stderr()) } else { Out::Stdout(anstream::stdout()) };
        let terminal = if json { is_watched(io::stderr()) } else { is_watched(io::stdout()) };
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            verbosity,
            json,
            out,
            live: terminal && !dumb && verbosity != Verbosity::Quiet,
            closed: false,
            progress_shown: false,
            heading: String::new(),
            process_begun,
            first_sample: None,
            begun: Instant::now(),
            drawn: Instant::now(),
            now: None,
            total: plan.cases.len(),
            ended: 0,
            launches: plan.cases.iter().filter_map(|case| case.whole("launches")).max().unwrap_or(1),
            launch: 0,
            order: plan.cases.iter().map(|case| case.id.clone()).collect(),
        }
    }

    /// Writes text; the first failure (a reader that went away) silences the screen and not the run.
    fn write(&mut self, text: &str) {
        if self.closed || self.verbosity == Verbosity::Quiet {
            return;
        }
        let out = self.out.writer();
        self.closed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err();
    }

    fn line(&mut self, text: &str) {
        self.clear_progress();
        self.write(&format!("{text}\n"));
    }

    fn clear_progress(&mut self) {
        if std::mem::take(&mut self.progress_shown) {
            self.write("\r\u{1b}[K");
        }
    }

    /// What runs, where it is kept, on what machine.
    pub(crate) fn header(&mut self, file: &RunFile, directory: &Path, done: usize) {
        let cases = file.plan.cases.len();
        let left = cases - done;
        let seconds = |case: &Case| Some(case.number("max_seconds")? * case.whole("launches").unwrap_or(1) as f64);
        let seconds: f64 = file.plan.cases.iter().filter_map(seconds).sum();
        let known = if done > 0 { format!(" ({done} done before, {left} left)") } else { String::new() };
        let word = if cases == 1 { "case" } else { "cases" };
        // Where steps are counted, nobody knows yet how long they take.
        let sampling =
            if seconds > 0.0 { format!(", at most {} of sampling", minutes(seconds)) } else { String::new() };
        self.line(&format!(
            "\u{1b}[1mrankmark {}\u{1b}[0m   plan {}, {cases} {word}{known}{sampling}   record {}",
            file.tool.version,
            file.experiment,
            directory.display()
        ));
        self.line(&format!("machine  {}", report::machine_line(&file.machine)));
        let ready = |backend: &record::BackendState| {
            format!("{} {}", backend.name, if backend.ready { "ready" } else { "missing" })
        };
        let mut backends: Vec<String> = file.backends.iter().map(ready).collect();
        // A backend with several libraries has an entry for each.
        backends.dedup();
        self.line(&format!("backends {}", backends.join(" · ")));
        if file.simulated {
            self.line(
                "\u{1b}[1;33mSIMULATED\u{1b}[0m  times of backend `sim` are computed by a model and never measured",
            );
        }
    }

    pub(crate) fn notes<'a>(&mut self, notes: impl Iterator<Item = &'a String>) {
        notes.for_each(|note| self.line(&format!("note: {note}")));
    }

    /// A case that an earlier run has done.
    pub(crate) fn known(&mut self, line: &CaseLine) {
        self.row_or_later(line);
    }

    /// A row now, unless further launches change it, and come in an order of their own.
    fn row_or_later(&mut self, line: &CaseLine) {
        if self.launches == 1 {
            self.row(line);
        }
    }

    /// The rows that waited, in the plan's order, those of one heading together.
    fn waiting_rows(&mut self, run: &report::Run) {
        if self.launches == 1 {
            return;
        }
        let lines = |id: &String| run.cases.iter().find(|line| line.id == *id);
        let headed: Vec<(String, &CaseLine)> =
            self.order.iter().filter_map(lines).map(|line| (table::heading(line), line)).collect();
        let mut rows: Vec<usize> = (0..headed.len()).collect();
        rows.sort_by_key(|row| headed.iter().position(|(heading, _)| *heading == headed[*row].0));
        rows.into_iter().for_each(|row| self.row(headed[row].1));
    }

    fn row(&mut self, line: &CaseLine) {
        let heading = table::heading(line);
        if heading != self.heading {
            self.line(&format!("\n\u{1b}[1m{heading}\u{1b}[0m"));
            self.line(&format!("\u{1b}[2m{}\u{1b}[0m", table::titles(line)));
            let units = table::units(line);
            if !units.is_empty() {
                self.line(&format!("\u{1b}[2m{units}\u{1b}[0m"));
            }
            self.heading = heading;
        }
        let row = table::row(line);
        let row = if line.status == Status::Failed { format!("\u{1b}[31m{row}\u{1b}[0m") } else { row };
        self.line(&row);
        if self.verbosity == Verbosity::Verbose {
            for caveat in &line.caveats {
                self.line(&format!("    {caveat}: {}", caveat.explanation()));
            }
        }
    }

    fn failed(&mut self, line: &CaseLine) {
        let Some(reason) = &line.reason else { return };
        let number = self.now.as_ref().map_or(0, |now| now.number);
        let total = self.now.as_ref().map_or(self.total, |now| now.total);
        self.line(&format!("case {number}/{total} {}: {reason}", line.status));
    }

    fn draw_progress(&mut self, share_of_case: f64) {
        let Some(now) = &self.now else { return };
        if !self.live || self.closed {
            return;
        }
        let done = (now.number as f64 - 1.0 + share_of_case.clamp(0.0, 1.0)) / now.total.max(1) as f64;
        let filled = (done * BAR as f64) as usize;
        let bar = format!("{}{}{}", "=".repeat(filled), ">", " ".repeat(BAR.saturating_sub(filled + 1)));
        let left = self.begun.elapsed().as_secs_f64() * (1.0 / done.max(1e-3) - 1.0);
        let left = if done > 0.02 { format!("{} left", minutes(left)) } else { String::new() };
        let text = format!("\r\u{1b}[K  [{bar}]  {}/{}   {}   {left}", now.number, now.total, now.label);
        self.write(&text);
        self.progress_shown = true;
        self.drawn = Instant::now();
    }

    /// What the run says, what went wrong, where the report is.
    pub(crate) fn end(&mut self, run: &report::Run, written: &[PathBuf]) {
        self.clear_progress();
        self.waiting_rows(run);
        let sentences = report::sentences(run);
        let (shown, more) = sentences.split_at(sentences.len().min(SENTENCES));
        if !shown.is_empty() {
            self.line("");
            let more = if more.is_empty() { String::new() } else { format!(" ({} more in the report)", more.len()) };
            self.line(&wrap(&format!("{}{more}", shown.join(" ")), 100));
        }
        let unwell: Vec<&CaseLine> = run.cases.iter().filter(|line| line.status != Status::Ok).collect();
        let missed: Vec<&CaseLine> = run.cases.iter().filter(|line| !line.gates_missed.is_empty()).collect();
        if !unwell.is_empty() || !missed.is_empty() {
            self.line("");
        }
        for line in &unwell {
            self.line(&format!("{}  {}: {}", line.status, label(line), line.reason.as_deref().unwrap_or("no reason")));
        }
        for line in &missed {
            self.line(&format!("gate missed  {}: {}", label(line), line.gates_missed.join("; ")));
        }
        if !unwell.is_empty() {
            let ok = run.cases.len() - unwell.len();
            self.line(&format!("{ok} ok, {}", counts(&unwell)));
            self.line(&format!("rerun just these: rankmark run --resume {}", run.directory.display()));
        }
        self.line("");
        if let Some(harness) = run.harness {
            let start = self.first_sample.map_or(String::new(), |time| {
                format!(", first sample {:.0} ms after the start", time.as_secs_f64() * 1e3)
            });
            let costs = format!("{:.0} ns a sample, {:.1} ns a call", harness.sample_ns, harness.call_ns);
            self.line(&format!("harness  {costs}{start}"));
        }
        if let Some((first, rest)) = written.split_first() {
            let rest: Vec<String> = rest
                .iter()
                .filter(|path| path.extension().is_some_and(|kind| kind == "csv"))
                .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
                .collect();
            let also = if rest.is_empty() { String::new() } else { format!(" (also {}, charts/)", rest.join(", ")) };
            self.line(&format!("report   {}{also}", first.display()));
        }
    }
}

impl suite::Observer for Screen {
    fn begins(&mut self, case: &Case, number: usize, total: usize, launch: u32) {
        let size = case.whole("bytes").map_or(String::new(), |bytes| format!(" {}", Bytes(bytes)));
        let again = if launch > 0 { format!("  launch {}", launch + 1) } else { String::new() };
        let op = case.text("op").or_else(|| case.text("model")).unwrap_or(&case.benchmark);
        let label = format!("{op}{size} x {}{again}", case.ranks());
        if !self.live && launch > self.launch {
            self.line(&format!("launch {} of {}", launch + 1, self.launches));
        }
        self.launch = launch;
        self.now = Some(Now { label, number, total });
        self.draw_progress(0.0);
    }

    fn progress(&mut self, elapsed_s: f64, max_s: f64) {
        self.first_sample.get_or_insert_with(|| self.process_begun.elapsed());
        if self.drawn.elapsed() >= REDRAW {
            self.draw_progress(if max_s > 0.0 { elapsed_s / max_s } else { 0.0 });
        }
    }

    fn ends(&mut self, line: &CaseLine) {
        self.ended += 1;
        if self.json && !self.closed {
            // A line that does not serialise would have failed on its way to the disk.
            let text = record::to_json(line).unwrap_or_default();
            let mut out = io::stdout().lock();
            self.closed = writeln!(out, "{text}").and_then(|()| out.flush()).is_err();
        }
        self.row_or_later(line);
        if line.status != Status::Ok {
            self.failed(line);
        }
    }
}

/// A case in a few words.
fn label(line: &CaseLine) -> String {
    let word = |name: &str| line.parameters.get(name).and_then(serde_json::Value::as_str);
    let op = word("op").or_else(|| word("model")).unwrap_or(&line.benchmark);
    let size = line.bytes.map_or(String::new(), |bytes| format!(" {}", Bytes(bytes)));
    format!("{op}{size} x {} {}", line.ranks, table::backend(line))
}

fn counts(lines: &[&CaseLine]) -> String {
    let count = |status: Status| lines.iter().filter(|line| line.status == status).count();
    let words = [Status::Failed, Status::Skipped, Status::NotRun];
    let counted = words.iter().map(|status| (count(*status), status)).filter(|(count, _)| *count > 0);
    counted.map(|(count, status)| format!("{count} {status}")).collect::<Vec<_>>().join(", ")
}

/// A length of time for people: `200 ms`, `42 s`, `3 min`, `2.1 h`.
fn minutes(seconds: f64) -> String {
    match seconds {
        s if s < 0.95 => Seconds(s).to_string(),
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_for_people() {
        assert_eq!((minutes(42.4), minutes(180.0), minutes(7560.0)), ("42 s".into(), "3 min".into(), "2.1 h".into()));
    }
}
