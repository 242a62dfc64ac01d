//! JUnit XML: the form in which CI systems show tests that passed, failed or were skipped.

use std::collections::{HashMap, HashSet};

use record::{CaseLine, Caveat};
use terms::Status;

use crate::escape::one_line;
use crate::markup::{Junit as Xml, markup, put};
use crate::number::bytes;
use crate::study::{self, operations};
use crate::{Artifact, Error, Format, Run, words::names};

/// The cases of a run as a test suite.
#[derive(Debug)]
pub(crate) struct Junit;

impl Format for Junit {
    fn about(&self) -> (&'static str, &'static str) {
        ("junit", "junit.xml: each case as a test, for CI systems")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let labels = labels(run);
        let cases: Vec<JunitCase> = run.cases.iter().map(|case| of_case(case, &labels)).collect();
        let suite = if run.title.trim().is_empty() { "rankmark" } else { &run.title };
        let properties: Vec<(&str, String)> =
            crate::words::damage::end_banner(run).map(|banner| ("run", banner)).into_iter().collect();
        Ok(vec![Artifact::new("junit.xml", junit(suite, &properties, &cases).into_bytes())])
    }
}

/// What tells the configuration of each case from the others of its operation, by the address of its line: lines of a merged
/// record may share an identity.
fn labels(run: &Run) -> HashMap<*const CaseLine, String> {
    let operations = operations(&run.cases, &run.benchmarks);
    let configurations = operations.iter().flat_map(|operation| &operation.configurations);
    let of = configurations.flat_map(|configuration| {
        configuration.cases.iter().map(move |case| (std::ptr::from_ref(*case), configuration.variant.clone()))
    });
    of.collect()
}

/// `all_reduce 64 KiB, 2 ranks, shm, registered buffers`.
fn name(case: &CaseLine, variant: Option<&String>) -> String {
    let size = case.bytes.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
    let parts = [study::ranks(case.ranks), study::backend(case), variant.cloned().unwrap_or_default()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    one_line(&format!("{}{size}, {}", names::what(case), parts.join(", ")))
}

fn of_case(case: &CaseLine, labels: &HashMap<*const CaseLine, String>) -> JunitCase {
    JunitCase {
        class: case.benchmark.clone(),
        name: name(case, labels.get(&std::ptr::from_ref(case))),
        seconds: case.span_s.filter(|span| span.is_finite() && *span >= 0.0),
        outcome: outcome(case),
    }
}

/// Fails where the case makes the run's exit code 1.
fn outcome(case: &CaseLine) -> JunitOutcome {
    let reason = case.reason.as_deref().map(one_line).filter(|reason| !reason.is_empty());
    let reason = reason.unwrap_or_else(|| "no reason was recorded".to_owned());
    match case.status {
        Status::Skipped => JunitOutcome::Skipped(reason),
        Status::Failed => JunitOutcome::Failed(reason),
        Status::NotRun => JunitOutcome::Failed(format!("not run: {reason}")),
        Status::Ok if !case.gates_missed.is_empty() => {
            JunitOutcome::Failed(one_line(&format!("gate missed: {}", case.gates_missed.join("; "))))
        }
        Status::Ok if case.caveats.contains(&Caveat::Preliminary) => {
            JunitOutcome::Failed(format!("too few trials: {}", Caveat::Preliminary.explanation()))
        }
        Status::Ok => JunitOutcome::Passed,
    }
}

/// One case of a suite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JunitCase {
    /// The group that it is listed under (`collective`).
    pub(crate) class: String,
    /// Name of the case (`all_reduce 64 MiB, 4 ranks, shm`).
    pub(crate) name: String,
    /// Seconds that it took, where they are known.
    pub(crate) seconds: Option<f64>,
    /// How it ended.
    pub(crate) outcome: JunitOutcome,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JunitOutcome {
    /// Fine.
    Passed,
    /// Not fine, with the reason.
    Failed(String),
    /// Not judged, with the reason.
    Skipped(String),
}

/// The XML document of one suite with its properties, each with its name and value.
pub(crate) fn junit(suite: &str, properties: &[(&str, String)], cases: &[JunitCase]) -> String {
    junit_with(suite, properties, cases).into_string()
}

fn junit_with(suite: &str, properties: &[(&str, String)], cases: &[JunitCase]) -> Xml {
    let count = |of: fn(&JunitOutcome) -> bool| cases.iter().filter(|case| of(&case.outcome)).count();
    let times: Vec<Option<u128>> = cases.iter().map(|case| case.seconds.map(nanos)).collect();
    let counts = markup!(
        Tag,
        " tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
        cases.len(),
        count(|outcome| matches!(outcome, JunitOutcome::Failed(_))),
        count(|outcome| matches!(outcome, JunitOutcome::Skipped(_))),
        shown(times.iter().flatten().sum())
    );
    let mut text = markup!(
        Junit,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites{}>\n<testsuite name=\"{}\"{}>\n",
        counts,
        suite,
        counts
    );
    if !properties.is_empty() {
        let one = |(name, value): &(&str, String)| markup!(Junit, "<property name=\"{}\" value=\"{}\"/>", name, value);
        put!(Junit: text, "<properties>{}</properties>\n", properties.iter().map(one).collect::<Xml>());
    }
    for ((case, name), time) in cases.iter().zip(told_apart(cases)).zip(times) {
        let time = time.map(|time| markup!(Tag, " time=\"{}\"", shown(time)));
        let about = markup!(Tag, " classname=\"{}\" name=\"{}\"{}", case.class, name, time);
        match &case.outcome {
            JunitOutcome::Passed => put!(Junit: text, "<testcase{}/>\n", about),
            JunitOutcome::Failed(why) => {
                put!(Junit: text, "<testcase{}><failure message=\"{}\"/></testcase>\n", about, why);
            }
            JunitOutcome::Skipped(why) => {
                put!(Junit: text, "<testcase{}><skipped message=\"{}\"/></testcase>\n", about, why);
            }
        }
    }
    text.literal("</testsuite>\n</testsuites>\n");
    text
}

/// Whole nanoseconds: what is printed adds up exactly.
fn nanos(seconds: f64) -> u128 {
    (seconds * 1e9).round() as u128
}

fn shown(nanos: u128) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Names of which no two are equal within a class: CI systems take equal ones for one test.
fn told_apart(cases: &[JunitCase]) -> Vec<String> {
    let mut taken: HashSet<(&str, String)> =
        cases.iter().map(|case| (case.class.as_str(), case.name.clone())).collect();
    let mut seen: HashMap<(&str, &str), usize> = HashMap::new();
    let mut names = Vec::with_capacity(cases.len());
    for case in cases {
        let number = seen.entry((&case.class, &case.name)).or_default();
        *number += 1;
        let mut name = case.name.clone();
        while *number > 1 {
            name = format!("{} #{number}", case.name);
            // Another case may have that name already.
            if taken.insert((&case.class, name.clone())) {
                break;
            }
            *number += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_counts_its_cases_and_escapes_what_data_say() {
        let case =
            |name: &str, outcome| JunitCase { class: "c".into(), name: name.into(), seconds: Some(0.5), outcome };
        let text = junit(
            "a \"run\"",
            &[],
            &[
                case("<b>&\u{1}", JunitOutcome::Passed),
                case("x", JunitOutcome::Failed("wrong\n\"1\"".into())),
                case("y", JunitOutcome::Skipped("no GPU".into())),
            ],
        );
        let document = roxmltree::Document::parse(&text).unwrap();
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        let of = |name| suite.attribute(name).unwrap();
        assert_eq!([of("name"), of("tests"), of("failures"), of("skipped")], ["a \"run\"", "3", "1", "1"]);
        let names: Vec<_> = suite.children().filter_map(|node| node.attribute("name")).collect();
        assert_eq!(names, ["<b>&\u{fffd}", "x", "y"]);
        let failure = document.descendants().find(|node| node.has_tag_name("failure")).unwrap();
        assert_eq!(failure.attribute("message"), Some("wrong\n\"1\""));
    }
}
