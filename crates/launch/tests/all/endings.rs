//! Coordinators that end, in order or not: whatever happens to them, no rank outlives them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use measure::VerdictKind;
use serde_json::json;

use crate::play::{LONG, Test, act, exists, signal, start, wait_gone};

pub(crate) const TESTS: &[Test] = &[
    ("endings::killed_coordinator_leaves_no_rank", killed_coordinator_leaves_no_rank),
    ("endings::ranks_that_no_signal_reaches_leave_too", ranks_that_no_signal_reaches_leave_too),
    ("endings::interrupt_ends_what_is_in_flight", interrupt_ends_what_is_in_flight),
    ("endings::second_interrupt_ends_at_once", second_interrupt_ends_at_once),
    ("endings::an_uninvited_rank_says_so", an_uninvited_rank_says_so),
];

/// The other side of these tests: a coordinator that tells the process numbers of its ranks and lets them do `what`.
pub(crate) fn be_coordinator(what: &str) -> ExitCode {
    process::interrupt::install().unwrap();
    if what == "stuck" {
        // As some programs leave it to those that they start.
        // SAFETY: a plain system call.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    }
    let mut world = start(4);
    act(&mut world, "echo", json!({})).unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "{}", world.pids().iter().map(u32::to_string).collect::<Vec<_>>().join(" ")).unwrap();
    let verdict = act(&mut world, what, json!({})).unwrap_err();
    let again = start_again();
    writeln!(out, "{:?} | {verdict} | {again:?}", verdict.kind).unwrap();
    if what == "spin" {
        // Ends only by a second signal.
        std::thread::sleep(LONG);
    }
    ExitCode::from(128 + process::interrupt::requested().unwrap_or_default() as u8)
}

/// After an interrupt no world starts any more.
fn start_again() -> Option<VerdictKind> {
    launch::LocalStarter::new().start_processes(&crate::play::spec(2, json!({}))).err().map(|verdict| verdict.kind)
}

/// A coordinator with ranks at work, and their process numbers.
fn coordinator(what: &str) -> (Child, BufReader<ChildStdout>, Vec<u32>) {
    let mut command = Command::new("/proc/self/exe");
    let mut child = command.arg(format!("coordinator={what}")).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let pids: Vec<u32> = line.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    std::thread::sleep(Duration::from_millis(100));
    assert!(pids.iter().all(|pid| exists(*pid)));
    (child, output, pids)
}

fn killed_coordinator_leaves_no_rank() {
    let (mut child, _, pids) = coordinator("stuck");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(gone_within(&pids, Duration::from_secs(5)), [0; 0]);
}

fn ranks_that_no_signal_reaches_leave_too() {
    let (mut child, _, pids) = coordinator("detached");
    let begin = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(gone_within(&pids, Duration::from_secs(5)), [0; 0]);
    assert!(begin.elapsed() > Duration::from_millis(500), "the guardian did it, not the signal");
}

/// As [`wait_gone`], where a zombie that nobody reaps (this process is not a parent of these) counts as gone.
fn gone_within(pids: &[u32], limit: Duration) -> Vec<u32> {
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    };
    let deadline = Instant::now() + limit;
    loop {
        let left: Vec<u32> = pids.iter().copied().filter(runs).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn interrupt_ends_what_is_in_flight() {
    for (number, name) in [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM")] {
        let (mut child, mut output, pids) = coordinator("stuck");
        let begin = Instant::now();
        signal(child.id(), number);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let expected = format!("Interrupted | interrupted by {name} | Some(Interrupted)\n");
        assert_eq!(line, expected);
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
        assert_eq!(wait_gone(&pids, Duration::ZERO), [0; 0], "reaped by the coordinator");
    }
}

fn second_interrupt_ends_at_once() {
    let (mut child, mut output, pids) = coordinator("spin");
    signal(child.id(), libc::SIGINT);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    // A wrapper's echo of the first signal changes nothing.
    signal(child.id(), libc::SIGINT);
    std::thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none());
    signal(child.id(), libc::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    assert_eq!(gone_within(&pids, Duration::from_secs(5)), [0; 0]);
}

fn an_uninvited_rank_says_so() {
    let output = Command::new("/proc/self/exe").arg("__rank=0,1,2").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("only a coordinator can start"), "{said}");
}
