//! Which cases are compared with each other.

use diagnose::compare::{Comparison, Lone, Settings, compare};
use diagnose::history::{Run, histories};
use record::{CaseLine, Record};
use serde_json::{Value, json};

/// A record of cases with these parameters, of a benchmark that declares their roles.
fn record(parameters: &[Value]) -> Record {
    let mut record = crate::simulation::record_of(&vec![vec![1.0; 6]; parameters.len()], 0);
    let field = |name: &str, role: &str| json!({"name": name, "kind": "text", "doc": "", "role": role});
    let mut declared = json!({"name": "simulated", "doc": "", "metrics": [], "fields": [
        field("op", "workload"), field("ranks", "world"), field("backend", "launch"), field("buffers", "implementation"),
        field("cold_bytes", "sampling"),
    ]});
    if parameters.iter().any(|parameters| parameters.get("added").is_some()) {
        declared["fields"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "added", "kind": "bool", "doc": "", "role": "workload", "default": "false"}));
    }
    record.file.benchmarks = vec![serde_json::from_value(declared).unwrap()];
    for (line, parameters) in record.cases.iter_mut().zip(parameters) {
        line.parameters = parameters.as_object().unwrap().clone().into();
        line.id = format!("{parameters}");
    }
    record
}

fn compared(base: &[Value], new: &[Value], look: impl FnOnce(&Comparison)) {
    let (base, new) = (record(base), record(new));
    look(&compare(&[&base], &new, &Settings { threshold: 0.03, history: Vec::new() }));
}

fn op(line: &CaseLine) -> &str {
    line.parameters["op"].as_str().unwrap()
}

#[test]
fn sampling_and_new_fields_at_their_default_do_not_part_cases() {
    let base = [json!({"op": "a", "ranks": 2, "backend": "shm"}), json!({"op": "b", "ranks": 2, "backend": "shm"})];
    let new = [
        json!({"op": "b", "ranks": 2, "backend": "shm", "cold_bytes": 7}),
        json!({"op": "a", "ranks": 2, "backend": "shm", "added": false}),
    ];
    compared(&base, &new, |comparison| {
        assert_eq!((comparison.cases.len(), comparison.only_base.len(), comparison.only_new.len()), (2, 0, 0));
        for case in &comparison.cases {
            assert_eq!(op(case.base), op(case.new));
        }
        let changes: usize =
            comparison.cases.iter().filter(|case| op(case.base) == "b").map(|case| case.changes.len()).sum();
        assert_eq!(changes, 0, "how it was sampled is not a change of the case");
    });
    // Of two implementations, the parameters other than those of sampling say which is which.
    let shm = json!({"op": "a", "ranks": 2, "backend": "shm"});
    let several = |sampling: u32| {
        ["mpi", "shm"].map(|backend| json!({"op": "a", "ranks": 2, "backend": backend, "cold_bytes": sampling}))
    };
    compared(&several(1), &several(2), |comparison| {
        assert_eq!((comparison.cases.len(), comparison.only_base.len()), (2, 0));
        assert!(comparison.cases.iter().all(|case| case.base.parameters["backend"] == case.new.parameters["backend"]));
    });
    compared(&several(1), &[shm], |comparison| {
        assert_eq!((comparison.cases.len(), comparison.only_base.len()), (1, 1));
        assert_eq!(comparison.cases[0].base.parameters["backend"], "shm");
    });
    // Another value of a new field is another case.
    compared(&base[..1], &[json!({"op": "a", "ranks": 2, "backend": "shm", "added": true})], |comparison| {
        assert_eq!((comparison.cases.len(), comparison.only_new.len()), (0, 1));
    });
}

#[test]
fn a_renamed_field_does_not_part_cases() {
    // The later version says which name the field had.
    let renamed = |parameters: &[Value]| {
        let mut later = record(parameters);
        let field = later.file.benchmarks[0].fields.iter_mut().find(|field| field.name == "buffers").unwrap();
        (field.name, field.was) = ("memory".to_owned(), vec!["buffers".to_owned()]);
        later
    };
    let old = |buffers: &str| json!({"op": "a", "ranks": 2, "backend": "shm", "buffers": buffers});
    let new = |memory: &str| json!({"op": "a", "ranks": 2, "backend": "shm", "memory": memory});
    let settings = Settings { threshold: 0.03, history: Vec::new() };
    let [before, after] = [record(&[old("x"), old("y")]), renamed(&[new("y"), new("x")])];
    for [base, latest] in [[&before, &after], [&after, &before]] {
        let comparison = compare(&[base], latest, &settings);
        assert_eq!((comparison.cases.len(), comparison.only_base.len(), comparison.only_new.len()), (2, 0, 0));
        let value = |line: &CaseLine| line.parameters.iter().last().unwrap().1.clone();
        assert!(comparison.cases.iter().all(|case| value(case.base) == value(case.new) && case.changes.is_empty()));
    }
    // One series of each case, though the runs have other names.
    let mut latest = after.clone();
    latest.file.started = "2026-11-30T10:00:00Z".to_owned();
    let runs = [&before, &latest].map(|record| Run::of(&record.file.started, record, false).unwrap());
    let found = histories(runs.to_vec()).remove(0);
    assert_eq!(found.series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [2, 2]);
    // Of two implementations, the value that differs.
    let [before, after] = [record(&[old("x")]), renamed(&[new("y")])];
    let comparison = compare(&[&before], &after, &settings);
    let [only] = comparison.cases.as_slice() else { panic!("{comparison:?}") };
    let [change] = only.changes.as_slice() else { panic!("{only:?}") };
    let values = [&change.base, &change.new].map(|value| value.as_ref().and_then(Value::as_str));
    assert_eq!((change.field.as_str(), values), ("buffers", [Some("x"), Some("y")]));
}

#[test]
fn single_implementations_of_one_workload_are_compared_and_several_are_not() {
    let case = |backend: &str, buffers: &str| json!({"op": "a", "ranks": 2, "backend": backend, "buffers": buffers});
    compared(&[case("shm", "x")], &[case("mpi", "x")], |comparison| {
        let [only] = comparison.cases.as_slice() else { panic!("{comparison:?}") };
        let changes: Vec<&str> = only.changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(changes, ["backend"]);
    });
    compared(&[case("shm", "x")], &[case("mpi", "x"), case("mpi", "y")], |comparison| {
        assert!(comparison.cases.is_empty() && !comparison.has_something());
        let Lone::Several(fields) = &comparison.only_base[0].why else { panic!("{comparison:?}") };
        assert_eq!(fields, &["backend", "buffers"]);
    });
    let other = json!({"op": "a", "ranks": 4, "backend": "shm"});
    compared(&[case("shm", "x")], &[other], |comparison| {
        assert_eq!(comparison.only_base[0].why, Lone::NothingAlike);
        assert_eq!(comparison.only_new[0].why, Lone::NothingAlike);
    });
}
