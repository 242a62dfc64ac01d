//! Checksums of lines: what is damaged is named and left out, what is older is read, what is missing is an error.

use std::fs;
use std::path::Path;

use record::store::{CASES_FILE, SAMPLES_FILE};
use record::{Record, RunFile, Store, read_run, read_samples};
use terms::Status;

use crate::store::{line, message, samples, write};

/// The record of three cases that are ok.
fn recorded(directory: &Path) -> RunFile {
    write(directory, &[(0, Status::Ok), (1, Status::Ok), (2, Status::Ok)])
}

/// The lines of a file, to be changed and written again.
fn lines(directory: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(directory.join(file)).unwrap().lines().map(str::to_owned).collect()
}

fn put(directory: &Path, file: &str, lines: &[String]) {
    fs::write(directory.join(file), lines.join("\n") + "\n").unwrap();
}

/// A line as versions without checksums wrote it.
fn bare(line: &str) -> String {
    let at = line.rfind(",\"crc32\":\"").expect("it has a checksum");
    format!("{}}}", &line[..at])
}

fn damaged(run: &Record) -> Vec<String> {
    run.damaged.iter().map(ToString::to_string).collect()
}

#[test]
fn every_line_ends_in_its_checksum() {
    let root = tempfile::tempdir().unwrap();
    let run = recorded(root.path());
    for file in [CASES_FILE, SAMPLES_FILE] {
        for text in lines(root.path(), file) {
            let sum = format!("{:08x}", crc32fast::hash(bare(&text).as_bytes()));
            assert!(text.ends_with(&format!(",\"crc32\":\"{sum}\"}}")), "{text}");
        }
    }
    assert_eq!(record::line_text(&line(&run, 0, Status::Ok)).unwrap(), lines(root.path(), CASES_FILE)[0]);
}

#[test]
fn a_damaged_case_line_is_named_and_left_out_and_its_case_runs_again() {
    let root = tempfile::tempdir().unwrap();
    let run = recorded(root.path());
    let whole = lines(root.path(), CASES_FILE);
    let id = &run.plan.cases[1].id;
    let mismatch = format!("cases.jsonl:2 (case {id}): its checksum does not match");
    let lacking = format!("cases.jsonl:2 (case {id}): it has no checksum, and a line before it has one");
    for (changed, said) in [
        // Still a case line, with another number in it: only the checksum tells.
        (whole[1].replacen("69.9", "99.9", 1), mismatch.as_str()),
        (whole[1].replacen("\"schema\":1", "\"schema\":2", 1), &mismatch),
        (whole[1].replacen(id, "not-hexadeci", 1), "cases.jsonl:2: its checksum does not match"),
        (whole[1][..whole[1].len() - 4].to_owned(), &lacking),
        (bare(&whole[1]), &lacking),
        (String::new(), "cases.jsonl:2: it has no checksum, and a line before it has one"),
        ("\0".repeat(40), "cases.jsonl:2: it has no checksum, and a line before it has one"),
    ] {
        assert_ne!(changed, whole[1], "a damage that damages nothing");
        let text = [whole[0].clone(), changed, whole[2].clone()];
        put(root.path(), CASES_FILE, &text);
        let read = read_run(root.path()).unwrap();
        assert_eq!(read.cases, [0, 2].map(|index| line(&run, index, Status::Ok)));
        assert_eq!(damaged(&read), [said]);

        let (mut store, resumed) = Store::resume(root.path()).unwrap();
        assert_eq!((resumed.done.len(), resumed.damaged.len()), (2, 1));
        assert!(!resumed.done.contains(id));
        assert_eq!(lines(root.path(), CASES_FILE), text, "what was there stays");
        store.append(&line(&run, 1, Status::Ok), &[]).unwrap();
        drop(store);
        let read = read_run(root.path()).unwrap();
        assert_eq!((read.cases.len(), read.damaged.len()), (3, 1));
    }
}

#[test]
fn damaged_samples_are_named_and_left_out() {
    let root = tempfile::tempdir().unwrap();
    let run = recorded(root.path());
    let id = |index: usize| run.plan.cases[index].id.as_str();
    let mut text = lines(root.path(), SAMPLES_FILE);
    text[0] = text[0].replacen("1500", "1400", 1);
    text[1] = text[1].replacen("\"trial\"", "\"trail\"", 1);
    put(root.path(), SAMPLES_FILE, &text);
    let mut read = read_samples(root.path()).unwrap();
    let said: Vec<String> = read.damaged.iter().map(ToString::to_string).collect();
    let expected =
        [0, 1].map(|index| format!("samples.jsonl:{} (case {}): its checksum does not match", index + 1, id(index)));
    assert_eq!(said, expected);
    assert!(read.of(id(0)).unwrap().is_empty());
    assert_eq!(read.of(id(2)).unwrap(), [samples(id(2), 0)], "found behind what is left out");
}

#[test]
fn lines_of_versions_without_checksums_are_read_and_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let run = recorded(root.path());
    for file in [CASES_FILE, SAMPLES_FILE] {
        let older: Vec<String> = lines(root.path(), file).iter().map(|line| bare(line)).collect();
        put(root.path(), file, &older);
    }
    let (mut store, resumed) = Store::resume(root.path()).unwrap();
    assert_eq!((resumed.done.len(), resumed.damaged, resumed.notes), (3, Vec::new(), Vec::new()));
    let next = line(&run, 3, Status::Ok);
    store.append(&next, &[samples(&next.id, 0)]).unwrap();
    drop(store);
    let read = read_run(root.path()).unwrap();
    assert_eq!((read.cases.len(), read.damaged.len()), (4, 0));
    let mut kept = read_samples(root.path()).unwrap();
    assert!(kept.damaged.is_empty());
    for index in 0..4 {
        let id = &run.plan.cases[index].id;
        assert_eq!(kept.of(id).unwrap(), [samples(id, 0)]);
    }
    // One of them that cannot be read is damaged, too.
    let mut text = lines(root.path(), CASES_FILE);
    text[0].truncate(40);
    put(root.path(), CASES_FILE, &text);
    let read = read_run(root.path()).unwrap();
    assert_eq!((read.cases.len(), read.damaged.len(), read.damaged[0].line), (3, 1, 1));
}

#[test]
fn a_record_without_case_lines_is_refused() {
    let root = tempfile::tempdir().unwrap();
    recorded(root.path());
    fs::remove_file(root.path().join(CASES_FILE)).unwrap();
    let expected = format!(
        "the record {} lacks its cases.jsonl\ncause: there is a run.json in it and no cases.jsonl, which holds the \
         results of its cases\nhint:  copy it from where the record was written, or start a new record with \
         `--output-dir DIR`",
        root.path().display()
    );
    assert_eq!(message(read_run(root.path())), expected);
    assert_eq!(message(Store::resume(root.path())), expected);
    assert!(!root.path().join(CASES_FILE).exists(), "nothing is made");
}
