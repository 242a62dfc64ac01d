//! A link, a FIFO or a socket where a file of a record belongs is refused by name: nothing is written through it, nothing
//! is read through it, and nobody hangs.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use record::file::FileName;
use record::store::{CASES_FILE, LOCK_FILE, RUN_FILE, SAMPLES_FILE, TRACE_FOLDER};
use record::{Store, plan, read_run, read_samples};
use terms::Status;

use crate::store::{message, run_file, write, written};
use crate::table::TABLE;

const LINK: &str = "cause: it is a symbolic link, and links inside a record are not followed";

#[test]
fn nothing_is_written_through_a_link() {
    for name in [RUN_FILE, "run.json.new", CASES_FILE, SAMPLES_FILE, LOCK_FILE] {
        // To a file that is there, and to one that writing would make.
        for target in ["outside", "made"] {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join("outside"), "").unwrap();
            let directory = root.path().join("record");
            fs::create_dir(&directory).unwrap();
            symlink(root.path().join(target), directory.join(name)).unwrap();
            let said = message(Store::create(&directory, &run_file()));
            assert!(said.contains(LINK) && said.contains("--output-dir DIR"), "{name}: {said}");
            let named = name.trim_end_matches(".new");
            assert!(said.contains(named), "{name}: {said}");
            assert_eq!(fs::read_to_string(root.path().join("outside")).unwrap(), "");
            assert!(!root.path().join("made").exists(), "{name}");
            assert!(directory.join(name).is_symlink(), "it is not ours to remove");
        }
    }
}

#[test]
fn a_run_that_goes_on_writes_through_no_link() {
    for name in [CASES_FILE, SAMPLES_FILE, LOCK_FILE, "run.json.new"] {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("record");
        let run = write(&directory, &[(0, Status::Ok)]);
        let outside = root.path().join("outside");
        // Beyond its last line break, so that a repair would change it.
        fs::write(&outside, "mine").unwrap();
        let _ = fs::remove_file(directory.join(name));
        symlink(&outside, directory.join(name)).unwrap();
        let said = match Store::resume(&directory) {
            Err(error) => error.to_string(),
            Ok((store, _)) => message(store.write_run(&run)),
        };
        assert!(said.contains(LINK), "{name}: {said}");
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine", "{name}");
    }
}

#[test]
fn traces_are_written_through_no_link() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("record");
    let store = Store::create(&directory, &run_file()).unwrap();
    let outside = root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let name = FileName::literal("a.json.gz");
    let trace = |store: &Store| store.write_trace(&name, |to| to.write_all(b"trace"));
    let folder = directory.join(TRACE_FOLDER);
    symlink(&outside, &folder).unwrap();
    let said = message(trace(&store));
    assert!(said.contains(LINK) && said.contains("trace/a.json.gz"), "{said}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

    fs::remove_file(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    symlink(outside.join("made"), folder.join("a.json.gz")).unwrap();
    assert!(message(trace(&store)).contains(LINK));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);

    fs::remove_file(folder.join("a.json.gz")).unwrap();
    trace(&store).unwrap();
    trace(&store).unwrap();
    assert_eq!(fs::read(folder.join("a.json.gz")).unwrap(), b"trace");
}

const HARD_LINK: &str = "cause: the file has 2 names (hard links), and writing it would change all of them";

#[test]
fn nothing_is_written_through_a_hard_link() {
    for name in [CASES_FILE, SAMPLES_FILE, LOCK_FILE] {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        // A record that goes on: the file is another name of one of the user's, beyond its last line break.
        let directory = root.path().join("record");
        write(&directory, &[(0, Status::Ok)]);
        let mut content = fs::read(directory.join(name)).unwrap_or_default();
        content.extend_from_slice(b"mine");
        fs::write(&outside, &content).unwrap();
        let _ = fs::remove_file(directory.join(name));
        fs::hard_link(&outside, directory.join(name)).unwrap();
        let said = message(Store::resume(&directory));
        let expected =
            format!("cannot write {}\n{HARD_LINK}\nhint:  give the record files", directory.join(name).display());
        assert!(said.starts_with(&expected), "{name}: {said}");
        assert_eq!(fs::read(&outside).unwrap(), content, "{name}");

        // A new one.
        let directory = root.path().join("new");
        fs::create_dir(&directory).unwrap();
        fs::remove_file(&outside).unwrap();
        fs::write(&outside, "").unwrap();
        fs::hard_link(&outside, directory.join(name)).unwrap();
        let said = message(Store::create(&directory, &run_file()));
        assert!(said.contains(HARD_LINK) && said.contains(name), "{name}: {said}");
        assert_eq!(fs::read(&outside).unwrap(), b"", "{name}");
    }
}

#[test]
fn a_run_file_takes_the_place_of_a_hard_link() {
    for name in [RUN_FILE, "run.json.new"] {
        let root = tempfile::tempdir().unwrap();
        let (outside, directory) = (root.path().join("outside"), root.path().join("record"));
        let run = write(&directory, &[(0, Status::Ok)]);
        if name == RUN_FILE {
            fs::hard_link(directory.join(name), &outside).unwrap();
        } else {
            fs::write(&outside, "mine").unwrap();
            fs::hard_link(&outside, directory.join(name)).unwrap();
        }
        let before = fs::read(&outside).unwrap();
        let (store, _) = Store::resume(&directory).unwrap();
        store.write_run(&record::RunFile { started: "2027-01-01T00:00:00Z".into(), ..run }).unwrap();
        assert_eq!(fs::read(&outside).unwrap(), before, "{name}");
        assert_eq!(read_run(&directory).unwrap().file.started, "2027-01-01T00:00:00Z");
    }
}

#[test]
fn a_trace_is_not_written_through_a_hard_link() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::create(&root.path().join("record"), &run_file()).unwrap();
    let outside = root.path().join("outside");
    fs::write(&outside, "mine").unwrap();
    let folder = root.path().join("record").join(TRACE_FOLDER);
    fs::create_dir(&folder).unwrap();
    fs::hard_link(&outside, folder.join("a.json.gz")).unwrap();
    let said = message(store.write_trace(&FileName::literal("a.json.gz"), |to| to.write_all(b"trace")));
    assert!(said.contains(HARD_LINK) && said.contains("trace/a.json.gz"), "{said}");
    assert_eq!(fs::read(&outside).unwrap(), b"mine");
}

#[test]
fn nothing_is_read_through_a_link() {
    for name in [RUN_FILE, CASES_FILE, SAMPLES_FILE] {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("record");
        write(&directory, &[(0, Status::Ok)]);
        let moved = root.path().join("moved");
        fs::rename(directory.join(name), &moved).unwrap();
        symlink(&moved, directory.join(name)).unwrap();
        let said = match read_run(&directory) {
            Err(error) => error.to_string(),
            Ok(_) => message(read_samples(&directory, "")),
        };
        assert!(said.starts_with(&format!("cannot read {}\n{LINK}", directory.join(name).display())), "{name}: {said}");
    }
    // The directory itself is what the user named.
    let root = tempfile::tempdir().unwrap();
    write(&root.path().join("record"), &[(0, Status::Ok)]);
    symlink(root.path().join("record"), root.path().join("link")).unwrap();
    assert_eq!(written(&read_run(&root.path().join("link")).unwrap()).len(), 1);
}

/// Makes a FIFO, at which a process that opens it would wait for ever.
fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_is_no_plain_file_is_refused_without_waiting() {
    for name in [RUN_FILE, CASES_FILE, SAMPLES_FILE] {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[(0, Status::Ok)]);
        fs::remove_file(root.path().join(name)).unwrap();
        fifo(&root.path().join(name));
        let said = match read_run(root.path()) {
            Err(error) => error.to_string(),
            Ok(_) => message(read_samples(root.path(), "")),
        };
        assert!(said.contains("it is a named pipe (FIFO), not a plain file"), "{said}");
        let said = message(Store::resume(root.path()));
        assert!(said.contains(name) && said.contains("it is a named pipe (FIFO)"), "{said}");
    }
    let root = tempfile::tempdir().unwrap();
    fifo(&root.path().join(CASES_FILE));
    let said = message(Store::create(root.path(), &run_file()));
    assert!(said.contains("cases.jsonl\ncause: it is a named pipe (FIFO), not a plain file"), "{said}");
}

#[test]
fn a_plan_is_a_plain_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("plan.yaml");
    let refused = |path: &Path, what: &str| {
        let said = plan::load(path, &TABLE, &[]).unwrap_err().to_string();
        let expected = format!("plan {} cannot be read: it is {what}, not a plain file", path.display());
        assert!(said.contains(&expected), "{said}");
    };
    fifo(&path);
    refused(&path, "a named pipe (FIFO)");
    let socket = root.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    refused(&socket, "a socket");
    refused(Path::new("/dev/zero"), "a device");
    refused(root.path(), "a folder");
    // A link is fine: the user named it.
    let text = "experiment: x\ncases: [{benchmark: collective, op: barrier}]\n";
    fs::write(root.path().join("real.yaml"), text).unwrap();
    symlink(root.path().join("real.yaml"), root.path().join("link.yaml")).unwrap();
    assert_eq!(plan::load(&root.path().join("link.yaml"), &TABLE, &[]).unwrap().cases.len(), 1);
}
