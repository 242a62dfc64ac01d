//! The screen of an interleaved comparison: what each side is, the ratio of each case while it becomes known, and what
//! follows in words.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use diagnose::Verdict;
use record::{CaseLine, Caveat, ComparedCase, Interleaved, RunFile, Side};
use report::caveats::Wording;
use runner::{Compared, Matched, PairObserver};
use terms::Status;
use view::number::{self, lasting};

use super::live::bar;
use super::next::next_report;
use super::output::Output;
use super::progress_pause::ProgressPause;
use super::{Verbosity, is_watched, width};
use view::terminal::{Cell, Column, Row, Style, Table, hanging, parts};

/// The columns of the table.
fn columns() -> [Column; 9] {
    [
        Column::left("case").wraps(34, 12),
        Column::right("A"),
        Column::right("B"),
        Column::right("B/A"),
        Column::right("95%"),
        Column::right("pairs").gives_way(1),
        Column::right("smallest").gives_way(2),
        Column::right("wrong"),
        Column::left("verdict"),
    ]
}

/// See the module's documentation.
pub(crate) struct PairScreen {
    output: Output,
    threshold: f64,
    labels: Vec<String>,
    rows: Vec<Option<Compared>>,
    begun: Instant,
    /// What is visited, and how much of the pair is done.
    now: Option<(String, f64)>,
    progress_pause: ProgressPause,
}

impl PairScreen {
    pub(crate) fn new(verbosity: Verbosity, json: bool, threshold: f64, matched: &[Matched]) -> Self {
        Self {
            output: Output::new(verbosity, json),
            threshold,
            labels: report::compared_labels(&matched.iter().map(|[a, _]| a).collect::<Vec<_>>()),
            rows: vec![None; matched.len()],
            begun: Instant::now(),
            now: None,
            progress_pause: ProgressPause::new(Instant::now()),
        }
    }

    fn line(&mut self, text: &str) {
        self.output.line(text);
    }

    /// Why not all objects were printed, where they were to be.
    pub(crate) fn lost(&self) -> Option<&io::Error> {
        self.output.lost()
    }

    /// What is compared, by which rule, where it is kept, on what machine.
    pub(crate) fn header(&mut self, file: &RunFile, directory: &Path, max_seconds: f64, notes: &[String]) {
        let program = format!("rankmark {}", file.tool.version);
        let cases = number::count(self.rows.len(), "case", "cases");
        let plan = format!("interleaved comparison, {cases}, at most {} each", lasting(max_seconds));
        let text = parts(&[program.clone(), plan, format!("record {}", directory.display())], width());
        self.line(&text.replacen(&program, &Style::Bold.paint(&program), 1));
        self.line(&hanging("machine  ", &report::machine_line(&file.machine), width()));
        let Interleaved { sides, threshold, .. } = file.interleaved.clone().unwrap_or_default();
        for (name, side) in ["side A   ", "side B   "].into_iter().zip(&sides) {
            self.line(&hanging(name, &of_side(side), width()));
        }
        let family = match self.rows.len() {
            1 => String::new(),
            cases => format!("of all {cases} cases and "),
        };
        let rule = format!(
            "a change within {} counts as none; with 95% confidence all intervals {family}of every look hold",
            terms::Ratio(threshold),
        );
        self.line(&hanging("rule     ", &rule, width()));
        if file.simulated {
            self.line(&format!(
                "{}  times of backend `sim` are computed by a model and never measured",
                Style::Warning.paint("SIMULATED")
            ));
        }
        for note in notes {
            self.line(&hanging("note: ", note, width()));
        }
    }

    /// The table so far in so many columns.
    fn table(&self, width: usize) -> Vec<String> {
        let known = self.rows.iter().zip(&self.labels).filter_map(|(row, label)| Some((label, row.as_ref()?)));
        let mut table = Table::new(columns());
        known.for_each(|(label, compared)| table.push(self.row(label, compared)));
        if table.is_empty() { Vec::new() } else { table.lines(width) }
    }

    fn row(&self, label: &str, compared: &Compared) -> Row {
        let [a, b] = &compared.lines;
        let time = |line: &CaseLine| line.time_s.as_ref().map_or("-".to_owned(), |time| number::seconds(time.median));
        let wrong = a.wrong.zip(b.wrong).map_or("-".to_owned(), |(a, b)| (a + b).to_string());
        let status = compared.status();
        let failed = Some(status)
            .filter(|status| *status != Status::Ok)
            .filter(|status| *status != Status::NotRun || compared.reason.is_some());
        let ratio = compared.ratio.filter(|_| failed.is_none());
        let middle = || (!compared.logs.is_empty()).then(|| stats::median(&compared.logs).exp());
        let mid = ratio.map(|ratio| ratio.mid).or_else(middle).filter(|_| failed.is_none());
        let ends = ratio.map(|ratio| ratio.ends);
        let verdict = match (failed, ends) {
            (Some(status), _) => status.to_string(),
            (None, None) if compared.reason.is_none() => "...".to_owned(),
            (None, ends) => Verdict::from_interval(ends, self.threshold).to_string(),
        };
        let cells = [
            label.to_owned(),
            time(a),
            time(b),
            mid.map_or("-".to_owned(), number::ratio),
            ends.map_or("-".to_owned(), |[low, high]| format!("{}-{}", number::ratio(low), number::ratio(high))),
            compared.logs.len().to_string(),
            ratio.map_or("-".to_owned(), |ratio| number::percent(ratio.smallest.max(self.threshold))),
            wrong,
        ];
        let verdict = Cell::styled(verdict.as_str(), style_of(&verdict));
        Row::new(cells.map(Cell::from).into_iter().chain([verdict]))
    }

    fn draw(&mut self, whatever: bool) {
        if !self.output.is_due(whatever) {
            return;
        }
        let since = lasting(self.begun.elapsed().as_secs_f64());
        let progress = self.now.as_ref().map(|(what, done)| format!("  [{}]  {what}   {since}", bar(*done)));
        let rows = self.table(super::columns().unwrap_or(100) - 1);
        self.output.draw(&rows, progress.as_deref());
    }

    /// What each case is called, in the order of the cases.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The table, what it says in words, what went wrong, where the report is.
    pub(crate) fn end(&mut self, cases: &[ComparedCase], compared: &[Compared], written: &[PathBuf]) {
        self.output.clear_live();
        for (row, one) in self.rows.iter_mut().zip(compared) {
            *row = Some(one.clone());
        }
        self.line("");
        let width_of_table = if is_watched(io::stdout()) { super::columns().unwrap_or(100) - 1 } else { usize::MAX };
        for row in self.table(width_of_table) {
            self.line(&row);
        }
        self.line("");
        for sentence in report::compared_sentences(cases, &self.labels, self.threshold) {
            self.line(&hanging("* ", &sentence, width()));
        }
        let caveats = caveats(compared);
        if !caveats.is_empty() {
            let words: Vec<String> = caveats.iter().map(|caveat| Wording::default().words(*caveat)).collect();
            self.line("");
            self.line(&hanging("caveats  ", &words.join(", "), width()));
        }
        if self.output.is_verbose() {
            for caveat in &caveats {
                let words = Wording::default().words(*caveat);
                self.line(&hanging("    ", &format!("{words}: {}", caveat.explanation()), width()));
            }
        }
        self.unwell(compared);
        if let Some(first) = written.first() {
            self.line("");
            self.line(&format!("report   {}", first.display()));
            let directory = first.parent().unwrap_or(Path::new("."));
            self.line(next_report(&[directory], "the ratios of each case, and its times").trim_end());
        }
        for case in cases {
            self.output.json(|| record::to_json(case).unwrap_or_default());
        }
    }

    /// Cases that ended otherwise than by a decision, each reason once; and gates that were missed.
    fn unwell(&mut self, compared: &[Compared]) {
        let mut groups: Vec<(Status, String, &str, usize)> = Vec::new();
        let mut missed: Vec<String> = Vec::new();
        for (one, label) in compared.iter().zip(&self.labels) {
            let status = one.status();
            let own = one.lines.iter().find(|line| line.status == status).and_then(|line| line.reason.clone());
            let reason = one.reason.clone().or(own.filter(|_| status != Status::Ok));
            // A case that is ok and ended early is not an error.
            let is_said = status != Status::Ok || !self.output.is_quiet();
            if let Some(reason) = reason.filter(|_| is_said) {
                match groups.iter_mut().find(|(of, known, ..)| *of == status && *known == reason) {
                    Some((.., more)) => *more += 1,
                    None => groups.push((status, reason, label, 0)),
                }
            }
            for (side, line) in ["A", "B"].into_iter().zip(&one.lines).filter(|(_, line)| !line.gates_missed.is_empty())
            {
                let gates = line.gates_missed.join("; ");
                missed.push(hanging("gate missed  ", &format!("{label}, side {side}: {gates}"), width()));
            }
        }
        let line = |(status, reason, label, more): (Status, String, &str, usize)| {
            let word = if status == Status::Ok { "ended".to_owned() } else { status.to_string() };
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            hanging(&format!("{word}  "), &format!("{label}{more}: {reason}"), width())
        };
        let said: Vec<String> = groups.into_iter().map(line).chain(missed).collect();
        self.output.faults(&said);
    }
}

impl PairObserver for PairScreen {
    fn begins(&mut self, index: usize, number: usize, total: usize, pair: u32) {
        let open = self.rows.len() - self.rows.iter().flatten().filter(|row| row.closed).count();
        let most = self.rows[index].as_ref().map_or(String::new(), |row| format!(" of at most {}", row.most));
        let what = format!("pair {}{most}: {number}/{total}   {}   {open} open", pair + 1, self.labels[index]);
        self.now = Some((what, (number as f64 - 1.0) / total.max(1) as f64));
        self.draw(false);
    }

    fn updates(&mut self, index: usize, compared: &Compared) {
        self.rows[index] = Some(compared.clone());
        self.draw(false);
    }

    fn pairs(&mut self, made: u32, open: usize) {
        if self.output.is_live() {
            self.draw(true);
        } else if open > 0 && self.progress_pause.is_due(Instant::now()) {
            let (since, total) = (lasting(self.begun.elapsed().as_secs_f64()), self.rows.len());
            self.line(&format!("pair {made} made after {since}, {open} of {total} cases open"));
        }
    }
}

/// What a side is.
fn of_side(side: &Side) -> String {
    let mut text = side.plan.clone();
    if !side.set.is_empty() {
        text += &format!(" with {}", side.set.join(", "));
    }
    if let (Some(program), Some(version)) = (&side.program, &side.version) {
        text += &format!(", ranks of {program} (rankmark {version})");
    }
    text
}

/// The colour of a verdict, which only repeats the word.
fn style_of(verdict: &str) -> Style {
    match verdict {
        "worse" | "failed" => Style::Red,
        "better" | "same" => Style::Green,
        "cannot tell" => Style::Yellow,
        _ => Style::Plain,
    }
}

fn caveats(compared: &[Compared]) -> Vec<Caveat> {
    let mut found: Vec<Caveat> = Vec::new();
    for caveat in compared.iter().flat_map(|one| &one.lines).flat_map(|line| &line.caveats) {
        if !found.contains(caveat) {
            found.push(*caveat);
        }
    }
    found
}
