//! The promises of the five documents that describe other suites: one test each, named in docs/promises.md. Sizes are reduced
//! to what any machine holds.

mod allreduce_study;
mod candle;
mod ddlb;
mod distributed_training;
mod torchscale;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::place::Place;

/// A file of another tool, as its documentation has it.
fn sample(path: &str) -> String {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../import/tests/samples", path].iter().collect();
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A place with such a file in it.
fn with(name: &str, path: &str) -> Place {
    let place = Place::new();
    place.write(name, sample(path));
    place
}

/// Options that make the training of a transformer small.
const TINY: &str = "--set layers=4 --set width=16 --set heads=2 --set vocabulary=64 --set sequence=8 --set batch=4 --steps 2 --trials 1";

/// Share of the cases of a record that are ok; every other one has its reason.
fn ok_share(place: &Place, record: &str) -> f64 {
    let cases = place.cases(record);
    let ok = cases.iter().filter(|case| case["status"] == "ok").count();
    for case in cases.iter().filter(|case| case["status"] != "ok") {
        assert_eq!(case["status"], "skipped", "{case}");
        assert!(!crate::place::reason(case).is_empty());
    }
    ok as f64 / cases.len() as f64
}

/// Names of the tests of this folder: `candle::...`.
fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/promises");
    let mut found = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[test]" && module != "mod") {
            let name = pair[1].trim_start_matches("fn ").split('(').next().unwrap();
            found.insert(format!("{module}::{name}"));
        }
    }
    found
}

#[test]
fn the_table_of_promises_names_every_test_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/promises.md");
    let table = fs::read_to_string(path).unwrap();
    let rows =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise") && !line.contains("---"));
    let mut named = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "promise, command, test: {row}");
        // A promise has a test, or says what it needs first, or why nothing is done for it.
        if ["waits for ", "not done: "].iter().any(|words| cells[2].starts_with(words)) {
            continue;
        }
        let tests: Vec<&str> = cells[2].split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{row}");
        named.extend(tests.into_iter().map(str::to_owned));
    }
    let there = tests();
    assert!(there.len() > 20, "{there:?}");
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "named in the table, and no test");
    assert_eq!(there.difference(&named).collect::<Vec<_>>(), Vec::<&String>::new(), "tests that the table lacks");
}
