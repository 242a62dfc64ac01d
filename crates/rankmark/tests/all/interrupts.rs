//! Ctrl-C, SIGTERM and SIGHUP: a quick end, a valid record, and a resume that finishes it.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::place::{Ended, ORPHANS, Place, json_lines, reason, statuses};
use crate::processes::wait_until;
use crate::skip;

/// After a signal the program is gone within this time, on a machine that has other work, too.
const QUICKLY: Duration = Duration::from_secs(10);

const PLAN: &str = "experiment: interrupted
defaults: {ranks: 2, max_seconds: 0.02s}
cases:
  - benchmark: collective
    op: [all_reduce, all_to_all]
    bytes: 16KiB
    seed: [1, 2, 3, 4, 5]
";
/// Cases of a run that gets one signal at a random moment: a few are enough for moments before, in, between and after them.
const CASES: usize = 4;

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP",
        _ => "SIGTERM",
    }
}

/// The record is whole, says what did not run and why, and can be finished. Tells how many cases did not run.
fn check(place: &Place, out: &str, signal: i32, ended: Ended) -> usize {
    let told = format!("{}{}", ended.out, ended.err);
    let before = place.read(&format!("{out}/cases.jsonl"));
    let lines = place.cases(out);
    let [ok, failed, skipped, not_run] = statuses(&lines);
    assert_eq!((ok + not_run, failed, skipped, lines.len()), (CASES, 0, 0, CASES), "every case has a line: {told}");
    for line in lines.iter().filter(|line| line["status"] == "not_run") {
        assert_eq!(reason(line), format!("interrupted by {}", name(signal)), "{told}");
        assert!(line.get("time_s").is_none(), "{line}");
    }
    // With all cases done only the report is left to write, which a signal ends as it ends any program.
    if not_run > 0 || ended.status.signal() != Some(signal) {
        ended.exits(if not_run > 0 { 128 + signal } else { 0 });
    }
    place.run(&format!("report {out}")).exits(0);
    place.run(&format!("run --resume {out} --quiet")).exits(0);
    assert!(place.read(&format!("{out}/cases.jsonl")).starts_with(&before), "what was there stays");
    assert_eq!(statuses(&place.cases(out)), [CASES, 0, 0, 0], "{told}");
    not_run
}

/// Sends the signal when so many cases have ended, and `pause` later: in the run's progress and not in its time, which
/// other work on the machine stretches.
fn interrupt(place: &Place, out: &str, signal: i32, cases: usize, pause: Duration) -> usize {
    let live = place.start(&format!("run plan.yaml --output-dir {out}"));
    if cases > 0 {
        live.await_lines(&place.path(&format!("{out}/cases.jsonl")), cases);
    }
    std::thread::sleep(pause);
    live.signal(signal);
    let since = Instant::now();
    let ended = live.wait();
    assert!(since.elapsed() < QUICKLY, "{:?} after {}", since.elapsed(), name(signal));
    if !place.path(out).join("run.json").exists() {
        // Before there was a record: as any program ends.
        assert!(ended.status.signal() == Some(signal) || ended.status.code() == Some(128 + signal), "{ended:?}");
        return 0;
    }
    check(place, out, signal, ended)
}

#[test]
fn at_random_moments() {
    let place = Place::new();
    place.write("plan.yaml", PLAN.replace("[1, 2, 3, 4, 5]", "[1, 2]"));
    let live = place.start("run plan.yaml --output-dir undisturbed");
    live.await_lines(&place.path("undisturbed/cases.jsonl"), CASES);
    let mut longest = live.begun.elapsed() / CASES as u32;
    live.wait().exits(0);
    let count = if skip::heavy("a hundred interrupts at random moments") { 100 } else { 5 };
    let mut random = StdRng::seed_from_u64(5);
    let mut cut_short = 0;
    for number in 0..count {
        let signal = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP][number % 3];
        let (cases, pause) = (random.random_range(0..CASES), random.random_range(Duration::ZERO..longest));
        match interrupt(&place, &format!("out{number}"), signal, cases, pause) {
            // The machine may have become faster.
            0 => longest = (longest / 2).max(Duration::from_millis(1)),
            _ => cut_short += 1,
        }
    }
    assert!(3 * cut_short >= count, "{cut_short} of {count} runs were cut short: the others prove nothing");
}

#[test]
fn in_the_middle_of_a_long_case() {
    let place = Place::new();
    place.write("plan.yaml", PLAN.replace("0.02s", "600s").replace("bytes:", "target_precision: 0\n    bytes:"));
    let live = place.start("run plan.yaml --json --output-dir out");
    live.await_ranks(2);
    std::thread::sleep(Duration::from_millis(300));
    live.signal(libc::SIGINT);
    let since = Instant::now();
    let ended = live.wait().exits(130);
    assert!(since.elapsed() < QUICKLY, "{:?}", since.elapsed());
    assert_eq!(statuses(&json_lines(&ended.out)), [0, 0, 0, 10]);
    assert!(ended.err.contains("10 not_run") && ended.err.contains("--resume out"), "{}", ended.err);
    let told: Vec<&str> = ended.err.lines().filter(|line| line.contains("interrupted by SIGINT")).collect();
    assert!(told.len() == 1 && told[0].contains(" and 9 more: "), "one reason stands once: {}", ended.err);
    assert!(!ended.err.contains("case 1/10"), "{}", ended.err);
}

#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let place = Place::new();
    let mut starting =
        place.command("comm all_reduce --bytes 1KiB,2KiB --max-seconds 1s --target-precision 0 --output-dir out");
    use std::os::unix::process::CommandExt;
    // As nohup does.
    // SAFETY: a system call between fork and exec.
    unsafe {
        starting.command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        })
    };
    let live = starting.start();
    live.await_lines(&place.path("out/cases.jsonl"), 1);
    live.signal(libc::SIGHUP);
    live.wait().exits(0);
    assert_eq!(statuses(&place.cases("out")), [2, 0, 0, 0]);
}

#[test]
fn a_simulated_run_is_interrupted_too() {
    let place = Place::new();
    // A late rank delays its neighbours in turn, which takes the model a step for each rank.
    let arguments = "comm send_recv --bytes 1KiB,2KiB --backend sim --ranks 16384 --inject delay:rank=1,time=1us";
    let live = place.start(&format!("{arguments} --iters 10000 --seed 1,2,3,4,5,6,7,8 --output-dir out"));
    live.await_lines(&place.path("out/cases.jsonl"), 1);
    live.signal(libc::SIGINT);
    live.wait_for(QUICKLY).exits(130);
    let [ok, failed, skipped, not_run] = statuses(&place.cases("out"));
    assert_eq!((ok + not_run, failed, skipped), (16, 0, 0));
    assert!(not_run > 0);
}

#[test]
fn a_calibration_that_is_interrupted_keeps_the_profile_of_before() {
    let place = Place::new();
    std::fs::create_dir(place.path("results")).unwrap();
    place.write("results/machine-profile.json", "before");
    let run = place.start("calibrate --quick --ranks 2 --output-dir out");
    run.await_lines(&place.path("out/cases.jsonl"), 8);
    run.signal(libc::SIGINT);
    let ended = run.wait().exits(130);
    for words in ["no profile was written", "rankmark run --resume out", "rankmark calibrate out"] {
        assert!(ended.err.contains(words), "{words}: {}", ended.err);
    }
    assert_eq!(place.read("results/machine-profile.json"), "before");
}

#[test]
fn between_trials() {
    let place = Place::new();
    let arguments =
        "comm all_reduce --bytes 1KiB,2KiB --trials 4 --spacing 0.5s --max-seconds 0.3s --target-precision 0";
    let live = place.start(&format!("{arguments} --limits false --output-dir out"));
    live.await_lines(&place.path("out/cases.jsonl"), 3);
    live.signal(libc::SIGINT);
    let ended = live.wait_for(QUICKLY).exits(130);
    assert!(ended.out.contains("between trials") && ended.out.contains("--resume out"), "{}", ended.out);
    place.run("run --resume out").exits(0);
    assert!(place.cases("out").iter().all(|line| line["trials"] == 4 && line["status"] == "ok"));
}

/// A pipe that holds a page: reading end, writing end.
fn small_pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: `ends` holds the two descriptors that the call makes; both are owned below and by nobody else.
    let (read, write) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: a plain system call on an open descriptor.
    assert!(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
    (read.into(), write)
}

#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new();
    place.write("plan.yaml", PLAN);
    // Nobody reads what it prints, so that it cannot end in order: the third or so case line fills the pipe.
    let (mut read, write) = small_pipe();
    let mut starting = place.command("run plan.yaml --json --output-dir out");
    starting.command.stdout(write);
    let mut live = starting.start();
    let written = || place.read("out/cases.jsonl").len();
    // However slow the machine is: it stands still where nothing more is written.
    let stands_still = || {
        let before = written();
        std::thread::sleep(Duration::from_millis(500));
        before > 4096 && written() == before
    };
    assert!(wait_until(Duration::from_secs(60), || place.path("out/cases.jsonl").exists() && stands_still()));
    live.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!live.has_ended(), "the first lets it end in order, which it cannot");
    live.signal(libc::SIGINT);
    assert!(wait_until(ORPHANS, || live.has_ended()), "the second ends it");
    let ended = live.wait();
    assert_eq!(ended.status.signal(), Some(libc::SIGINT));
    let mut printed = vec![0; 1 << 16];
    assert!(read.read(&mut printed).unwrap() > 0);
    // On a busy machine the first signal may come before the pipe is full. Some cases are then marked as not run.
    assert_eq!(statuses(&json_lines(&place.read("out/cases.jsonl")))[1..3], [0, 0]);
    place.run("run --resume out").exits(0);
    assert_eq!(statuses(&place.cases("out")), [10, 0, 0, 0]);
}

#[test]
fn a_terminal_signals_the_whole_group() {
    // Ctrl-C reaches every process of the terminal's group: ranks must not be in it, or they would die and be blamed.
    let place = Place::new();
    place.write("plan.yaml", PLAN.replace("0.02s", "600s").replace("bytes:", "target_precision: 0\n    bytes:"));
    let mut starting = place.command("run plan.yaml --output-dir out");
    std::os::unix::process::CommandExt::process_group(&mut starting.command, 0);
    let live = starting.start();
    live.await_ranks(2);
    // SAFETY: a plain call; the group was made for this child, which has not been waited for.
    assert_eq!(unsafe { libc::kill(-(live.pid() as libc::pid_t), libc::SIGINT) }, 0);
    let ended = live.wait_for(QUICKLY).exits(130);
    assert_eq!(statuses(&place.cases("out")), [0, 0, 0, 10], "{}", ended.out);
}
