//! The table of a run while it improves: rows in the plan's order, drawn again in place on a terminal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use record::{CaseLine, Declared, Plan};
use report::caveats::{Shared, Wording};
use terms::Status;

use super::{heading, joined, table};

/// Drawn no more often than this.
const REDRAW: Duration = Duration::from_millis(150);
const BAR: usize = 24;

/// The latest line of each case, in the plan's order; those of searches follow.
pub(super) struct Rows {
    places: HashMap<String, usize>,
    /// Lines, each with its heading, which most have in common.
    lines: Vec<Option<(Arc<str>, CaseLine)>>,
    headings: HashSet<Arc<str>>,
    /// Benchmarks whose cases stand in one table.
    joined: HashSet<String>,
    declared: Vec<Declared>,
    wording: Wording,
}

impl Rows {
    pub(super) fn new(plan: &Plan) -> Self {
        let places: HashMap<String, usize> =
            plan.cases.iter().enumerate().map(|(place, case)| (case.id.clone(), place)).collect();
        let declared: Vec<Declared> = benchmarks::abouts().into_iter().map(Declared::of).collect();
        Self {
            joined: joined::benchmarks(plan, &declared),
            lines: vec![None; plan.cases.len()],
            headings: HashSet::new(),
            places,
            declared,
            wording: Wording::of_cases(&plan.cases),
        }
    }

    pub(super) fn put(&mut self, line: &CaseLine) {
        let end = self.lines.len();
        let place = *self.places.entry(line.id.clone()).or_insert(end);
        if place == end {
            self.lines.push(None);
        }
        let heading = self.heading(line);
        self.lines[place] = Some((heading, line.clone()));
    }

    /// The heading of a line, under which its rows stand together. Equal ones are in memory once.
    fn heading(&mut self, line: &CaseLine) -> Arc<str> {
        let heading = match self.joined.contains(&*line.benchmark) {
            true => line.benchmark.to_string(),
            false => heading::heading(line, self.declared(&line.benchmark)),
        };
        if let Some(known) = self.headings.get(heading.as_str()) {
            return Arc::clone(known);
        }
        let heading: Arc<str> = heading.into();
        self.headings.insert(Arc::clone(&heading));
        heading
    }

    /// Forgets all lines.
    pub(super) fn forget(&mut self) {
        self.lines.iter_mut().for_each(|line| *line = None);
    }

    /// The lines so far, each with its heading.
    pub(super) fn lines(&self) -> impl Iterator<Item = &(Arc<str>, CaseLine)> {
        self.lines.iter().flatten()
    }

    pub(super) fn declared(&self, benchmark: &str) -> Option<&Declared> {
        self.declared.iter().find(|declared| declared.name == benchmark)
    }

    /// All rows so far in so many columns, those of one heading together under it.
    pub(super) fn table(&self, width: usize) -> Vec<String> {
        self.drawn(self.lines().map(|(heading, line)| (&**heading, line)), width)
    }

    /// Rows of these lines, which are those of the end, in so many columns.
    pub(super) fn table_of(&mut self, lines: &[CaseLine], width: usize) -> Vec<String> {
        let headings: Vec<Arc<str>> = lines.iter().map(|line| self.heading(line)).collect();
        self.drawn(headings.iter().map(|heading| &**heading).zip(lines), width)
    }

    fn drawn<'c>(&self, lines: impl Iterator<Item = (&'c str, &'c CaseLine)>, width: usize) -> Vec<String> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut groups: Vec<(&str, Vec<&CaseLine>)> = Vec::new();
        // What was not run is listed with its reason below the table.
        for (heading, line) in lines.filter(|(_, line)| line.status != Status::NotRun) {
            let place = *places.entry(heading).or_insert(groups.len());
            if place == groups.len() {
                groups.push((heading, Vec::new()));
            }
            groups[place].1.push(line);
        }
        let all: Vec<&CaseLine> = groups.iter().flat_map(|(_, lines)| lines.iter().copied()).collect();
        let said = Shared::of_rows(&all).with_state(&all).worded(self.wording);
        let group = |(_, lines): &(&str, Vec<&CaseLine>)| {
            let declared = self.declared(&lines[0].benchmark);
            let draw = if self.joined.contains(&*lines[0].benchmark) { table::joined } else { table::group };
            draw(declared, lines, &said, width)
        };
        let shared = said.sentence().into_iter().flat_map(|words| {
            let words = terminal::wrap(&words, width.min(super::width()));
            std::iter::once(String::new()).chain(words.lines().map(str::to_owned)).collect::<Vec<_>>()
        });
        groups.iter().flat_map(group).chain(shared).collect()
    }
}

/// Something else was written to the terminal since rows were drawn.
static WRITTEN_BELOW: AtomicBool = AtomicBool::new(false);

/// Leaves the rows that were drawn as they stand: something is written below them, and the next ones follow that.
pub(super) fn begin_below() {
    WRITTEN_BELOW.store(true, Ordering::Relaxed);
}

/// What stands on the terminal and is to be drawn again.
#[derive(Default)]
pub(super) struct Live {
    /// Lines that were drawn, the cursor being at the end of the last.
    drawn: usize,
    at: Option<Instant>,
}

impl Live {
    pub(super) fn is_due(&self) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= REDRAW)
    }

    /// What takes away the lines that were drawn.
    pub(super) fn clear(&mut self) -> String {
        if WRITTEN_BELOW.swap(false, Ordering::Relaxed) {
            self.drawn = 0;
        }
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => terminal::clear_above(lines - 1),
        }
    }

    /// What draws these rows and the line of progress in place of those before: the last rows that the terminal has room
    /// for, since a line that has left the screen cannot be drawn again.
    pub(super) fn draw(&mut self, rows: &[String], progress: Option<&str>) -> String {
        let (columns, height) = terminal_size::terminal_size()
            .map_or((100, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let room = height.saturating_sub(3).max(4);
        let left_out = rows.len().saturating_sub(room);
        let mut lines: Vec<String> = Vec::new();
        if left_out > 0 {
            lines.push(format!("  ... {left_out} lines above are in the table at the end"));
        }
        lines.extend(rows.iter().skip(left_out).map(|row| cut(row, columns)));
        lines.extend(progress.map(|progress| cut(progress, columns)));
        let text = format!("{}{}", self.clear(), lines.join("\n"));
        (self.drawn, self.at) = (lines.len(), Some(Instant::now()));
        text
    }
}

/// A row that fits the terminal: a wrapped one would be two lines, and drawn in the wrong place. Escape sequences take no
/// columns.
fn cut(row: &str, columns: usize) -> String {
    let (mut text, mut used, mut rest) = (String::new(), 0, row);
    while let Some(symbol) = rest.chars().next() {
        let sequence = terminal::sequence(rest);
        let (taken, room) = if sequence > 0 { (sequence, true) } else { (symbol.len_utf8(), used + 1 < columns) };
        used += usize::from(sequence == 0 && room);
        text.push_str(if room { &rest[..taken] } else { "" });
        rest = &rest[taken..];
    }
    text
}

/// How much of the round is done.
pub(super) fn bar(done: f64) -> String {
    let filled = ((done.clamp(0.0, 1.0) * BAR as f64) as usize).min(BAR - 1);
    format!("{}>{}", "=".repeat(filled), " ".repeat(BAR - filled - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_cut_at_the_edge_and_keep_their_colours() {
        let bold = |text| terminal::Style::Bold.paint(text);
        assert_eq!(cut(&bold("abcdef"), 4), bold("abc"));
        assert_eq!(cut("abc", 80), "abc");
    }

    #[test]
    fn what_was_drawn_is_taken_away_line_by_line() {
        let mut live = Live::default();
        assert_eq!(live.clear(), "");
        let rows = ["a".to_owned(), "b".to_owned()];
        assert_eq!(live.draw(&rows, Some("p")), "a\nb\np");
        assert_eq!(live.draw(&rows, None), format!("{}a\nb", terminal::clear_above(2)));
        assert_eq!(live.clear(), terminal::clear_above(1));
    }

    #[test]
    fn the_bar_is_never_longer_than_its_place() {
        assert!([0.0, 0.5, 1.0, 7.0].iter().all(|done| bar(*done).len() == BAR));
    }
}
