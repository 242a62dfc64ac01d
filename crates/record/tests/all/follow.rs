//! A record that is read while another process writes it.

use std::fs::OpenOptions;
use std::io::Write;

use record::store::{CASES_FILE, Follower, Liveness, liveness};
use record::{Store, line_text};
use terms::Status;

use crate::store::{line, run_file, write};

#[test]
fn lines_come_once_and_only_when_they_are_whole() {
    let directory = tempfile::tempdir().unwrap();
    let mut follower = Follower::new(directory.path());
    assert!(follower.new_lines().unwrap().is_empty(), "there is no file yet");
    assert!(follower.run_file().is_err());
    let run = run_file();
    let mut store = Store::create(directory.path(), &run).unwrap();
    assert_eq!(liveness(directory.path()), Liveness::Live);
    assert_eq!(follower.run_file().unwrap().plan.cases.len(), run.plan.cases.len());
    store.append(&line(&run, 0, Status::Ok), &[]).unwrap();
    store.append(&line(&run, 1, Status::Failed), &[]).unwrap();
    let ids = |lines: Vec<record::CaseLine>| lines.into_iter().map(|line| line.id).collect::<Vec<_>>();
    assert_eq!(ids(follower.new_lines().unwrap()), [run.plan.cases[0].id.clone(), run.plan.cases[1].id.clone()]);
    assert!(follower.new_lines().unwrap().is_empty());
    // A later line of a case, written in two parts.
    let text = line_text(&line(&run, 1, Status::Ok)).unwrap();
    let (begin, end) = text.split_at(40);
    let mut file = OpenOptions::new().append(true).open(directory.path().join(CASES_FILE)).unwrap();
    file.write_all(begin.as_bytes()).unwrap();
    assert!(follower.new_lines().unwrap().is_empty(), "the line is not whole");
    writeln!(file, "{end}").unwrap();
    let lines = follower.new_lines().unwrap();
    assert_eq!((lines.len(), lines[0].status), (1, Status::Ok));
    drop(store);
    assert_eq!(liveness(directory.path()), Liveness::Ended);
}

#[test]
fn another_record_at_the_path_is_read_from_its_first_line() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("record");
    let run = write(&directory, &[(0, Status::Ok)]);
    let mut follower = Follower::new(&directory);
    assert_eq!(follower.new_lines().unwrap().len(), 1);
    std::fs::remove_dir_all(&directory).unwrap();
    write(&directory, &[(3, Status::Failed), (4, Status::Ok), (5, Status::Ok)]);
    let ids: Vec<String> = follower.new_lines().unwrap().into_iter().map(|line| line.id).collect();
    assert_eq!((ids, follower.damaged), ([3, 4, 5].map(|case: usize| run.plan.cases[case].id.clone()).to_vec(), 0));
}

#[test]
fn damaged_lines_are_counted_and_a_shorter_file_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let run = run_file();
    let text = |index: usize| line_text(&line(&run, index, Status::Ok)).unwrap();
    let path = directory.path().join(CASES_FILE);
    let damaged = text(1).replace("69.9", "68.8");
    assert_ne!(damaged, text(1));
    std::fs::write(&path, format!("{}\n{damaged}\n{}\n", text(0), text(2))).unwrap();
    let mut follower = Follower::new(directory.path());
    assert_eq!((follower.new_lines().unwrap().len(), follower.damaged), (2, 1));
    std::fs::write(&path, format!("{}\n", text(3))).unwrap();
    let lines = follower.new_lines().unwrap();
    assert_eq!((lines.len(), lines[0].id.as_str(), follower.damaged), (1, run.plan.cases[3].id.as_str(), 0));
    let other = text(4).replace("\"schema\":1", "\"schema\":9");
    std::fs::write(&path, format!("{other}\n{}\n{}\n", text(5), text(6))).unwrap();
    // Its checksum no longer matches: damaged, and not another version.
    assert_eq!((follower.new_lines().unwrap().len(), follower.damaged), (2, 1));
}
