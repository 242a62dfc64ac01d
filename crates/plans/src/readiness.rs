//! What a machine can run, as a page (groups, aligned rows, the impact of a row and its fix below it) and as JSON.

use std::path::PathBuf;

use record::PlanErrors;
use serde_json::{Value, json};
use survey::{Finding, State, Survey};
use view::terminal::{Style, wrap};

use crate::known_answers::KnownAnswers;
use crate::outlook::{self, Outlook, by_reason};
use crate::states;

/// Longer names share the column of what was found.
const LONGEST_NAME: usize = 14;
/// Cases named of each reason; the rest is counted.
const NAMED: usize = 3;

/// Everything that is shown.
pub struct Findings {
    /// What was found, by group.
    pub rows: Vec<Finding>,
    /// What `--quick` left out, and why it would take long.
    pub left_out: Vec<(&'static str, &'static str)>,
    /// What becomes of the plan that was given.
    pub outlook: Option<Outlook>,
    /// Benchmarks that can run here.
    pub benchmarks: Vec<&'static str>,
    /// The Python that was named.
    pub python: Option<PathBuf>,
}

impl Findings {
    /// What the survey found, with known answers and the states of the machine; `outlook` tells what becomes of a plan here.
    ///
    /// # Errors
    /// When the user ended it.
    pub fn checked(
        found: Survey,
        answers: &KnownAnswers<'_>,
        python: Option<PathBuf>,
        outlook: impl FnOnce(&[Finding]) -> Option<Outlook>,
    ) -> Result<Self, PlanErrors> {
        let backends = answers.of_backends()?;
        let mut rows = answers.of_found(found.findings, python.as_deref())?;
        let mut left_out = found.left_out;
        if answers.quick {
            left_out.push(("known answers", "ranks of every backend would be started"));
            left_out.push(("states of the machine", "ranks would look at it for 1.5 s"));
        } else {
            let behind = rows.iter().rposition(|row| row.group == "system").map_or(0, |last| last + 1);
            rows.insert(behind, states::row(answers));
        }
        // One that measures: what only computes times can run anywhere.
        let measures = |name: &str| comm::backend(name).is_some_and(|backend| !backend.about().simulated);
        let usable = backends.iter().any(|row| row.state == State::Ready && measures(&row.name));
        // Backends stand behind what they rest on most: system and limits.
        let at = rows.iter().position(|row| row.group != "system" && row.group != "limits").unwrap_or(rows.len());
        rows.splice(at..at, backends);
        let benchmarks = benchmarks::abouts().iter().filter(|_| usable).map(|about| about.name).collect();
        Ok(Self { outlook: outlook(&rows), rows, left_out, python, benchmarks })
    }

    /// Whether all that was asked for can run: see `--help`.
    pub fn is_fine(&self) -> bool {
        let plan_runs = self.outlook.as_ref().is_none_or(|outlook| outlook.skipped.is_empty());
        plan_runs && !self.benchmarks.is_empty() && !self.rows.iter().any(Finding::is_trouble)
    }

    /// For programs: with the exit code, and the name of a host where several were looked at.
    pub fn json(&self, code: u8, host: Option<&str>) -> Value {
        let row = |row: &Finding| {
            let mut value =
                json!({ "group": row.group, "name": row.name, "state": row.state.word(), "found": row.found });
            let optional = [("impact", &row.impact), ("fix", &row.fix)];
            for (name, text) in optional.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
                value[name] = text.as_str().into();
            }
            if let Some(details) = &row.details {
                value["details"] = details.clone();
            }
            value
        };
        let left_out = |(name, why): &(&str, &str)| json!({ "name": name, "why": why });
        let mut all = json!({
            "findings": self.rows.iter().map(row).collect::<Vec<_>>(),
            "left_out": self.left_out.iter().map(left_out).collect::<Vec<_>>(),
            "benchmarks": self.benchmarks,
        });
        if let Some(outlook) = &self.outlook {
            all["plan"] = outlook.json();
            all["plan"]["not_looked_at"] = outlook.not_looked_at.iter().map(outlook::Skipped::json).collect();
        }
        if let Some(host) = host {
            all["host"] = host.into();
        }
        all["exit"] = code.into();
        all
    }
}

const fn mark(state: State) -> (Style, char) {
    match state {
        State::Ready => (Style::Green, '✓'),
        State::Slow => (Style::Yellow, '!'),
        State::Misconfigured => (Style::Red, '✗'),
        State::Missing => (Style::Dim, '·'),
    }
}

/// The page for a terminal of so many columns. Whole: no rows are joined, and every case is named.
pub fn text(findings: &Findings, width: usize, whole: bool) -> String {
    let rows = if whole { findings.rows.clone() } else { folded(&findings.rows) };
    let longest = |of: &dyn Fn(&Finding) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let columns = Columns {
        word: longest(&|row| row.state.word().len()),
        name: rows
            .iter()
            .map(|row| row.name.chars().count())
            .filter(|length| *length <= LONGEST_NAME)
            .max()
            .unwrap_or(0),
        width,
    };
    let mut text = String::new();
    let mut group = "";
    for row in &rows {
        if row.group != group {
            group = row.group;
            text.push_str(&format!("{}\n", Style::Bold.paint(group)));
        }
        columns.row(row, &mut text);
    }
    if let Some(outlook) = &findings.outlook {
        plan(outlook, width, if whole { usize::MAX } else { NAMED }, &mut text);
    }
    text.push('\n');
    text.push_str(&closing(findings, width));
    text
}

/// What is wrong, and nothing else; empty where all that was asked for can run.
pub fn wrong(findings: &Findings, width: usize) -> String {
    let mut text = first(findings, width);
    if let Some(outlook) = findings.outlook.as_ref().filter(|outlook| !outlook.skipped.is_empty()) {
        plan(outlook, width, NAMED, &mut text);
    }
    if text.is_empty() && !findings.is_fine() {
        text = "no backend that measures is ready\n".to_owned();
    }
    text
}

/// Where things stand.
struct Columns {
    word: usize,
    name: usize,
    width: usize,
}

impl Columns {
    fn row(&self, row: &Finding, text: &mut String) {
        let (colour, mark) = mark(row.state);
        let (words, names) = (self.word, self.name);
        let middle = 4 + words + 2;
        let head = format!("  {}  ", colour.paint(&format!("{mark} {:words$}", row.state.word())));
        let body = if row.name.chars().count() > names {
            self.wrapped(&format!("{}: {}", row.name, row.found), middle)
        } else {
            format!("{:names$}  {}", row.name, self.wrapped(&row.found, middle + names + 2))
        };
        text.push_str(&format!("{head}{body}\n"));
        // The labels stand under the state, what they say under the name: room for a command.
        for (label, remark) in [("impact", &row.impact), ("fix", &row.fix)] {
            let Some(remark) = remark else { continue };
            let label = Style::Dim.paint(&format!("{label:words$}"));
            text.push_str(&format!("    {label}  {}\n", self.wrapped(remark, middle)));
        }
        self.table(&row.table, middle, text);
    }

    /// A table whose columns stand side by side as far as the terminal goes, and the others below them. Its first column is
    /// repeated.
    fn table(&self, table: &[Vec<String>], at: usize, text: &mut String) {
        let Some(head) = table.first() else { return };
        let wide =
            |column: usize| table.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
        let first = wide(0).unwrap_or(0);
        let cell = (1..head.len()).filter_map(wide).max().unwrap_or(0);
        let abreast = (self.width.saturating_sub(at + first) / (cell + 2)).max(1);
        for begin in (1..head.len()).step_by(abreast) {
            let columns = begin..head.len().min(begin + abreast);
            for line in table {
                let cells =
                    columns.clone().map(|column| format!("  {:cell$}", line.get(column).map_or("", String::as_str)));
                let line = format!(
                    "{:at$}{:first$}{}",
                    "",
                    line.first().map_or("", String::as_str),
                    cells.collect::<String>()
                );
                text.push_str(&format!("{}\n", line.trim_end()));
            }
        }
    }

    /// A text that begins at a column, and goes on there.
    fn wrapped(&self, text: &str, column: usize) -> String {
        wrap(text, self.width.saturating_sub(column).max(30)).replace('\n', &format!("\n{:column$}", ""))
    }
}

/// Neighbours that are missing for the same reason, about which nothing can be done, are one row.
fn folded(rows: &[Finding]) -> Vec<Finding> {
    let bare = |row: &Finding| row.state == State::Missing && row.impact.is_none() && row.fix.is_none() && !row.asked;
    let mut folded: Vec<Finding> = Vec::new();
    for row in rows {
        match folded.last_mut() {
            Some(last) if bare(last) && bare(row) && last.group == row.group && last.found == row.found => {
                last.name = format!("{}, {}", last.name, row.name);
            }
            _ => folded.push(row.clone()),
        }
    }
    folded
}

fn plan(outlook: &Outlook, width: usize, named: usize, text: &mut String) {
    text.push_str(&format!("{}  {}\n", Style::Bold.paint("plan"), outlook.file));
    let runs = outlook.runs();
    let (colour, mark) = mark(if outlook.skipped.is_empty() { State::Ready } else { State::Misconfigured });
    let mark = colour.paint(&mark.to_string());
    text.push_str(&format!("  {mark} {runs} of {} would run here\n", counted(outlook.cases, "case")));
    for note in &outlook.notes {
        let note = wrap(&format!("note: {note}"), width.saturating_sub(4)).replace('\n', "\n    ");
        text.push_str(&format!("    {note}\n"));
    }
    let skipped = outlook.by_reason().into_iter().map(|reason| ("skipped", reason));
    let not_looked_at = by_reason(&outlook.not_looked_at).into_iter().map(|reason| ("not looked at", reason));
    for (what, (reason, names)) in skipped.chain(not_looked_at) {
        let count = counted(names.len(), "case");
        let reason = wrap(&format!("{count} {what}: {reason}"), width.saturating_sub(4)).replace('\n', "\n    ");
        text.push_str(&format!("    {reason}\n"));
        for name in names.iter().take(named) {
            text.push_str(&format!("      {}\n", Style::Dim.paint(name)));
        }
        if names.len() > named {
            let more = format!("and {} more", names.len() - named);
            text.push_str(&format!("      {}\n", Style::Dim.paint(&more)));
        }
    }
}

fn counted(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// What was left out, how many of each state, and which benchmarks run here.
fn closing(findings: &Findings, width: usize) -> String {
    let mut text = String::new();
    for (name, why) in &findings.left_out {
        text.push_str(&format!("left out by --quick: {name} ({why})\n"));
    }
    let states = [State::Ready, State::Slow, State::Misconfigured, State::Missing].map(|state| {
        let count = findings.rows.iter().filter(|row| row.state == state).count();
        (count > 0).then(|| format!("{count} {}", state.word()))
    });
    let states: Vec<String> = states.into_iter().flatten().collect();
    text.push_str(&format!("{}\n", states.join(", ")));
    text.push_str(&first(findings, width));
    let names = &findings.benchmarks;
    let all = counted(benchmarks::all().count(), "benchmark");
    let last = format!("{} of {all} can run here: {}", names.len(), names.join(", "));
    text.push_str(&wrap(last.trim_end_matches(": "), width));
    text.push('\n');
    text
}

/// The rows that stand in the way of what was asked for.
fn first(findings: &Findings, width: usize) -> String {
    let rows: Vec<&str> = findings.rows.iter().filter(|row| row.is_trouble()).map(|row| row.name.as_str()).collect();
    if rows.is_empty() { String::new() } else { wrap(&format!("fix first: {}", rows.join(", ")), width) + "\n" }
}

#[cfg(test)]
mod tests;
