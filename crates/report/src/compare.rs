//! Records compared with a base: the verdict, what sets them apart, a row for each case, and what the verdicts rest on.

mod apart;
mod ci;
mod gate;
mod json;
mod labels;
mod sides;
mod states;
mod words;

use std::collections::{HashMap, HashSet};

use diagnose::Verdict;
use diagnose::compare::{Compared, Comparison, Settings, compare_sides};
use record::Record;
use view::number::{NONE, count, three_digits, width};
use view::one_line;

use crate::document::{Block, Column, Document, Item, Table, TableRow, Tone, Words, strong};

pub use ci::{comparison_junit, interleaved_junit, nothing_compared};
pub use gate::Gate;
pub use json::lines;
pub use labels::Labels;
pub use sides::{SideSource, Warn, below, equal_runs};
pub use words::{sentence, why};

/// Records that were compared with a base.
pub struct Comparisons<'r> {
    /// What the base is called.
    pub name: String,
    /// The base; of several equal runs the latest.
    pub base: &'r Record,
    /// Each of the others.
    pub others: Vec<Against<'r>>,
}

/// A record, or equal runs, compared with the base.
pub struct Against<'r> {
    /// What it is called.
    pub name: String,
    /// The record; of several equal runs the latest.
    pub latest: &'r Record,
    /// What the comparison says.
    pub comparison: Comparison<'r>,
}

/// What a record is called where there is little room: A is the base, then B, C, ... Z, then its number.
pub(crate) fn letter(index: usize) -> String {
    let letter = u8::try_from(index).ok().filter(|index| *index < 26).map(|index| char::from(b'A' + index));
    letter.map_or_else(|| format!("#{}", index + 1), |letter| letter.to_string())
}

/// What a person reads of a comparison, with at most so many cases.
pub fn comparison(of: &Comparisons, limit: usize) -> Document {
    let mut blocks = vec![Block::Paragraph(named(of).into())];
    (0..of.others.len()).for_each(|at| blocks.extend(verdict(of, at)));
    blocks.push(differences(of));
    blocks.extend(cases(of, limit));
    blocks.extend(rests_on(of));
    Document { title: "Comparison".to_owned(), blocks }
}

/// Which records are compared.
fn named(of: &Comparisons) -> String {
    match of.others.as_slice() {
        [other] => format!("{} -> {}", of.name, other.name),
        _ => format!("base {}", of.name),
    }
}

impl<'r> Comparisons<'r> {
    /// Each of the others, compared with the base.
    pub fn new(base: &'r SideSource, others: &'r [SideSource], settings: &Settings<'r>) -> Self {
        let records: Vec<&Record> = base.records.iter().collect();
        let one = |other: &'r SideSource| {
            let news: Vec<&Record> = other.records.iter().collect();
            let comparison = compare_sides(&records, &news, settings);
            Against { name: other.name.clone(), latest: other.latest(), comparison }
        };
        Self { name: base.name.clone(), base: base.latest(), others: others.iter().map(one).collect() }
    }

    /// What stands before all that is said of one of several.
    fn prefix(&self, at: usize) -> String {
        if self.others.len() > 1 { format!("{}  {}: ", letter(at + 1), self.others[at].name) } else { String::new() }
    }

    /// Names of the cases of one of the comparisons.
    fn labels(&self, at: usize) -> Labels<'_> {
        Labels::new(self.base, &self.others[at].comparison)
    }
}

/// How a verdict is shown.
fn tone(verdict: Option<Verdict>) -> Tone {
    match verdict {
        Some(Verdict::Worse) => Tone::Bad,
        Some(Verdict::Better) => Tone::Good,
        Some(Verdict::CannotTell) => Tone::Care,
        Some(Verdict::Same) | None => Tone::Plain,
    }
}

/// The verdict on one of the records in a sentence, and what must be known before any figure is read.
pub(crate) fn verdict(of: &Comparisons, at: usize) -> Vec<Block> {
    let (comparison, labels, prefix) = (&of.others[at].comparison, of.labels(at), of.prefix(at));
    let tone = match comparison.verdict() {
        Some(Verdict::Same) => Tone::Good,
        None => Tone::Care,
        other => tone(other),
    };
    let said = sentence(comparison, &labels);
    let (word, rest) = said.split_at(said.find(':').unwrap_or(0));
    let mut blocks = vec![Block::Verdict(tone, Words::prose(rest).behind(&format!("{prefix}{}", strong(word))))];
    blocks
        .extend(words::warning_lines(comparison).iter().map(|line| Block::Warning(Words::prose(line).behind(&prefix))));
    let largest = words::largest(comparison, &labels);
    blocks.extend(largest.map(|largest| Block::OnPage(vec![Block::Note(Words::prose(&largest).behind(&prefix))])));
    blocks
}

/// What sets the records apart, apart from results.
pub(crate) fn differences(of: &Comparisons) -> Block {
    let labels: Vec<Labels> = (0..of.others.len()).map(|at| of.labels(at)).collect();
    let name = |at: usize| if of.others.len() > 1 { letter(at + 1) } else { "new".to_owned() };
    let others: Vec<_> = of
        .others
        .iter()
        .zip(&labels)
        .enumerate()
        .map(|(at, (one, labels))| (name(at), &one.comparison, labels))
        .collect();
    apart::differences("base", &others)
}

/// A row for each case, and how many there are that have none.
pub(crate) fn cases(of: &Comparisons, limit: usize) -> Vec<Block> {
    let (table, more) = match of.others.as_slice() {
        [other] => (of_one(&other.comparison, &of.labels(0), limit), other.comparison.cases.len()),
        _ => of_several(of, limit),
    };
    let more = more.saturating_sub(limit);
    let more = (more > 0).then(|| format!("... and {} (`--all`)", count(more, "more case", "more cases")));
    if table.is_empty() {
        return Vec::new();
    }
    std::iter::once(Block::Table(table)).chain(more.map(|more| Block::Paragraph(Words::prose(&more)))).collect()
}

/// The column of cases, which gets only the room that the figures leave.
fn case_column() -> Column {
    /// Columns that names of cases need next to a metric, and have at least.
    const ROOM: [usize; 2] = [18, 14];
    Column::left("case").wraps(ROOM[0], ROOM[1])
}

/// The cases of one comparison, the most important first, with a metric where there is room for it.
fn of_one(comparison: &Comparison, labels: &Labels, limit: usize) -> Table {
    let rows: Vec<&Compared> = comparison.cases.iter().take(limit).collect();
    let mut names = rows.iter().flat_map(|case| &case.shown).map(|shown| shown.name.as_str());
    let first = names.next();
    let metric = first.map(|first| if names.all(|name| name == first) { first } else { "metric" });
    let mut table = Table::new([
        case_column(),
        Column::right("base"),
        Column::right("new"),
        Column::right("new / base"),
        Column::right("smallest"),
        Column::right(metric.unwrap_or_default()).gives_way(1).optional(),
        Column::left("verdict"),
    ]);
    for case in rows {
        let [base, new] = words::values(case);
        let smallest = case.smallest_change.map_or_else(|| NONE.to_owned(), width);
        let shown = case.shown.as_ref().filter(|_| first.is_some());
        let shown = shown.map(|shown| format!("{} -> {}", three_digits(shown.base), three_digits(shown.new)));
        let none = if first.is_some() { NONE } else { "" };
        let shown = shown.unwrap_or_else(|| none.to_owned());
        let verdict = words::word(case.verdict).to_owned();
        let row = TableRow::new([labels.label(case), base, new, words::ratio(case), smallest, shown, verdict]);
        table.push(row.tone(6, tone(case.verdict)));
    }
    table.without(|at, cells| at == 5 && cells.iter().all(Words::is_empty))
}

/// The cases of the base that any of several records has, with the value, the ratio and the verdict of each.
fn of_several(of: &Comparisons, limit: usize) -> (Table, usize) {
    let by_id = |one: &Against| -> HashMap<String, usize> {
        one.comparison.cases.iter().enumerate().map(|(at, case)| (case.base.id.clone(), at)).collect()
    };
    let places: Vec<HashMap<String, usize>> = of.others.iter().map(by_id).collect();
    let columns = (1..=of.others.len()).map(letter).flat_map(|letter| {
        [
            Column::right(letter.as_str()).gives_way(2),
            Column::right(format!("{letter} / base")).gives_way(1),
            Column::left(format!("{letter} is")),
        ]
    });
    let mut table = Table::new([case_column(), Column::right("base")].into_iter().chain(columns));
    let labels = of.labels(0);
    let found = |id: &str| -> Vec<Option<&Compared>> {
        let of_side = places.iter().zip(&of.others);
        of_side.map(|(places, one)| places.get(id).map(|at| &one.comparison.cases[*at])).collect()
    };
    // The latest run of the base may lack cases that an earlier one has.
    let compared = of.others.iter().flat_map(|one| one.comparison.cases.iter().map(|case| case.base));
    let mut seen: HashSet<&str> = HashSet::new();
    let all = of.base.cases.iter().chain(compared).filter(|line| seen.insert(&line.id));
    let mut rows: Vec<(&record::CaseLine, Vec<Option<&Compared>>)> = all.map(|line| (line, found(&line.id))).collect();
    rows.retain(|(_, found)| found.iter().any(Option::is_some));
    // The verdict that matters most comes first.
    let weight = |case: &Compared| match case.verdict {
        Some(Verdict::Worse) => 0,
        Some(Verdict::Better) => 1,
        Some(Verdict::CannotTell) => 2,
        Some(Verdict::Same) => 3,
        None => 4,
    };
    rows.sort_by_key(|(_, found)| found.iter().flatten().map(|case| weight(case)).min());
    for (line, found) in rows.iter().take(limit) {
        let base = found.iter().flatten().map(|case| words::values(case)[0].clone()).find(|value| value != NONE);
        let cells = found.iter().flat_map(|case| match case {
            Some(case) => {
                let [_, value] = words::values(case);
                [value, words::ratio(case), words::word(case.verdict).to_owned()]
            }
            None => [NONE, NONE, NONE].map(str::to_owned),
        });
        let head = [labels.line(line), base.unwrap_or_else(|| NONE.to_owned())];
        let mut row = TableRow::new(head.into_iter().chain(cells));
        for (at, case) in found.iter().enumerate() {
            row = row.tone(4 + 3 * at, tone(case.and_then(|case| case.verdict)));
        }
        table.push(row);
    }
    (table, rows.len())
}

/// What the verdicts rest on, and the cases without a partner.
pub(crate) fn rests_on(of: &Comparisons) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (at, one) in of.others.iter().enumerate() {
        let (comparison, labels) = (&one.comparison, of.labels(at));
        let said = words::basis(comparison);
        let lone = [("only in the base", &comparison.only_base), ("only in the new record", &comparison.only_new)];
        let lone = lone.into_iter().filter(|(_, cases)| !cases.is_empty()).map(|(what, cases)| Item {
            words: format!("{what}: {}", count(cases.len(), "case", "cases")).into(),
            below: words::unmatched(cases, &labels).iter().map(|line| one_line(line).as_str().into()).collect(),
        });
        let items: Vec<Item> = said.iter().map(|line| Item::from(Words::prose(line))).chain(lone).collect();
        let prefix = of.prefix(at);
        let heading = (!prefix.is_empty()).then(|| Block::Heading(3, prefix.trim_end_matches(": ").into()));
        if !items.is_empty() {
            blocks.extend(heading.into_iter().chain([Block::List(items)]));
        }
    }
    blocks
}
