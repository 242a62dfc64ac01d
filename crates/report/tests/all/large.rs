//! Reports of many cases: their time grows with the cases.

use report::{Run, format};
use serde_json::json;

use crate::{many, skip};

/// A run with so many configurations of one operation, of two backends, each measured at one size.
fn scattered(configurations: usize) -> Run {
    let mut run = many::run(configurations);
    for (index, case) in run.cases.iter_mut().enumerate() {
        case.benchmark = "collective".to_owned();
        case.backend = ["shm", "mpi"][index % 2].to_owned();
        for (name, value) in [("op", json!("all_reduce")), ("in_flight", json!(index / 2))] {
            case.parameters.insert(name.to_owned(), value);
        }
    }
    run
}

/// A run with so many configurations of training: models, batches, seeds and ranks.
fn trained(configurations: usize) -> Run {
    let mut run = many::run(50 * configurations);
    run.cases.retain(|case| case.benchmark == "training");
    assert_eq!(run.cases.len(), configurations);
    run
}

/// Processor time of this thread, which other processes do not change, in nanoseconds.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn cost(run: &Run) -> u64 {
    let begin = processor_ns();
    for name in ["markdown", "csv"] {
        assert!(!format(name).unwrap().render(run).unwrap().is_empty());
    }
    processor_ns() - begin
}

#[test]
fn time_grows_with_configurations_and_not_with_their_square() {
    for (what, make) in [("calls", scattered as fn(usize) -> Run), ("training", trained)] {
        // Also draws what is drawn once for all.
        let size = if skip::heavy("a report of thousands of configurations") { 500 } else { 100 };
        let few = cost(&make(size)).min(cost(&make(size)));
        let many = cost(&make(8 * size));
        assert!(many < 24 * few, "{what}: 8 times as many configurations take {many} ns instead of {few} ns");
    }
}

#[test]
fn a_page_has_sections_of_a_thousand_operations_and_says_so() {
    let mut run = many::run(1_003);
    for (index, case) in run.cases.iter_mut().enumerate() {
        case.benchmark = "collective".to_owned();
        case.parameters.insert("op".to_owned(), json!(format!("op_{index}")));
    }
    let page = |run: &Run| String::from_utf8(format("html").unwrap().render(run).unwrap().remove(0).content).unwrap();
    let whole = page(&run);
    let said = "3 of 1,003 operations have no section on this page: <code>cases.csv</code> has all cases.";
    assert_eq!((whole.matches("<section id=\"section-op_").count(), whole.matches(said).count()), (1_000, 1));
    run.cases.truncate(1_000);
    assert!(!page(&run).contains("have no section on this page"));
}

#[test]
fn a_picture_names_a_few_of_many_backends_and_counts_the_rest() {
    let mut run = many::run(60);
    for (index, case) in run.cases.iter_mut().enumerate() {
        case.benchmark = "collective".to_owned();
        case.backend = format!("backend_{}", index % 20);
        let backend = case.backend.clone();
        for (name, value) in
            [("op", json!("all_reduce")), ("backend", json!(backend)), ("bytes", json!(1024 << (index / 20)))]
        {
            case.parameters.insert(name.to_owned(), value);
        }
        case.bytes = Some(1024 << (index / 20));
    }
    let files = format("svg").unwrap().render(&run).unwrap();
    let time = files.iter().find(|file| file.path.to_string().ends_with("all_reduce-time.svg")).unwrap();
    let text = String::from_utf8(time.content.clone()).unwrap();
    assert!(text.contains("4 more backends: all are in cases.csv"), "{text}");
    assert_eq!(text.matches("version not recorded").count(), 16);
}
