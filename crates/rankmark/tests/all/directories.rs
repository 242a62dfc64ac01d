//! Output directories: fresh, occupied, in use, not writable, full.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::mounted::Mounted;
use crate::place::{Place, json_lines, statuses, without_place};

const SHORT: &str = "comm all_reduce --bytes 1KiB --max-seconds 0.02s";
/// Goes on until somebody ends it.
const LONG: &str = "comm all_reduce --bytes 1KiB --max-seconds 600s --target-precision 0";

#[test]
fn records_of_one_second_do_not_collide() {
    let place = Place::new();
    let both = [place.start(SHORT), place.start(SHORT)];
    both.into_iter().for_each(|live| drop(live.wait().exits(0)));
    let records = fs::read_dir(place.path("results")).unwrap().count();
    assert_eq!(records, 2);
}

#[test]
fn a_directory_that_holds_a_record_needs_resume() {
    let place = Place::new();
    place.run(&format!("{SHORT} --output-dir out")).exits(0);
    let before = [place.read("out/run.json"), place.read("out/cases.jsonl")];
    let again = place.run(&format!("{SHORT} --output-dir out"));
    again.refuses(&["out holds a record already", "--resume out", "--output-dir"]);
    assert_eq!(before, [place.read("out/run.json"), place.read("out/cases.jsonl")], "nothing was changed");
    // A directory that holds something else is fine, and what it holds stays.
    fs::create_dir(place.path("other")).unwrap();
    place.write("other/notes.txt", "mine");
    place.run(&format!("{SHORT} --output-dir other")).exits(0);
    assert_eq!(place.read("other/notes.txt"), "mine");
}

#[test]
fn a_directory_in_use_is_refused() {
    let place = Place::new();
    let live = place.start(&format!("{LONG} --output-dir out"));
    live.await_ranks(2);
    let pid = format!("in use by a live run (pid {})", live.pid());
    place.run(&format!("{SHORT} --output-dir out")).refuses(&[&pid, "--output-dir"]);
    place.run("run --resume out").refuses(&[&pid]);
    // Reading needs no lock, and disturbs nobody.
    place.run("report out").exits(0);
    live.signal(libc::SIGTERM);
    live.wait().exits(143);
    place.run("report out").exits(0);
}

#[test]
fn places_that_cannot_be_written_are_refused() {
    let place = Place::new();
    place.write("file", "mine");
    let refused = |directory: &str, words: &[&str]| {
        place.run(&format!("{SHORT} --output-dir {directory}")).refuses(words);
    };
    refused("file", &["cannot create file", "--output-dir"]);
    refused("file/below", &["cannot create file/below", "Not a directory", "--output-dir"]);
    refused("/proc/rankmark", &["cannot create /proc/rankmark"]);
    refused(&"long/".repeat(2000), &["cannot create"]);
    assert_eq!((place.names(), place.read("file").as_str()), (vec!["file".to_owned()], "mine"));
}

#[test]
fn a_read_only_place_is_refused() {
    let place = Place::new();
    let Some(disk) = Mounted::new("read-only file system", "ro") else { return };
    let directory = disk.path("out");
    let ended = place.command(SHORT).argument("--output-dir").argument(&directory).run();
    ended.refuses(&["cannot create", "Read-only", "--output-dir"]);
}

#[test]
fn a_place_without_permission_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path("closed")).unwrap();
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let root = fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    let starting = place.command(SHORT).argument("--output-dir").argument(place.path("closed/out"));
    let starting = if root { as_nobody(starting, &place) } else { Some(starting) };
    let Some(starting) = starting else { return };
    starting.run().refuses(&["cannot create", "Permission denied", "--output-dir"]);
}

/// Root may write anywhere, so the program runs as nobody; None where nobody cannot reach it.
fn as_nobody<'a>(mut starting: crate::place::Starting<'a>, place: &Place) -> Option<crate::place::Starting<'a>> {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let program = Path::new(env!("CARGO_BIN_EXE_rankmark"));
    let reachable = |path: &Path| {
        path.ancestors().skip(1).all(|above| fs::metadata(above).is_ok_and(|of| of.permissions().mode() & 0o001 != 0))
    };
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    if !reachable(program) || !reachable(&place.path("closed")) {
        crate::skip::skip("no permission", "root may write anywhere, and nobody cannot reach the program");
        return None;
    }
    starting.command.uid(NOBODY).gid(NOBODY);
    Some(starting)
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_death() {
    let place = Place::new();
    let limited = |limit: u64, record: &str, arguments: &str| {
        let mut starting = place.command(arguments).argument("--output-dir").argument(record);
        use std::os::unix::process::CommandExt;
        // SAFETY: a system call between fork and exec, on a value of its own.
        unsafe {
            starting.command.pre_exec(move || {
                let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
                if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        starting.run().exits(2)
    };
    // Not even `run.json` fits: there is no record to resume.
    let ended = limited(1024, "start", SHORT);
    for part in ["error: cannot write start/run.json", "cause: File too large", "hint:  raise the limit on file sizes"]
    {
        assert!(ended.err.contains(part), "{part}: {}", ended.err);
    }
    assert!(!ended.err.contains("--resume"), "{}", ended.err);
    // Some cases fit.
    let ended =
        limited(48 << 10, "later", "comm all_reduce --backend sim --bytes 64,128,256,512,1KiB,2KiB --iters 2000");
    assert!(ended.err.contains("cause: File too large") && ended.err.contains("--resume"), "{}", ended.err);
    place.run("run --resume later").exits(0);
    assert_eq!(statuses(&place.cases("later")), [6, 0, 0, 0]);
}

#[test]
fn results_are_printed_although_the_report_cannot_be_written() {
    let place = Place::new();
    fs::create_dir_all(place.path("out/report.html")).unwrap();
    let sim = "comm all_reduce --backend sim --ranks 2 --bytes 1KiB,4KiB --iters 5 --output-dir out";
    let ended = place.run(sim).exits(2);
    assert!(ended.err.contains("report's file") && ended.err.contains("a folder"), "{}", ended.err);
    assert!(ended.out.contains("1.00 KiB") || ended.out.contains("1 KiB"), "{}", ended.out);
    assert!(ended.out.contains("4 KiB") && ended.out.contains("busbw"), "{}", ended.out);
    assert!(place.run_file("out")["end"].is_object(), "the record is whole");
}

#[test]
fn a_full_disk_loses_no_finished_case() {
    let place = Place::new();
    let Some(disk) = Mounted::new("full disk", "size=96k") else { return };
    let directory = disk.path("out");
    // Each of these cases keeps many samples, so that the disk is full in the middle.
    let plan = "comm all_reduce --bytes 64,128,256,512,1KiB,2KiB,4KiB,8KiB,16KiB,32KiB --iters 2000 --json";
    let ended = place.command(plan).argument("--output-dir").argument(&directory).run().exits(2);
    assert!(ended.err.contains(r#""what":"cannot write"#), "{}", ended.err);
    assert!(ended.err.contains("No space left") && ended.err.contains("--resume"), "{}", ended.err);
    let printed = json_lines(&ended.out);
    let kept = json_lines(&fs::read_to_string(directory.join("cases.jsonl")).unwrap());
    let bare = |lines: &[serde_json::Value]| lines.iter().cloned().map(without_place).collect::<Vec<_>>();
    assert_eq!(bare(&kept), bare(&printed), "what was printed was on disk first");
    assert!((1..10).contains(&kept.len()), "{} cases fit", kept.len());
    // With space again the rest runs.
    let copy = place.path("copy");
    fs::create_dir(&copy).unwrap();
    for name in ["run.json", "cases.jsonl", "samples.jsonl"] {
        fs::copy(directory.join(name), copy.join(name)).unwrap();
    }
    place.run("run --resume copy").exits(0);
    assert_eq!(statuses(&place.cases("copy")), [10, 0, 0, 0]);
    assert!(place.read("copy/cases.jsonl").starts_with(&fs::read_to_string(directory.join("cases.jsonl")).unwrap()));
}
