//! Inputs that were once interesting, kept in `fuzz/regressions/<target>/` and replayed here: no panic, and no hang.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use record::store::{read_case_lines, read_run_file};
use record::{plan, to_json};

use crate::table::{TABLE, pairs};

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut found: Vec<_> =
        entries.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    found.sort();
    assert!(!found.is_empty(), "{} is empty", directory.display());
    found
}

#[test]
fn plans() {
    let mut taken = 0;
    for (path, bytes) in corpus("plan") {
        let text = String::from_utf8_lossy(&bytes);
        match plan::read(&text, "p.yaml", &TABLE, &pairs(&[("seed", &text)])) {
            Ok(plan) => assert!(!plan.cases.is_empty(), "{}", path.display()),
            Err(errors) => {
                assert!(!errors.errors.is_empty(), "{}", path.display());
                let shown = errors.to_string();
                assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{}: {shown:?}", path.display());
            }
        }
        taken += usize::from(plan::read(&text, "p.yaml", &TABLE, &[]).is_ok());
    }
    assert!(taken > 0, "no plan of the corpus is taken: it says nothing about what follows reading");
}

#[test]
fn records() {
    let mut taken = 0;
    for (_, bytes) in corpus("record") {
        taken += usize::from(read_run_file(&bytes, "run.json").is_ok());
        if let Ok(found) = read_case_lines(BufReader::new(bytes.as_slice()), "cases.jsonl") {
            taken += found.lines.len();
            for line in found.lines {
                // What was read can be written and reads back the same.
                let again = to_json(&line).unwrap();
                assert_eq!(serde_json::from_str::<record::CaseLine>(&again).unwrap(), line);
            }
        }
    }
    assert!(taken > 1, "neither a run file nor a line of the corpus is taken");
}
