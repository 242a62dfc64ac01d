//! Case lines as a terminal shows them while a run goes on and at its end: one table that improves, and what is said below it.

mod curves;
mod ending;
mod head;
mod heading;
mod joined;
mod pairs;
mod remarks;
mod table;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use record::{CaseLine, Declared, Plan};
use terms::Status;
use view::terminal;

use crate::caveats::{Shared, Wording};

pub use curves::result_line;
pub use ending::{Unwell, all_caveats, caveats_in_full, label, unwell};
pub use head::{FollowedEnd, followed, followed_end, report_line, setup_lines};
pub use heading::{heading, whole_heading};
pub use pairs::{PairRows, compared_case, side_lines};

/// The latest line of each case, in the plan's order; those of searches follow.
pub struct Rows {
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
    /// No lines yet of this plan, whose benchmarks declare this.
    pub fn new(plan: &Plan, declared: Vec<Declared>) -> Self {
        let places: HashMap<String, usize> =
            plan.cases.iter().enumerate().map(|(place, case)| (case.id.clone(), place)).collect();
        Self {
            joined: joined::benchmarks(plan, &declared),
            lines: vec![None; plan.cases.len()],
            headings: HashSet::new(),
            places,
            declared,
            wording: Wording::of_cases(&plan.cases),
        }
    }

    /// Takes in a line, in place of an earlier one of its case.
    pub fn put(&mut self, line: &CaseLine) {
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
    pub fn forget(&mut self) {
        self.lines.iter_mut().for_each(|line| *line = None);
    }

    /// The lines so far, each with its heading.
    pub(super) fn lines(&self) -> impl Iterator<Item = &(Arc<str>, CaseLine)> {
        self.lines.iter().flatten()
    }

    /// What a benchmark declares.
    pub(super) fn declared(&self, benchmark: &str) -> Option<&Declared> {
        self.declared.iter().find(|declared| declared.name == benchmark)
    }

    /// All rows so far in so many columns, those of one heading together under it, and sentences in `text` columns.
    pub fn table(&self, width: usize, text: usize) -> Vec<String> {
        self.drawn(self.lines().map(|(heading, line)| (&**heading, line)), (width, text))
    }

    /// Rows of these lines, which are those of the end, in so many columns.
    pub fn table_of(&mut self, lines: &[CaseLine], width: usize, text: usize) -> Vec<String> {
        let headings: Vec<Arc<str>> = lines.iter().map(|line| self.heading(line)).collect();
        self.drawn(headings.iter().map(|heading| &**heading).zip(lines), (width, text))
    }

    fn drawn<'c>(
        &self,
        lines: impl Iterator<Item = (&'c str, &'c CaseLine)>,
        (width, text): (usize, usize),
    ) -> Vec<String> {
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
            let words = terminal::wrap(&words, width.min(text));
            std::iter::once(String::new()).chain(words.lines().map(str::to_owned)).collect::<Vec<_>>()
        });
        groups.iter().flat_map(group).chain(shared).collect()
    }
}
