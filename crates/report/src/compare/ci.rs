//! The cases of a comparison as tests for a CI system, and why records cannot be compared.

use diagnose::Verdict;
use diagnose::compare::Comparison;
use record::{ComparedCase, Record};
use terms::{Error, Status};
use view::number::count;
use view::one_line;

use super::{Against, Comparisons, Labels, why};
use crate::formats::junit::{JunitCase, JunitOutcome, junit};

/// The suite of these tests.
const SUITE: &str = "rankmark compare";

/// Refuses records without a case in common: they are not a comparison.
///
/// # Errors
/// Where one of the records has nothing that can be compared with the base.
pub fn nothing_compared(found: &Comparisons<'_>) -> Result<(), Error> {
    let lacks = |side: &&Against<'_>| !side.comparison.has_something();
    let Some(Against { name, comparison, .. }) = found.others.iter().find(lacks) else { return Ok(()) };
    let what = format!("{} and {} have nothing that can be compared", one_line(&found.name), one_line(name));
    Err(match comparison.cases.len() {
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

/// A comparison as JUnit XML, with the records that are incomplete. Those of the base are these.
pub fn comparison_junit(found: &Comparisons<'_>, base: &[Record]) -> String {
    let sides = found.others.as_slice();
    let several = |side: &Against<'_>| if sides.len() > 1 { format!("{}: ", side.name) } else { String::new() };
    let cases: Vec<JunitCase> =
        sides.iter().flat_map(|side| compared_tests(found.base, &several(side), &side.comparison)).collect();
    let of_base = base.iter().filter_map(Record::banner).map(|banner| ("base", &found.name, banner));
    let of_sides = sides
        .iter()
        .flat_map(|side| side.comparison.incomplete[1].iter().map(|banner| ("new", &side.name, banner.clone())));
    let incomplete: Vec<(&str, String)> =
        of_base.chain(of_sides).map(|(side, name, banner)| (side, format!("{name}: {banner}"))).collect();
    junit(SUITE, &incomplete, &cases)
}

/// Cases that were measured interleaved as JUnit XML, and whether their run is incomplete.
pub fn interleaved_junit(
    (cases, labels): (&[ComparedCase], &[String]),
    threshold: f64,
    banner: Option<String>,
) -> String {
    let incomplete: Vec<_> = banner.into_iter().map(|banner| ("run", banner)).collect();
    junit(SUITE, &incomplete, &interleaved_tests(cases, labels, threshold))
}

/// Each case of a comparison with the latest record of a base; `before` stands before the name of each.
fn compared_tests(latest: &Record, before: &str, comparison: &Comparison<'_>) -> Vec<JunitCase> {
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
fn interleaved_tests(cases: &[ComparedCase], labels: &[String], threshold: f64) -> Vec<JunitCase> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_test_cases() {
        let case = |(verdict, ends): (&str, [f64; 2])| ComparedCase {
            benchmark: "collective".to_owned(),
            parameters: serde_json::Map::new(),
            differs: serde_json::Map::new(),
            ids: [String::new(), String::new()],
            status: Status::Ok,
            reason: None,
            time_s: None,
            log_ratios: vec![0.0; 6],
            ratio: None,
            ratio_ci95: Some(ends),
            smallest_change: None,
            looks: vec![6],
            verdict: verdict.to_owned(),
        };
        let all = [("same", [0.99, 1.01]), ("worse", [1.1, 1.2]), ("cannot tell", [0.9, 1.1])].map(case);
        let tests = interleaved_tests(&all, &["a".into(), "b".into(), "c".into()], 0.03);
        let why = "B / A is 1.1000 to 1.2000, with a threshold of 3.0%";
        assert_eq!(tests[0].outcome, JunitOutcome::Passed);
        assert_eq!((tests[1].name.as_str(), &tests[1].outcome), ("b", &JunitOutcome::Failed(format!("worse: {why}"))));
        assert!(
            matches!(&tests[2].outcome, JunitOutcome::Skipped(why) if why.starts_with("cannot tell: B / A is 0.9"))
        );
    }
}
