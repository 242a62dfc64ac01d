//! A program that has this terminal: what the user asked to run, and waits for.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::adopt::Adoption;
use crate::ancestors::{Below, below};
use crate::child::Ended;
use crate::interrupt;
use crate::pidfd::{Exit, Process};
use crate::poll::{Interest, PollSet};
use crate::signal::keep_children;

/// How often a caller looks at what the program does.
const TICK: Duration = Duration::from_millis(250);
/// How often orphans that have ended are looked for.
const REAPING: Duration = Duration::from_secs(5);
/// After Ctrl-C, which a terminal sends to the program, too: so long it has to end by itself.
const BY_ITSELF: Duration = Duration::from_secs(1);
/// What the program leaves behind is looked at often for so long, and then as often as [`TICK`].
const OFTEN: Duration = Duration::from_secs(1);
/// Slurm and Kubernetes kill this process 30 s after their signal: a few seconds are left to say what happened.
const GRACE: Grace = Grace { alone: Duration::from_secs(20), gone: Duration::from_secs(24) };

/// Runs a program with this process's standard input and errors, its environment and `variables`, and waits for its end.
/// `output` is where its standard output goes. The program stays in this process's group, so that Ctrl-C of the terminal
/// reaches it. `tick` is called several times a second.
///
/// When this process is asked to end ([`interrupt`]), the program is, too, and it alone: it tells its own processes, and may
/// save its state first. Once it has ended, what it leaves behind is asked to end: launchers start ranks in groups and sessions
/// of their own. What is left 24 s after the signal is killed.
///
/// # Errors
/// When it cannot be started.
pub fn attached(
    program: &OsStr,
    arguments: &[OsString],
    variables: &[(&str, OsString)],
    output: Stdio,
    tick: &mut dyn FnMut(),
) -> io::Result<Ended> {
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().map(|(name, value)| (name, value))).stdout(output);
    run(command, GRACE, tick)
}

fn run(mut command: Command, grace: Grace, tick: &mut dyn FnMut()) -> io::Result<Ended> {
    keep_children()?;
    // Ranks of a launcher that is killed become children of this process, and are found below it.
    let _adoption = Adoption::begin()?;
    watch(Process::watch(command.spawn()?.id())?, grace, tick)
}

fn watch(mut process: Process, grace: Grace, tick: &mut dyn FnMut()) -> io::Result<Ended> {
    let mut ending = Ending { grace, since: None, was_asked: false, were_all_asked: false };
    let mut set = PollSet::default();
    let mut reaped = Instant::now();
    loop {
        if let Some(exit) = process.exit() {
            ending.end_rest();
            return match exit {
                Exit::Code(code) => Ok(Ended::Code(code)),
                Exit::Signal(signal) => Ok(Ended::Signal(signal)),
                // Another waited for it, which nobody in this program does.
                Exit::Unknown => Err(rustix::io::Errno::CHILD.into()),
            };
        }
        ending.look(&process);
        tick();
        if reaped.elapsed() >= REAPING {
            reap(process.pid());
            reaped = Instant::now();
        }
        set.clear();
        set.add(process.descriptor(), Interest::Read);
        // Once it has rung it is readable for ever.
        if let Some(alarm) = interrupt::descriptor().filter(|_| ending.since.is_none()) {
            set.add(alarm, Interest::Read);
        }
        set.wait(Some(TICK))?;
    }
}

/// How long a program may take to end, from the first signal on.
#[derive(Clone, Copy)]
struct Grace {
    /// So long it is left alone with its own processes.
    alone: Duration,
    /// By then nothing of it is left.
    gone: Duration,
}

/// The end that somebody asked for.
struct Ending {
    grace: Grace,
    since: Option<Instant>,
    was_asked: bool,
    were_all_asked: bool,
}

impl Ending {
    /// Does what is due.
    fn look(&mut self, program: &Process) {
        let Some(signal) = interrupt::requested() else { return };
        let since = *self.since.get_or_insert_with(Instant::now);
        // A terminal sends Ctrl-C to the program, too.
        let (by_itself, passed) = match signal {
            libc::SIGINT => (BY_ITSELF, libc::SIGTERM),
            _ => (Duration::ZERO, signal),
        };
        if !self.was_asked && since.elapsed() >= by_itself {
            self.was_asked = true;
            // Not its workers: a rank that loses one fails while it saves its state. Where Slurm has signalled all processes of
            // a step, this is the program's second signal: torchrun obeys two as it obeys one.
            program.signal(passed);
        }
        if !self.were_all_asked && since.elapsed() >= self.grace.alone {
            self.were_all_asked = true;
            signal_all(Signal::TERM);
        }
        if since.elapsed() >= self.grace.gone {
            signal_all(Signal::KILL);
        }
    }

    /// Ends what the program leaves behind, if it was asked to end. Ranks that save their state get their time.
    fn end_rest(&self) {
        if interrupt::requested().is_none() {
            return;
        }
        let begun = Instant::now();
        // Where the signal reached both, the program may have ended before this process looked.
        let since = self.since.unwrap_or(begun);
        let mut asked = BTreeSet::new();
        loop {
            reap(0);
            let left = living();
            if left.is_empty() || since.elapsed() >= self.grace.gone {
                break;
            }
            // The processes below them are theirs to end. Those that they leave become children of this process.
            let new = left.iter().filter(|one| one.is_child && asked.insert(one.pid));
            new.for_each(|one| send(one.pid, Signal::TERM));
            std::thread::sleep(if begun.elapsed() < OFTEN { Duration::from_millis(20) } else { TICK });
        }
        signal_all(Signal::KILL);
    }
}

/// The processes of the program.
fn living() -> Vec<Below> {
    below(std::process::id()).into_iter().filter(|one| !one.is_zombie).collect()
}

/// Sends a signal to all processes of the program.
fn signal_all(signal: Signal) {
    living().into_iter().for_each(|one| send(one.pid, signal));
}

/// Sends a signal to a process of the program.
fn send(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        // One that is gone needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Orphans that have ended are children of this process, which nobody else waits for. `but`: somebody waits for this one.
fn reap(but: u32) {
    let orphans = below(std::process::id()).into_iter().filter(|one| one.is_child && one.is_zombie && one.pid != but);
    for pid in orphans.filter_map(|one| to_pid(one.pid)) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;
    use crate::signal::ignore;
    use crate::start::ITSELF;

    /// The process that started this one may have ignored SIGCHLD: the system would forget how the program ended.
    #[test]
    fn a_program_that_fails_is_seen_to_fail_where_sigchld_was_ignored() {
        let mut again = Command::new(ITSELF);
        again.args(["--exact", "attached::tests::how_it_ended_and_that_it_saw_the_variables"]);
        // SAFETY: the closure makes one system call between fork and exec: no allocation, no locks.
        unsafe { again.pre_exec(|| ignore(libc::SIGCHLD)) };
        let said = again.output().unwrap();
        let out = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success() && out.contains("1 passed"), "{out}");
    }

    /// Runs a test of this module in a process of its own: it takes a signal, and ends all processes below it.
    fn apart(name: &str) {
        let name = format!("attached::tests::{name}");
        let said = Command::new(ITSELF).args(["--exact", "--ignored", name.as_str()]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
        assert!(said.status.success() && out.contains("1 passed"), "{out}{err}");
    }

    /// How a script of a shell ends that asks this process to end, and how long that takes. Nothing of it is left.
    fn asked_to_end(script: &str, grace: Grace) -> (Ended, Duration) {
        interrupt::install().unwrap();
        let mut command = Command::new("/bin/sh");
        // What it leaves behind must not hold the output of this process.
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let ended = run(command, grace, &mut || ()).unwrap();
        let took = begun.elapsed();
        // What was killed at last may take a moment.
        let is_gone = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            living().is_empty()
        });
        assert!(is_gone, "{:?}", living());
        (ended, took)
    }

    #[test]
    fn a_program_that_is_asked_to_end_saves_its_state_with_its_workers() {
        apart("it_saves_its_state_with_its_workers");
    }

    #[test]
    #[ignore = "a test above runs it in a process of its own"]
    fn it_saves_its_state_with_its_workers() {
        let grace = Grace { alone: Duration::from_secs(10), gone: Duration::from_secs(15) };
        let script = "setsid sleep 30 & worker=$!\n\
                      trap 'sleep 0.3; kill -0 $worker && exit 7; exit 8' TERM\n\
                      kill -TERM $PPID\n\
                      while :; do sleep 0.05; done";
        let (ended, took) = asked_to_end(script, grace);
        assert_eq!(ended, Ended::Code(7), "8: the worker was signalled while the program saved its state");
        assert!(took < grace.alone, "the worker is asked as soon as the program has left it behind: {took:?}");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_all_that_it_started() {
        apart("it_is_killed_with_all_that_it_started");
    }

    #[test]
    #[ignore = "a test above runs it in a process of its own"]
    fn it_is_killed_with_all_that_it_started() {
        let grace = Grace { alone: Duration::from_millis(300), gone: Duration::from_millis(600) };
        let script = "trap '' TERM\nsetsid sleep 30 &\nkill -TERM $PPID\nsleep 30\nsleep 30";
        let (ended, took) = asked_to_end(script, grace);
        assert_eq!(ended, Ended::Signal(libc::SIGKILL));
        assert!(took >= grace.gone, "{took:?}");
    }

    #[test]
    fn how_it_ended_and_that_it_saw_the_variables() {
        let sh = |script: &str| {
            let arguments = ["-c".into(), script.into()];
            attached(OsStr::new("/bin/sh"), &arguments, &[("NEW", "7".into())], Stdio::inherit(), &mut || ())
        };
        assert!(matches!(sh("exit $NEW").unwrap(), Ended::Code(7)));
        assert!(matches!(sh("kill -TERM $$").unwrap(), Ended::Signal(15)));
        assert!(attached(OsStr::new("/no/such/program"), &[], &[], Stdio::null(), &mut || ()).is_err());
    }

    #[test]
    fn a_caller_looks_while_it_waits() {
        let mut looks = 0;
        let mut tick = || looks += 1;
        attached(OsStr::new("/bin/sleep"), &["1".into()], &[], Stdio::null(), &mut tick).unwrap();
        assert!(looks >= 2, "{looks}");
    }
}
