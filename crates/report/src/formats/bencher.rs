//! `bencher.json`: times and rates of each case in Bencher's own format (BMF), for its adapter `json`.
//!
//! <https://bencher.dev/docs/reference/bencher-metric-format/>. Bencher follows a benchmark by its name, so a name holds only
//! what the case is and its identity, and nothing that depends on the other cases of the run.

use std::collections::HashMap;

use record::{CaseCounts, Caveat, Declared, Shape};
use serde_json::{Map, Value, json};
use terms::Named as _;

use crate::escape::one_line;
use crate::study::{self, Estimate, Measured};
use crate::{Artifact, Error, Format, Run, words::names};

/// The measured cases of a run as benchmarks with measures.
#[derive(Debug)]
pub(crate) struct Bencher;

/// Cases of these are not plain measurements of this machine: each is a benchmark of its own, which cannot continue the
/// series of a measured one.
const MARKS: [Caveat; 5] = [Caveat::Emulated, Caveat::Paced, Caveat::ComputeAsleep, Caveat::Injected, Caveat::Imported];

/// Bencher's measure of a time, in nanoseconds.
const LATENCY: &str = "latency";

impl Format for Bencher {
    fn about(&self) -> (&'static str, &'static str) {
        ("bencher", "bencher.json: times and rates with their intervals, for Bencher's adapter `json`")
    }

    fn by_default(&self) -> bool {
        false
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        let mut benchmarks = Map::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for case in run.cases.iter().filter_map(Measured::from_case) {
            let mut name = name(&case);
            // Lines of a merged record may share an identity.
            let number = seen.entry(name.clone()).or_default();
            *number += 1;
            if *number > 1 {
                name += &format!(" #{number}");
            }
            let declared = study::declaration(&run.benchmarks, &case.case.benchmark);
            benchmarks.insert(name, measures(&case, declared));
        }
        benchmarks.extend(incomplete(run));
        let text = format!("{:#}\n", Value::Object(benchmarks));
        Ok(vec![Artifact::new("bencher.json", text.into_bytes())])
    }
}

/// A benchmark of the run itself, which only an incomplete run has: how it ended, and how many cases lack results. Bencher's
/// format has no place for words but names.
fn incomplete(run: &Run) -> Option<(String, Value)> {
    let counts = CaseCounts::of(&run.cases);
    let why = run.end.phrase()?;
    let missing = (counts.not_run + counts.lacking) as f64;
    Some((one_line(&format!("INCOMPLETE RUN: {why}")), json!({ "missing_cases": { "value": missing } })))
}

/// `all_reduce 64 KiB, 2 ranks, shm (id 0123)`, behind what the case is marked with.
fn name(case: &Measured) -> String {
    let simulated = case.case.simulated.then_some(Caveat::Simulated);
    let marks = simulated.into_iter().chain(MARKS.into_iter().filter(|mark| case.has(*mark)));
    let marks: String = marks.map(|mark| format!("{}: ", mark.name())).collect();
    one_line(&format!("{marks}{}", names::described(case.case)))
}

/// The time, the rates, what has an interval of its own, and what the benchmark declares as its headline.
fn measures(case: &Measured, declared: Option<&Declared>) -> Value {
    let mut measures = Map::new();
    measures.insert(LATENCY.to_owned(), measure(case.time, 1e9));
    for metric in declared.iter().flat_map(|declared| &declared.metrics) {
        let headline = declared.is_some_and(|declared| declared.show.headline.contains(&metric.name));
        if matches!(metric.shape, Shape::Rate | Shape::Interval) || headline && metric.shape.is_number() {
            let estimate = case.estimate(&metric.name, "", declared).filter(|estimate| estimate.mid.is_finite());
            measures.extend(estimate.map(|estimate| (metric.name.clone(), measure(estimate, 1.0))));
        }
    }
    Value::Object(measures)
}

fn measure(estimate: Estimate, factor: f64) -> Value {
    let mut measure = json!({ "value": estimate.mid * factor });
    if estimate.known {
        measure["lower_value"] = json!(estimate.low * factor);
        measure["upper_value"] = json!(estimate.high * factor);
    }
    measure
}
