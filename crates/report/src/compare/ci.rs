//! The cases of a comparison as tests for a CI system, and why records cannot be compared.

use diagnose::Verdict;
use diagnose::compare::Comparison;
use record::{ComparedCase, Record};
use terms::{Error, Status};
use view::number::count;
use view::one_line;

use super::{Labels, why};
use crate::formats::junit::{JunitCase, JunitOutcome};

/// Why two records that have these names are not a comparison; None where a case can be compared.
pub fn nothing_compared((base, new): (&str, &str), comparison: &Comparison<'_>) -> Option<Error> {
    if comparison.has_something() {
        return None;
    }
    let what = format!("{} and {} have nothing that can be compared", one_line(base), one_line(new));
    Some(match comparison.cases.len() {
        0 => Error::new(what)
            .cause(format!(
                "no case of the base ({}) has the same workload, ranks and device as a case of the other side ({})",
                count(comparison.only_base.len(), "case", "cases"),
                count(comparison.only_new.len(), "case", "cases"),
            ))
            .hint("cases match by benchmark, workload, ranks and device; `rankmark list fields` shows what each field decides"),
        both => Error::new(what)
            .cause(format!("none of the {} is ok in the base", count(both, "common case", "common cases")))
            .hint("`rankmark report DIR` shows why they failed"),
    })
}

/// Each case of a comparison with the latest record of a base; `before` stands before the name of each.
pub fn compared_tests(latest: &Record, before: &str, comparison: &Comparison<'_>) -> Vec<JunitCase> {
    let labels = Labels::new(latest, comparison);
    let of = |case: &diagnose::compare::Compared| {
        let why = why(case, comparison.threshold);
        let outcome = match case.verdict {
            Some(Verdict::Worse) => JunitOutcome::Failed(format!("worse: {why}")),
            Some(Verdict::CannotTell) => JunitOutcome::Skipped(format!("cannot tell: {why}")),
            None => JunitOutcome::Skipped(why),
            Some(Verdict::Same | Verdict::Better) => JunitOutcome::Passed,
        };
        let seconds = case.values.filter(|_| case.quantity.is_time()).map(|values| values[1]);
        JunitCase {
            class: case.base.benchmark.clone(),
            name: format!("{before}{}", labels.label(case)),
            seconds,
            outcome,
        }
    };
    comparison.cases.iter().map(of).collect()
}

/// Cases that were measured interleaved as tests: worse is a failure. A case that is undecided or did not run is skipped with the reason.
pub fn interleaved_tests(cases: &[ComparedCase], labels: &[String], threshold: f64) -> Vec<JunitCase> {
    let case = |(case, label): (&ComparedCase, &String)| {
        let is = |verdict: Verdict| case.verdict == verdict.to_string();
        let ends = case.ratio_ci95.map_or_else(
            || "without an interval".to_owned(),
            |[low, high]| format!("B / A is {low:.4} to {high:.4}, with a threshold of {:.1}%", 100.0 * threshold),
        );
        let outcome = match case.status {
            Status::Failed => JunitOutcome::Failed(case.reason.clone().unwrap_or_else(|| "failed".to_owned())),
            Status::Skipped | Status::NotRun => JunitOutcome::Skipped(case.reason.clone().unwrap_or_default()),
            Status::Ok if is(Verdict::Worse) => JunitOutcome::Failed(format!("worse: {ends}")),
            Status::Ok if is(Verdict::CannotTell) => JunitOutcome::Skipped(format!("cannot tell: {ends}")),
            Status::Ok => JunitOutcome::Passed,
        };
        let seconds = case.time_s.map(|[_, b]| b);
        JunitCase { class: case.benchmark.clone(), name: label.clone(), seconds, outcome }
    };
    cases.iter().zip(labels).map(case).collect()
}
