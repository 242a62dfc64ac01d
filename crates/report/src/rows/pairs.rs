//! Cases of two sides that are measured interleaved: the ratio of each while it becomes known, and what is said around the table.

use diagnose::Verdict;
use record::{Case, CaseLine, ComparedCase, Interleaved, RunFile, Side};
use terms::Status;
use view::terminal::{Cell, Column, Row, Style, Table, hanging};
use view::{Compared, number};

use crate::words::interleaved::{compared_labels, compared_sentences};

/// The latest of each case, in the plan's order.
pub struct PairRows {
    threshold: f64,
    labels: Vec<String>,
    rows: Vec<Option<Compared>>,
}

/// A compared case as the record keeps it. A change within `threshold` is none.
pub fn compared_case(sides: &[Case; 2], compared: &Compared, threshold: f64) -> ComparedCase {
    compared.kept(sides, threshold, |ends| Verdict::from_interval(ends, threshold).to_string())
}

/// The lines of what is compared, and by which rule, in so many columns.
pub fn side_lines(file: &RunFile, cases: usize, width: usize) -> Vec<String> {
    let Interleaved { sides, threshold, .. } = file.interleaved.clone().unwrap_or_default();
    let named = ["side A   ", "side B   "].into_iter().zip(&sides);
    let mut lines: Vec<String> = named.map(|(name, side)| hanging(name, &words_of(side), width)).collect();
    let family = match cases {
        1 => String::new(),
        cases => format!("of all {cases} cases and "),
    };
    let rule = format!(
        "a change within {} counts as none; with 95% confidence all intervals {family}of every look hold",
        terms::Ratio(threshold),
    );
    lines.push(hanging("rule     ", &rule, width));
    lines
}

/// What a side is.
fn words_of(side: &Side) -> String {
    let mut text = side.plan.clone();
    if !side.set.is_empty() {
        text += &format!(" with {}", side.set.join(", "));
    }
    if let (Some(program), Some(version)) = (&side.program, &side.version) {
        text += &format!(", ranks of {program} (rankmark {version})");
    }
    text
}

impl PairRows {
    /// No rows yet of these cases, in which a change within `threshold` is none.
    pub fn new(threshold: f64, cases: &[&Case]) -> Self {
        Self { threshold, labels: compared_labels(cases), rows: vec![None; cases.len()] }
    }

    /// What each case is called, in the order of the cases.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Takes in what is known of a case now.
    pub fn put(&mut self, index: usize, compared: &Compared) {
        self.rows[index] = Some(compared.clone());
    }

    /// What is visited: case `index`, `number` of `total` in this pair; pairs count from 0.
    pub fn visited(&self, index: usize, (number, total): (usize, usize), pair: u32) -> String {
        let open = self.rows.len() - self.rows.iter().flatten().filter(|row| row.closed).count();
        let most = self.rows[index].as_ref().map_or(String::new(), |row| format!(" of at most {}", row.most));
        format!("pair {}{most}: {number}/{total}   {}   {open} open", pair + 1, self.labels[index])
    }

    /// The table so far in so many columns.
    pub fn table(&self, width: usize) -> Vec<String> {
        let known = self.rows.iter().zip(&self.labels).filter_map(|(row, label)| Some((label, row.as_ref()?)));
        let mut table = Table::new([
            Column::left("case").wraps(34, 12),
            Column::right("A"),
            Column::right("B"),
            Column::right("B/A"),
            Column::right("95%"),
            Column::right("pairs").gives_way(1),
            Column::right("smallest").gives_way(2),
            Column::right("wrong"),
            Column::left("verdict"),
        ]);
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

    /// What the comparison says in words, in so many columns.
    pub fn sentences(&self, cases: &[ComparedCase], width: usize) -> Vec<String> {
        let said = compared_sentences(cases, &self.labels, self.threshold);
        said.iter().map(|sentence| hanging("* ", sentence, width)).collect()
    }

    /// Cases that ended otherwise than by a decision, each reason once; and gates that were missed. A case that is ok and ended
    /// early is not an error: it is left out where only those are wanted.
    pub fn unwell(&self, compared: &[Compared], only_errors: bool, width: usize) -> Vec<String> {
        let mut groups: Vec<(Status, String, &str, usize)> = Vec::new();
        let mut missed: Vec<String> = Vec::new();
        for (one, label) in compared.iter().zip(&self.labels) {
            let status = one.status();
            let own = one.lines.iter().find(|line| line.status == status).and_then(|line| line.reason.clone());
            let reason = one.reason.clone().or(own.filter(|_| status != Status::Ok));
            if let Some(reason) = reason.filter(|_| status != Status::Ok || !only_errors) {
                match groups.iter_mut().find(|(of, known, ..)| *of == status && *known == reason) {
                    Some((.., more)) => *more += 1,
                    None => groups.push((status, reason, label, 0)),
                }
            }
            for (side, line) in ["A", "B"].into_iter().zip(&one.lines).filter(|(_, line)| !line.gates_missed.is_empty())
            {
                let gates = line.gates_missed.join("; ");
                missed.push(hanging("gate missed  ", &format!("{label}, side {side}: {gates}"), width));
            }
        }
        let line = |(status, reason, label, more): (Status, String, &str, usize)| {
            let word = if status == Status::Ok { "ended".to_owned() } else { status.to_string() };
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            hanging(&format!("{word}  "), &format!("{label}{more}: {reason}"), width)
        };
        groups.into_iter().map(line).chain(missed).collect()
    }
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
