//! Identities of cases: those of a release stay, so that its records are compared and resumed.

use record::{Case, SharedMap};
use serde::Deserialize;

/// A plan of all benchmarks.
const PLAN: &str = include_str!("../release-0.1.0/plan.yaml");
/// The cases of the plan as release 0.1.0 wrote them, one JSON object a line.
const CASES: &str = include_str!("../release-0.1.0/cases.jsonl");

#[derive(Deserialize)]
struct ReleasedCase {
    id: String,
    benchmark: String,
    parameters: SharedMap,
}

fn written() -> Vec<ReleasedCase> {
    CASES.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A field that was renamed without `was`, another default, or another form of a value would change one.
#[test]
fn cases_of_release_0_1_0_keep_their_identities() {
    let mut plan = record::plan::read(PLAN, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
    benchmarks::complete(&mut plan);
    let now: Vec<(&str, &str)> = plan.cases.iter().map(|case| (&*case.id, &*case.benchmark)).collect();
    let before = written();
    let before: Vec<(&str, &str)> = before.iter().map(|case| (&*case.id, &*case.benchmark)).collect();
    assert_eq!(now, before);
    for benchmark in benchmarks::abouts() {
        assert!(now.iter().any(|(_, name)| *name == benchmark.name), "{} has no case here", benchmark.name);
    }
}

/// A record of the release has earlier names of fields.
#[test]
fn parameters_of_release_0_1_0_have_the_same_identities() {
    for ReleasedCase { id, benchmark, parameters } in written() {
        let mut case = Case::new(&benchmark, parameters);
        case.identify(benchmarks::benchmark(&benchmark).unwrap().about());
        assert_eq!(case.id, id, "{case:?}");
    }
}
