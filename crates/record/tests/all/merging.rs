//! Records that become one: whose samples it has, and what it does not have.

use std::fs;
use std::path::{Path, PathBuf};

use record::store::{CASES_FILE, RUN_FILE, SAMPLES_FILE};
use record::{CaseSamples, Record, Store, StoreError, merge, read_run, read_samples, write_merged};
use terms::Status;

use crate::store::{line, message, run_file, samples};

/// Writes the cases with these numbers, each with a trial of so many calls.
fn recorded(directory: &Path, cases: &[usize], calls: u64) {
    let run = run_file();
    let mut store = Store::create(directory, &run).unwrap();
    for index in cases {
        let line = line(&run, *index, Status::Ok);
        let trial = CaseSamples { calls, ..samples(&line.id, 0) };
        store.append(&line, &[trial]).unwrap();
    }
}

/// Changes a figure in a line of a file, and not its checksum.
fn damage(directory: &Path, file: &str, number: usize, from: &str, to: &str) {
    let path = directory.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let change = |(at, line): (usize, &str)| if at == number { line.replacen(from, to, 1) } else { line.to_owned() };
    let changed = text.lines().enumerate().map(change).collect::<Vec<String>>().join("\n") + "\n";
    assert_ne!(text, changed, "{from} stands in the line");
    fs::write(&path, changed).unwrap();
}

fn merged(directories: &[PathBuf], target: &Path) -> Result<Record, StoreError> {
    let parts: Vec<(String, Record)> =
        directories.iter().map(|directory| (directory.display().to_string(), read_run(directory).unwrap())).collect();
    let ids: Vec<String> = parts.iter().map(|(_, part)| part.file.id.clone()).collect();
    let mut all = merge(parts).unwrap();
    write_merged(&mut all, (directories, &ids), target)?;
    Ok(all)
}

/// The line of a case is damaged, so another record measured it again: the case has the samples of that record alone.
#[test]
fn samples_are_those_of_the_record_that_has_the_line() {
    let root = tempfile::tempdir().unwrap();
    let [first, again] = ["first", "again"].map(|name| root.path().join(name));
    recorded(&first, &[0, 1], 2);
    recorded(&again, &[1], 7);
    damage(&first, CASES_FILE, 1, "69.9", "69.8");
    let cases = run_file().plan.cases;
    for (name, order) in [("x", [first.clone(), again.clone()]), ("y", [again, first])] {
        let target = root.path().join(name);
        let all = merged(&order, &target).unwrap();
        let mut read = read_samples(&target, &all.file.id).unwrap();
        let mut calls = |index: usize| -> Vec<u64> {
            read.of_case(&cases[index].id).unwrap().iter().map(|trial| trial.calls).collect()
        };
        assert_eq!([calls(0), calls(1)], [[2], [7]], "{name}");
    }
}

#[test]
fn damaged_samples_are_named() {
    let root = tempfile::tempdir().unwrap();
    let [first, other] = ["first", "other"].map(|name| root.path().join(name));
    recorded(&first, &[0, 1], 2);
    recorded(&other, &[2], 2);
    damage(&first, SAMPLES_FILE, 0, "1501", "1502");
    let all = merged(&[first, other], &root.path().join("all")).unwrap();
    let said: Vec<String> = all.damaged.iter().map(ToString::to_string).collect();
    let id = &run_file().plan.cases[0].id;
    assert_eq!(said, [format!("samples.jsonl:1 (case {id}): its checksum does not match")]);
}

/// A record with half of the samples would be taken for a whole one.
#[test]
fn samples_that_cannot_be_read_leave_no_half_record() {
    let root = tempfile::tempdir().unwrap();
    let [first, other, target] = ["first", "other", "all"].map(|name| root.path().join(name));
    recorded(&first, &[0], 2);
    recorded(&other, &[1], 2);
    fs::remove_file(other.join(SAMPLES_FILE)).unwrap();
    fs::create_dir(other.join(SAMPLES_FILE)).unwrap();
    let why = message(merged(&[first, other], &target));
    assert!(why.contains("cannot read") && why.contains(SAMPLES_FILE), "{why}");
    assert!(!target.join(RUN_FILE).exists());
}
