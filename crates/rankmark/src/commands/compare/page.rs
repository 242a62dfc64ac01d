//! A comparison for the page about several records: as the terminal says it, as data.

use diagnose::Verdict;
use diagnose::compare::{Compared, Comparison, Settings, compare};
use record::{Record, read_run};
use report::{AgainstBase, CaseAgainstBase, Differing};
use terms::Named as _;
use view::number::count;

use std::path::PathBuf;

use super::label::Labels;
use super::side::Side;
use super::sources::Source;
use super::text::{self, changed};
use crate::Failure;
use crate::options::Gate;

/// What the comparison of each other record with the first says.
///
/// # Errors
/// Where one cannot be read.
pub(in crate::commands) fn against_first(directories: &[PathBuf], gate: &Gate) -> Result<Vec<AgainstBase>, Failure> {
    // What is damaged was said when the report of each was read.
    let mut sources = directories.iter().map(|directory| {
        Ok::<_, Failure>(Source { name: directory.display().to_string(), records: vec![read_run(directory)?] })
    });
    let Some(base) = sources.next() else { return Ok(Vec::new()) };
    let (mut base, mut others) = (base?, sources.collect::<Result<Vec<_>, _>>()?);
    base.meet(&mut others);
    let settings = Settings { threshold: gate.threshold, history: Vec::new() };
    let records: Vec<&Record> = base.records.iter().collect();
    let side = |other: &Source| {
        let comparison = compare(&records, other.latest(), &settings);
        against(&base, other.latest(), &Side { name: other.name.clone(), comparison })
    };
    Ok(others.iter().map(side).collect())
}

fn against(base: &Source, new: &Record, side: &Side) -> AgainstBase {
    let comparison = &side.comparison;
    let labels = Labels::new(base.latest(), comparison);
    let lone = [&comparison.only_base, &comparison.only_new]
        .map(|cases| cases.iter().map(|case| labels.line(case.line)).collect::<Vec<_>>());
    let differences = comparison.differences.iter().map(|difference| Differing {
        topic: difference.topic.name().to_owned(),
        name: difference.name.clone(),
        base: difference.base.clone(),
        new: difference.new.clone(),
    });
    let alike = labels.alike().into_iter().map(|change| Differing {
        topic: "all cases".to_owned(),
        name: change.name,
        base: Some(change.base),
        new: Some(change.new),
    });
    let has_something = comparison.has_something();
    AgainstBase {
        verdict: comparison.verdict().map_or_else(String::new, |verdict| verdict.name().to_owned()),
        sentence: if has_something { text::sentence(side, &labels) } else { nothing(comparison) },
        largest: largest(comparison, &labels).unwrap_or_default(),
        warnings: text::warning_lines(comparison),
        cases: comparison.cases.iter().map(|case| of_case(case, &labels)).collect(),
        notes: if has_something { text::basis(comparison) } else { Vec::new() },
        lone,
        lines: [base.latest().cases.clone(), new.cases.clone()],
        differences: alike.chain(differences).collect(),
    }
}

/// Why nothing can be compared.
fn nothing(comparison: &Comparison) -> String {
    match comparison.cases.len() {
        0 => format!(
            "no case of the base ({}) measures the same workload in the same world as one of the other ({})",
            count(comparison.only_base.len(), "case", "cases"),
            count(comparison.only_new.len(), "case", "cases"),
        ),
        both => format!("of {}, none is ok in the base", count(both, "common case", "common cases")),
    }
}

/// The largest change that was shown, with its interval; where none was, the largest that was seen.
fn largest(comparison: &Comparison, labels: &Labels) -> Option<String> {
    let shown = |case: &&Compared| matches!(case.verdict, Some(Verdict::Worse | Verdict::Better));
    let size = |case: &&Compared| case.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let largest = |cases: &mut dyn Iterator<Item = &Compared>| -> Option<String> {
        let case = cases.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let change = changed(case.ratio?);
        let ends =
            case.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", changed(low), changed(high)));
        Some(format!("{}: {change}{ends}", labels.label(case)))
    };
    let ratios = || comparison.cases.iter().filter(|case| case.ratio.is_some());
    if let Some(change) = largest(&mut ratios().filter(shown)) {
        return Some(format!("Largest change: {change}."));
    }
    let seen = largest(&mut ratios())?;
    Some(format!("No change was shown. The largest difference is that of {seen}."))
}

fn of_case(case: &Compared, labels: &Labels) -> CaseAgainstBase {
    CaseAgainstBase {
        id: case.base.id.clone(),
        label: labels.label(case),
        values: text::values(case),
        ratio: case.ratio,
        interval: case.interval,
        extrapolated: case.extrapolated && case.interval.is_some(),
        verdict: text::word(case.verdict).0.to_owned(),
    }
}
