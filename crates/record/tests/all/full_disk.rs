//! A full disk and a read-only one: small file systems of our own, where we may mount them.

use std::fs;
use std::path::Path;
use std::process::Command;

use record::{CaseLine, CaseSamples, Store, StoreError, read_run, read_samples};
use terms::Status;

use crate::store::{run_file, written};

/// A tmpfs for one test, unmounted when dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// None where this user may not mount; the reason is printed, which is how a skipped test is listed.
    fn new(options: &str) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(place.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(place)),
            Ok(output) => skipped(&String::from_utf8_lossy(&output.stderr)),
            Err(error) => skipped(&error.to_string()),
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[expect(clippy::print_stderr, reason = "a test lists what it skips")]
fn skipped<T>(reason: &str) -> Option<T> {
    eprintln!("skipped: no small file system for the test: {}", reason.trim());
    None
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "the test's file system could not be unmounted");
    }
}

fn message<T>(result: Result<T, StoreError>) -> String {
    result.err().expect("it must be refused").to_string()
}

#[test]
fn a_full_disk_loses_no_finished_case() {
    let Some(disk) = Mounted::new("size=256k") else { return };
    let directory = disk.path().join("run");
    let run = run_file();
    let mut store = Store::create(&directory, &run).unwrap();
    let id = |index: usize| run.plan.cases[index].id.clone();
    let samples = |index: usize, count: usize| CaseSamples {
        id: id(index),
        calls: 1,
        ns: vec![vec![1_000_000_000_000; count]],
        ..CaseSamples::default()
    };
    let line = |index: usize| {
        let mut line = CaseLine::unmeasured(&run.plan.cases[index], Status::Ok, "");
        line.reason = None;
        line
    };
    store.append(&line(0), &[samples(0, 10)]).unwrap();
    let before =
        [record::store::CASES_FILE, record::store::SAMPLES_FILE].map(|name| fs::read(directory.join(name)).unwrap());

    let said = message(store.append(&line(1), &[samples(1, 100_000)]));
    assert!(said.starts_with(&format!("cannot write {}", directory.join("samples.jsonl").display())), "{said}");
    assert!(said.contains("cause: No space left on device") && said.contains("--resume DIR"), "{said}");
    let after =
        [record::store::CASES_FILE, record::store::SAMPLES_FILE].map(|name| fs::read(directory.join(name)).unwrap());
    assert_eq!(before, after);

    // Full to the last byte: now it is the case line that does not fit, and its samples go with it.
    let mut filler = fs::File::create(disk.path().join("filler")).unwrap();
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    let mut long = line(1);
    long.reason = Some("r".repeat(8192));
    let said = message(store.append(&long, &[samples(1, 1)]));
    assert!(said.starts_with(&format!("cannot write {}", directory.join("cases.jsonl").display())), "{said}");
    let after =
        [record::store::CASES_FILE, record::store::SAMPLES_FILE].map(|name| fs::read(directory.join(name)).unwrap());
    assert_eq!(before, after);
    assert!(message(store.write_run(&run)).contains("No space left on device"));

    // The record is valid, and goes on when there is space again.
    assert_eq!(written(&read_run(&directory).unwrap()), [line(0)]);
    fs::remove_file(disk.path().join("filler")).unwrap();
    store.append(&line(1), &[samples(1, 5)]).unwrap();
    drop(store);
    assert_eq!(written(&read_run(&directory).unwrap()), [line(0), line(1)]);
    assert_eq!(read_samples(&directory, "").unwrap().of_case(&id(1)).unwrap(), [samples(1, 5)]);
}

#[test]
fn a_disk_that_is_full_from_the_start() {
    let Some(disk) = Mounted::new("size=16k") else { return };
    fs::write(disk.path().join("filler"), vec![0; 12 << 10]).unwrap();
    let said = message(Store::create(&disk.path().join("run"), &run_file()));
    assert!(said.contains("cannot write") && said.contains("No space left on device"), "{said}");
    assert!(!said.contains("--resume"), "there is nothing to go on with: {said}");
    assert!(said.contains("hint:  free some space, or choose another place with `--output-dir DIR`"), "{said}");
    // It never became a record, so the next try starts again.
    fs::remove_file(disk.path().join("filler")).unwrap();
    assert!(!disk.path().join("run/run.json").exists());
}

#[test]
fn a_read_only_disk() {
    let Some(disk) = Mounted::new("size=64k,ro") else { return };
    let said = message(Store::create(&disk.path().join("run"), &run_file()));
    assert!(said.contains("cannot create") && said.contains("Read-only file system"), "{said}");
    assert!(said.contains("hint:  choose another place with `--output-dir DIR`"), "{said}");
}
