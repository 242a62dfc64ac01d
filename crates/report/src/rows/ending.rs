//! What is said below the table of a run that has ended.

use std::collections::{HashMap, HashSet};

use record::{CaseLine, Caveat};
use terms::Status;
use view::terminal::{hanging, wrap};

use super::Rows;
use crate::Run;
use crate::caveats::Wording;

/// Findings at the end: the report has them all.
const FINDINGS: usize = 3;

impl Rows {
    /// What a run that has ended says, and its rows: in columns for tables, for sentences, and for lines that programs look for.
    /// `in_full`: with what each caveat means.
    pub fn ended(&mut self, run: &Run, in_full: bool, (table, text, line): (usize, usize, usize)) -> Vec<String> {
        let below = |words: String| [String::new(), words];
        let banner = crate::end_banner(run);
        // Of a run that was ended the banner says it.
        let verdict = (!run.cases.is_empty() && banner.is_none()).then(|| crate::verdict_sentence(run));
        let verdict = verdict.map(|verdict| below(hanging("verdict  ", &verdict, line)));
        let mut lines: Vec<String> = verdict.into_iter().flatten().collect();
        lines.extend(self.table_of(&run.cases, table, text));
        lines.extend(banner.into_iter().flat_map(|banner| below(wrap(&banner, text))));
        if in_full {
            lines.extend(caveats_in_full(&all_caveats(run.cases.iter()), run.wording, line));
        }
        let said = [crate::interval_claim(run), crate::refused_limits(run)].into_iter().flatten();
        lines.extend(said.flat_map(|said| below(wrap(&said, text))));
        lines.extend(matrices(run, text));
        lines.extend(findings(run, text));
        lines
    }
}

/// Matrices that fit into so many columns, each below an empty line.
fn matrices(run: &Run, width: usize) -> Vec<String> {
    let mut said = Vec::new();
    for operation in view::study::operations(&run.cases, &run.benchmarks) {
        for chart in view::declared_charts(&operation) {
            let lines = view::matrix_lines(&chart.spec, width);
            said.extend((!lines.is_empty()).then(String::new));
            said.extend(lines);
        }
    }
    said
}

/// The most important sentences of the report, what a job's step costs, whether results are the same bits, and every expected
/// figure.
fn findings(run: &Run, width: usize) -> Vec<String> {
    let expected = [crate::traffic(run), crate::reproducible(run), crate::expected(run)].concat();
    let mut sentences = crate::sentences(run);
    sentences.retain(|sentence| !expected.contains(sentence));
    let runtimes = crate::runtimes(run);
    if sentences.is_empty() && expected.is_empty() && runtimes.is_empty() {
        return Vec::new();
    }
    let item = |sentence: &String| hanging("* ", sentence, width);
    let mut said = vec![String::new()];
    said.extend(runtimes.iter().take(FINDINGS).chain(sentences.iter().take(FINDINGS)).map(item));
    if let Some(more) = sentences.len().checked_sub(FINDINGS).filter(|more| *more > 0) {
        said.push(format!("  ({more} more in the report)"));
    }
    said.extend(expected.iter().map(item));
    said
}

/// Each caveat of these lines once.
pub fn all_caveats<'c>(lines: impl Iterator<Item = &'c CaseLine>) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = lines.flat_map(|line| line.caveats.iter().copied()).collect();
    let mut seen = HashSet::new();
    caveats.retain(|caveat| seen.insert(*caveat));
    caveats
}

/// Each of these caveats in full.
pub fn caveats_in_full(caveats: &[Caveat], wording: Wording, width: usize) -> Vec<String> {
    let full = |caveat: &Caveat| format!("{}: {}", wording.words(*caveat), wording.explanation(*caveat));
    caveats.iter().map(|caveat| hanging("    ", &full(caveat), width)).collect()
}

/// Cases that gave no number, and gates that were missed.
pub struct Unwell {
    /// What is said of them; empty where all is well.
    pub faults: Vec<String>,
    /// The command that runs just these cases.
    pub again: Option<String>,
}

/// What was not well in a run.
pub fn unwell(run: &Run, width: usize) -> Unwell {
    let unwell: Vec<&CaseLine> = run.cases.iter().filter(|line| line.status != Status::Ok).collect();
    let mut faults: Vec<String> = Vec::new();
    for (lines, reason) in by_reason(&unwell) {
        let more = if lines.len() > 1 { format!(" and {} more", lines.len() - 1) } else { String::new() };
        let text = view::one_line(&format!("{}{more}: {reason}", label(lines[0])));
        faults.push(hanging(&format!("{}  ", lines[0].status), &text, width));
    }
    for line in run.cases.iter().filter(|line| !line.gates_missed.is_empty()) {
        let missed = view::one_line(&format!("{}: {}", label(line), line.gates_missed.join("; ")));
        faults.push(hanging("gate missed  ", &missed, width));
    }
    if unwell.is_empty() {
        return Unwell { faults, again: None };
    }
    faults.push(format!("{} ok, {}", run.cases.len() - unwell.len(), counts(&unwell)));
    Unwell { faults, again: run.again(&unwell) }
}

/// What a case is of: its first parameter, where that is a word (the operation, the model).
fn first_word(parameters: &record::SharedMap) -> Option<&str> {
    parameters.values().next()?.as_str()
}

/// A case in a few words.
pub fn label(line: &CaseLine) -> String {
    let op = first_word(&line.parameters).unwrap_or(&line.benchmark);
    view::one_line(&view::study::named(op, line.bytes, line.ranks, &view::study::backend(line)))
}

/// Cases of one status and one reason together, in the order of their first. Which ranks found a reason makes no other reason.
fn by_reason<'c>(lines: &[&'c CaseLine]) -> Vec<(Vec<&'c CaseLine>, &'c str)> {
    let mut places: HashMap<(Status, &str), usize> = HashMap::new();
    let mut groups: Vec<(Vec<&CaseLine>, &str)> = Vec::new();
    for line in lines {
        let reason = line.reason.as_deref().unwrap_or("no reason");
        let common = if line.status == Status::Skipped { without_ranks(reason) } else { reason };
        let place = *places.entry((line.status, common)).or_insert(groups.len());
        match groups.get_mut(place) {
            None => groups.push((vec![line], reason)),
            Some((members, shown)) => {
                members.push(line);
                if *shown != reason {
                    *shown = common;
                }
            }
        }
    }
    groups
}

/// A reason without the ranks that it begins with: `rank 0: `, `ranks 0, 1: `, `ranks 0-7: `.
fn without_ranks(reason: &str) -> &str {
    let is_list = |ranks: &str| ranks.chars().all(|letter| letter.is_ascii_digit() || ", -".contains(letter));
    let rest =
        reason.strip_prefix("ranks ").or_else(|| reason.strip_prefix("rank ")).and_then(|rest| rest.split_once(": "));
    // Of ranks on several hosts, it says on which.
    let ranks_of = |text: &str| text.split(" on ").next().unwrap_or_default().to_owned();
    rest.filter(|(ranks, _)| is_list(&ranks_of(ranks))).map_or(reason, |(_, cause)| cause)
}

fn counts(lines: &[&CaseLine]) -> String {
    let count = |status: Status| lines.iter().filter(|line| line.status == status).count();
    let words = [Status::Failed, Status::Skipped, Status::NotRun];
    let counted = words.iter().map(|status| (count(*status), status)).filter(|(count, _)| *count > 0);
    counted.map(|(count, status)| format!("{count} {status}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_once() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = |status, reason: &str| CaseLine::unmeasured(&case, status, reason);
        let lines = [
            line(Status::Skipped, "no library"),
            line(Status::Failed, "no library"),
            line(Status::Skipped, "no library"),
            line(Status::Skipped, "no memory"),
        ];
        let groups = by_reason(&lines.iter().collect::<Vec<_>>());
        let counts_and_reasons: Vec<(usize, &str)> =
            groups.iter().map(|(lines, reason)| (lines.len(), *reason)).collect();
        assert_eq!(counts_and_reasons, [(2, "no library"), (1, "no library"), (1, "no memory")]);
    }

    #[test]
    fn ranks_that_found_a_reason_make_no_other_reason() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let lines = ["ranks 0-7: no torch", "rank 0: no torch", "ranks 0, 1 on n1, n2: no torch", "rank 0: no GPU"]
            .map(|reason| CaseLine::unmeasured(&case, Status::Skipped, reason));
        let groups = by_reason(&lines.iter().collect::<Vec<_>>());
        let counted: Vec<(usize, &str)> = groups.iter().map(|(lines, reason)| (lines.len(), *reason)).collect();
        assert_eq!(counted, [(3, "no torch"), (1, "rank 0: no GPU")]);
    }
}
