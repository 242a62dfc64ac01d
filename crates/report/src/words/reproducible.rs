//! Whether results are the same bits, in sentences: each difference with its first element, and what is the same everywhere.

use record::CaseLine;
use record::found::REPRODUCIBLE;
use record::reproducible::{Comparison, Difference, Reproducible};
use terms::Status;

use crate::Run;
use crate::escape::one_line;
use crate::number::{bytes, count, list, thousands};
use crate::study::{backend, named, section};

/// Differences that have a sentence of their own; the record has all.
const NAMED: usize = 4;

/// A case whose results were compared.
struct ReproducedCase<'r> {
    case: &'r CaseLine,
    what: &'r str,
    found: Reproducible,
}

impl ReproducedCase<'_> {
    /// `all_reduce 1 MiB, 4 ranks, shm`.
    fn name(&self) -> String {
        let name = named(self.what, self.case.bytes, self.case.ranks, &backend(self.case));
        format!("{name}{}", self.simulated())
    }

    fn simulated(&self) -> &'static str {
        if self.case.simulated { " (simulated)" } else { "" }
    }

    fn is_same(&self) -> bool {
        self.found.comparisons().all(|one| one.difference.is_none())
    }

    /// Whether two such cases share a sentence.
    fn is_like(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.case.ranks, backend(one.case), one.case.simulated, one.found.computed);
        self.what == other.what && of(self) == of(other)
    }
}

/// `element 5 is 0.1 and 0.2`. Elements count from 0, and steps from 1.
fn first(difference: &Difference, unit: &str) -> String {
    let from = u64::from(unit == "step");
    let (first, end) = (difference.first.saturating_add(from), difference.end.saturating_add(from));
    let values = &difference.values;
    match values {
        Some([from, to]) => format!("{unit} {} is {from} and {to}", thousands(first)),
        None if end > first + 1 => {
            format!("the first {unit} that differs is one of {} to {}", thousands(first), thousands(end - 1))
        }
        None => format!("the first {unit} that differs is {}", thousands(first)),
    }
}

/// `; 37 elements differ, by at most 3 ulp (2.1e-7)`.
fn size(difference: &Difference, unit: &str) -> String {
    let Some((ulps, relative)) = difference.ulps.zip(difference.relative) else { return String::new() };
    let by = format!("at most {} ulp ({relative:.1e} of the value)", thousands(ulps));
    match difference.different {
        Some(1) => format!("; no other {unit} differs, and this one by {by}"),
        Some(different) => format!("; {} {unit}s differ, by {by}", thousands(different)),
        None => format!("; the first {unit}s differ by {by}"),
    }
}

/// What two results differ in, where that is not a parameter.
fn between(Comparison { varied, from, to, .. }: &Comparison) -> String {
    match varied.as_str() {
        "ranks" | "calls" | "trials" => format!("between {from} and {to}"),
        name => format!("between `{name}` {from} and {to}"),
    }
}

fn differing(of: &ReproducedCase<'_>) -> Vec<String> {
    let unit = of.found.unit.as_str();
    let sentence = |one: &Comparison| {
        let difference = one.difference.as_ref()?;
        let (first, size) = (first(difference, unit), size(difference, unit));
        Some(format!("{}: not the same bits {}: {first}{size}.", of.name(), between(one)))
    };
    of.found.comparisons().filter_map(sentence).collect()
}

/// `1 KiB to 1 MiB`.
fn sizes(cases: &[&ReproducedCase<'_>]) -> String {
    let all: Vec<u64> = cases.iter().filter_map(|one| one.case.bytes).collect();
    match (all.iter().min(), all.iter().max()) {
        (Some(least), Some(most)) if least < most => format!(" {} to {}", bytes(*least), bytes(*most)),
        (Some(one), _) => format!(" {}", bytes(*one)),
        _ => String::new(),
    }
}

/// What cases have in common whose bits are the same in all comparisons.
fn same(cases: &[&ReproducedCase<'_>]) -> String {
    let one = cases[0];
    let what = format!("{}{}", one.what, sizes(cases));
    let name = format!("{}{}", named(&what, None, one.case.ranks, &backend(one.case)), one.simulated());
    let compares = |varied: &str| cases.iter().all(|of| of.found.within.iter().any(|one| one.varied == varied));
    let sum = |of: fn(&Reproducible) -> u64| cases.iter().map(|one| of(&one.found)).sum::<u64>();
    let mut parts = Vec::new();
    if compares("ranks") {
        parts.push("on all ranks".to_owned());
    }
    if compares("calls") {
        parts.push(format!("in {} calls", thousands(sum(|found| found.results))));
    }
    if compares("trials") {
        parts.push(format!("in {} trials", thousands(sum(|found| found.trials))));
    }
    let mut across: Vec<String> = Vec::new();
    for varied in cases.iter().flat_map(|of| &of.found.across).map(|one| format!("`{}`", one.varied)) {
        if !across.contains(&varied) {
            across.push(varied);
        }
    }
    if !across.is_empty() {
        parts.push(format!("with every {}", list(&across)));
    }
    let cases = if cases.len() > 1 { format!(" ({})", count(cases.len(), "case", "cases")) } else { String::new() };
    let result = if one.found.unit == "step" { "the same bits of losses and parameters" } else { "the same bits" };
    format!("{name}{cases}: {result} {}.{}", list(&parts), premise(one))
}

/// Why the same bits say little.
fn premise(one: &ReproducedCase<'_>) -> &'static str {
    match (one.found.computed, one.found.unit.as_str(), one.case.ranks) {
        (false, ..) => " The operation moves or chooses numbers, so rounding cannot change them.",
        (true, "element", 1) => " With one rank, nothing is added up.",
        (true, "element", 2) => " With two ranks, the order of a sum does not matter; with more it may.",
        _ => "",
    }
}

/// A case with what was compared of it; None where nothing was.
fn compared<'r>(run: &'r Run, case: &'r CaseLine) -> Option<ReproducedCase<'r>> {
    let declared = run.benchmarks.iter().find(|declared| declared.name == case.benchmark);
    Some(ReproducedCase { case, what: section(case, declared), found: REPRODUCIBLE.of(case)? })
}

/// What a run says of the bits of its results; empty where none were compared.
pub fn sentences(run: &Run) -> Vec<String> {
    let is_right = |case: &&CaseLine| case.status == Status::Ok && case.wrong.unwrap_or(0) == 0;
    let all: Vec<ReproducedCase<'_>> =
        run.cases.iter().filter(is_right).filter_map(|case| compared(run, case)).collect();
    let mut sentences: Vec<String> = all.iter().flat_map(differing).collect();
    if let Some(more) = sentences.len().checked_sub(NAMED).filter(|more| *more > 0) {
        sentences.truncate(NAMED);
        let more = count(more, "more comparison", "more comparisons");
        sentences.push(format!("{more} found different bits: see `same_bits` of each case in cases.jsonl."));
    }
    let mut groups: Vec<Vec<&ReproducedCase<'_>>> = Vec::new();
    for one in all.iter().filter(|one| one.is_same()) {
        match groups.iter_mut().find(|group| group[0].is_like(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    sentences.extend(groups.iter().map(|group| same(group)));
    sentences.iter().map(|sentence| one_line(sentence)).collect()
}
