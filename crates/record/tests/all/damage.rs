//! Checksums of lines: what is damaged is named and left out, what is older is read, what is missing is an error.

use std::fs;
use std::path::Path;

use record::store::{CASES_FILE, LOCK_FILE, RUN_FILE, SAMPLES_FILE};
use record::{
    CaseLine, Caveat, Interruption, Record, RunEnd, RunFile, Store, TimeSummary, read_results, read_run, read_samples,
};
use terms::Status;

use crate::store::{line, message, samples, without_checksum, write, written};

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
    let place = format!(",\"run\":\"{}\",\"line\":1}}", run.id);
    let first = bare(&lines(root.path(), CASES_FILE)[0]);
    let alone = bare(&record::line_text(&line(&run, 0, Status::Ok)).unwrap());
    assert_eq!(first.strip_suffix(&place), alone.strip_suffix('}'));
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
        assert_eq!(written(&read), [0, 2].map(|index| line(&run, index, Status::Ok)));
        assert_eq!(damaged(&read), [said]);

        let (mut store, resumed) = Store::resume(root.path()).unwrap();
        assert_eq!((resumed.done.len(), resumed.damaged.len()), (2, 1));
        assert!(!resumed.done.contains(id));
        assert_eq!(lines(root.path(), CASES_FILE), text, "what was there stays");
        store.append(&line(&run, 1, Status::Ok), &[]).unwrap();
        drop(store);
        let read = read_run(root.path()).unwrap();
        assert_eq!((written(&read).len(), read.damaged.len()), (3, 1));
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
    let mut read = read_samples(root.path(), "").unwrap();
    let said: Vec<String> = read.damaged.iter().map(ToString::to_string).collect();
    let expected =
        [0, 1].map(|index| format!("samples.jsonl:{} (case {}): its checksum does not match", index + 1, id(index)));
    assert_eq!(said, expected);
    assert!(read.of_case(id(0)).unwrap().is_empty());
    assert_eq!(read.of_case(id(2)).unwrap(), [samples(id(2), 0)], "found behind what is left out");
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
    assert_eq!((written(&read).len(), read.damaged.len()), (4, 0));
    let mut kept = read_samples(root.path(), "").unwrap();
    assert!(kept.damaged.is_empty());
    for index in 0..4 {
        let id = &run.plan.cases[index].id;
        assert_eq!(kept.of_case(id).unwrap(), [samples(id, 0)]);
    }
    // One of them that cannot be read is damaged, too.
    let mut text = lines(root.path(), CASES_FILE);
    text[0].truncate(40);
    put(root.path(), CASES_FILE, &text);
    let read = read_run(root.path()).unwrap();
    assert_eq!((written(&read).len(), read.damaged.len(), read.damaged[0].line), (3, 1, 1));
}

#[test]
fn a_record_without_case_lines_is_refused() {
    let root = tempfile::tempdir().unwrap();
    recorded(root.path());
    fs::remove_file(root.path().join(CASES_FILE)).unwrap();
    let expected = format!(
        "the record {} has no cases.jsonl\ncause: it has a run.json, but no cases.jsonl with the \
         results of its cases\nhint:  copy it from where the record was written, or start a new record with \
         `--output-dir DIR`",
        root.path().display()
    );
    assert_eq!(message(read_run(root.path())), expected);
    assert_eq!(message(Store::resume(root.path())), expected);
    assert!(!root.path().join(CASES_FILE).exists(), "nothing is made");
}

/// A line of so many trials, and whether more were to follow.
fn trials(run: &RunFile, index: usize, number: u32, preliminary: bool) -> CaseLine {
    let mut line = line(run, index, Status::Ok);
    line.time_s = Some(TimeSummary { median: 1e-6, ..TimeSummary::default() });
    line.trials = Some(number);
    line.caveats.extend(preliminary.then_some(Caveat::Preliminary));
    line
}

#[test]
fn a_run_that_was_killed_shows_what_did_not_run() {
    let root = tempfile::tempdir().unwrap();
    let mut run = crate::store::run_file();
    run.machine.host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let mut store = Store::create(root.path(), &run).unwrap();
    store.append(&trials(&run, 0, 1, true), &[]).unwrap();
    let open = |record: &Record| {
        let open: Vec<&CaseLine> = record.cases.iter().filter(|line| line.status == Status::NotRun).collect();
        (record.end, open.len(), open.first().and_then(|line| line.reason.clone()).unwrap_or_default())
    };
    let live = open(&read_results(root.path()).unwrap());
    assert_eq!(live, (RunEnd::Running, 9, "the run has not come to this case yet".to_owned()));
    drop(store);
    // The lock of a process that is gone, and none at all: the record has no end.
    for lock in [Some("1\n"), None] {
        match lock {
            Some(text) => fs::write(root.path().join(LOCK_FILE), text).unwrap(),
            None => fs::remove_file(root.path().join(LOCK_FILE)).unwrap(),
        }
        let expected = (RunEnd::Killed, 9, "the run was killed before this case had a result".to_owned());
        for read in [read_run(root.path()).unwrap(), read_results(root.path()).unwrap()] {
            assert_eq!(open(&read), expected);
            let ids: Vec<&str> = read.cases.iter().map(|line| line.id.as_str()).collect();
            assert_eq!(ids, run.plan.cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>());
            assert_eq!(read.cases[9].bytes, run.plan.cases[9].bytes(), "it says which case");
        }
    }
    let (store, resumed) = Store::resume(root.path()).unwrap();
    assert_eq!(resumed.cases.len(), 1, "who goes on gets what there is");
    store.finish_as(&mut run, Some(Interruption::Terminate)).unwrap();
    let cut = open(&read_run(root.path()).unwrap());
    let why = "the run was interrupted before this case had a result".to_owned();
    assert_eq!(cut, (RunEnd::Interrupted(Interruption::Terminate), 9, why));
    store.finish(&mut run).unwrap();
    drop(store);
    let ended = open(&read_run(root.path()).unwrap());
    assert_eq!(ended, (RunEnd::Ended, 9, "the record has no line of this case".to_owned()));
}

#[test]
fn the_lock_of_another_host_says_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut run = crate::store::run_file();
    run.machine.host = "a-host-of-another-name".to_owned();
    drop(Store::create(root.path(), &run).unwrap());
    assert_eq!(read_run(root.path()).unwrap().end, RunEnd::Killed, "nobody holds a lock that is not there");
    // As a process of another host leaves it, or holds it: the list of locks of this host does not have it.
    fs::write(root.path().join(LOCK_FILE), "1\n").unwrap();
    assert_eq!(read_run(root.path()).unwrap().end, RunEnd::Unknown);
    // A file system without locks.
    run.machine.host.clear();
    fs::write(root.path().join(RUN_FILE), serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(
        read_run(root.path()).unwrap().end,
        RunEnd::Killed,
        "a record that names no host is taken to be of this one"
    );
    fs::write(root.path().join(LOCK_FILE), "").unwrap();
    assert_eq!(read_run(root.path()).unwrap().end, RunEnd::Unknown);
}

#[test]
fn records_of_earlier_versions_have_their_end_in_the_rounds() {
    let root = tempfile::tempdir().unwrap();
    let mut run = crate::store::run_file();
    run.id.clear();
    let mut store = Store::create(root.path(), &run).unwrap();
    store.append(&trials(&run, 0, 6, false), &[]).unwrap();
    assert!(lines(root.path(), CASES_FILE)[0].contains(",\"simulated\":false,\"crc32\":"), "no run, no number");
    drop(store);
    assert_eq!(read_run(root.path()).unwrap().end, RunEnd::Killed);
    run.rounds = Some(record::Rounds { seed: 1, made: 6, correlation: None });
    fs::write(root.path().join(RUN_FILE), serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(read_run(root.path()).unwrap().end, RunEnd::Ended);
}

#[test]
fn the_line_of_most_trials_counts_in_any_order() {
    let root = tempfile::tempdir().unwrap();
    let mut run = crate::store::run_file();
    let mut store = Store::create(root.path(), &run).unwrap();
    for number in 1..=6 {
        store.append(&trials(&run, 0, number, number < 6), &[]).unwrap();
    }
    // The judged line of as many trials is written last.
    let mut judged = trials(&run, 0, 6, false);
    judged.gates_missed = vec!["a gate".into()];
    store.append(&judged, &[]).unwrap();
    // What fails does so after trials that were right.
    store.append(&trials(&run, 1, 3, true), &[]).unwrap();
    store.append(&line(&run, 1, Status::Failed), &[]).unwrap();
    store.finish(&mut run).unwrap();
    drop(store);
    let text = lines(root.path(), CASES_FILE);
    for turn in 0..text.len() {
        let mut turned = text.clone();
        turned.rotate_left(turn);
        for text in [turned.clone(), turned.into_iter().rev().collect()] {
            put(root.path(), CASES_FILE, &text);
            let read = read_run(root.path()).unwrap();
            assert_eq!(read.cases[0], judged, "from line {turn}");
            assert_eq!(read.cases[1].status, Status::Failed, "from line {turn}");
            assert_eq!(damaged(&read), Vec::<String>::new());
        }
    }
}

#[test]
fn a_later_attempt_of_fewer_trials_does_not_stand() {
    let root = tempfile::tempdir().unwrap();
    let run = crate::store::run_file();
    let mut store = Store::create(root.path(), &run).unwrap();
    store.append(&trials(&run, 0, 5, true), &[]).unwrap();
    drop(store);
    let (mut store, _) = Store::resume(root.path()).unwrap();
    store.append(&trials(&run, 0, 1, true), &[]).unwrap();
    assert_eq!(read_run(root.path()).unwrap().cases[0].trials, Some(5));
    // One that has all of its trials stands, whatever their number.
    store.append(&trials(&run, 0, 4, false), &[]).unwrap();
    assert_eq!(read_run(root.path()).unwrap().cases[0].trials, Some(4));
}

#[test]
fn lines_of_another_run_and_missing_lines_are_named() {
    let [root, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let mut run = recorded(root.path());
    let (store, _) = Store::resume(root.path()).unwrap();
    store.finish(&mut run).unwrap();
    drop(store);
    let mut foreign = crate::store::run_file();
    foreign.id = "00112233aabb".into();
    let mut store = Store::create(other.path(), &foreign).unwrap();
    store.append(&line(&foreign, 1, Status::Ok), &[samples(&foreign.plan.cases[1].id, 0)]).unwrap();
    drop(store);
    let (own, theirs) = (lines(root.path(), CASES_FILE), lines(other.path(), CASES_FILE));
    let id = &run.plan.cases[1].id;
    let of_other = format!("cases.jsonl:4 (case {id}): it is a line of another run (00112233aabb)");
    for (text, said) in [
        (vec![&own[0], &own[1], &own[2], &theirs[0]], vec![of_other.as_str()]),
        (vec![&own[0], &own[1]], vec!["cases.jsonl:3: it is missing"]),
        (vec![&own[0]], vec!["cases.jsonl:2: lines 2 to 3 are missing"]),
        (vec![&own[0], &own[2]], vec!["cases.jsonl:2: it is missing"]),
        (vec![&own[2], &own[0], &own[1], &own[1]], vec![]),
    ] {
        put(root.path(), CASES_FILE, &text.into_iter().cloned().collect::<Vec<_>>());
        let read = read_run(root.path()).unwrap();
        assert_eq!(damaged(&read), said);
    }
    let mut text = lines(root.path(), SAMPLES_FILE);
    text.extend(lines(other.path(), SAMPLES_FILE));
    put(root.path(), SAMPLES_FILE, &text);
    let read = read_samples(root.path(), &run.id).unwrap();
    let said = format!("samples.jsonl:4 (case {id}): it is a line of another run (00112233aabb)");
    assert_eq!(read.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
}

#[test]
fn a_record_that_lost_its_last_line_goes_on_with_numbers_of_its_own() {
    let root = tempfile::tempdir().unwrap();
    let mut run = recorded(root.path());
    let (store, _) = Store::resume(root.path()).unwrap();
    store.finish(&mut run).unwrap();
    drop(store);
    let text = lines(root.path(), CASES_FILE);
    put(root.path(), CASES_FILE, &text[..2]);
    let (mut store, resumed) = Store::resume(root.path()).unwrap();
    assert_eq!(resumed.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(), ["cases.jsonl:3: it is missing"]);
    store.append(&line(&run, 2, Status::Ok), &[]).unwrap();
    drop(store);
    assert!(lines(root.path(), CASES_FILE)[2].contains("\"line\":4,"), "its number is not taken again");
    assert_eq!(damaged(&read_run(root.path()).unwrap()), ["cases.jsonl:3: it is missing"]);
}

#[test]
fn one_damaged_byte_of_the_run_file_does_not_lose_the_rest() {
    let root = tempfile::tempdir().unwrap();
    let mut run = recorded(root.path());
    run.labels.note = Some("a note".into());
    let (store, _) = Store::resume(root.path()).unwrap();
    store.finish(&mut run).unwrap();
    drop(store);
    let path = root.path().join(RUN_FILE);
    let whole = fs::read(&path).unwrap();
    let step = if crate::skip::heavy("a damage of every byte of a run file") { 1 } else { 89 };
    for at in (0..whole.len()).step_by(step) {
        for byte in [b'X', 0xff, b'\n', b'"'] {
            let mut changed = whole.clone();
            changed[at] = byte;
            if changed == whole {
                continue;
            }
            fs::write(&path, &changed).unwrap();
            let context =
                || String::from_utf8_lossy(&changed[at.saturating_sub(40)..(at + 20).min(whole.len())]).into_owned();
            for read in [read_run(root.path()), read_results(root.path())] {
                let read = read.unwrap_or_else(|error| panic!("byte {at}, {byte}: {error}\n{}", context()));
                assert!(!read.damaged.is_empty(), "byte {at}, {byte}: {}", context());
                assert!(read.damaged.iter().all(record::DamagedLine::is_of_run_file), "{:?}", read.damaged);
                for index in 0..3 {
                    let own = line(&run, index, Status::Ok);
                    assert!(read.cases.contains(&own), "byte {at}, {byte}: case {index}\n{}", context());
                }
                let file = &read.file;
                let kept = [
                    file.labels.note.as_deref() == Some("a note"),
                    file.machine.host == "node-a",
                    file.plan.cases.len() >= 9,
                    file.tool.version == "0.1.0",
                    !file.benchmarks.is_empty(),
                    file.command_line == ["rankmark", "run"],
                ];
                let lost = kept.iter().filter(|kept| !**kept).count();
                assert!(lost <= 2, "byte {at}, {byte}: {kept:?}\n{}", context());
            }
            // Nobody measures by a plan that may be another.
            assert!(message(Store::resume(root.path())).contains("run.json is"), "byte {at}");
        }
    }
    // Somebody who edits it takes the checksum out.
    let text = without_checksum(&String::from_utf8(whole).unwrap()).replace("a note", "another");
    fs::write(&path, text).unwrap();
    let read = read_run(root.path()).unwrap();
    assert_eq!((damaged(&read), read.file.labels.note.as_deref()), (Vec::new(), Some("another")));
}
