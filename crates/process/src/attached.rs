//! A program that has this terminal: what the user asked to run, and waits for.

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

/// How often a caller looks at what the program does.
const TICK: Duration = Duration::from_millis(250);
/// How often orphans that have ended are looked for.
const REAPING: Duration = Duration::from_secs(5);
/// After Ctrl-C, which a terminal sends to the program, too: so long it has to end by itself.
const BY_ITSELF: Duration = Duration::from_secs(1);
/// After the first signal, all of the program is gone by then.
const GONE: Duration = Duration::from_millis(4500);

/// Runs a program with this process's standard input and errors, its environment and `variables`, and waits for its end.
/// `output` is where its standard output goes. The program stays in this process's group, so that Ctrl-C of the terminal
/// reaches it. `tick` is called several times a second.
///
/// When this process is asked to end ([`interrupt`]), all processes of the program are: launchers start ranks in groups and
/// sessions of their own, and leave them behind. What is left after some seconds is killed.
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
    // Ranks of a launcher that is killed become children of this process, and are found below it.
    let _adoption = Adoption::begin()?;
    watch(Process::watch(command.spawn()?.id())?, tick)
}

fn watch(mut process: Process, tick: &mut dyn FnMut()) -> io::Result<Ended> {
    let mut ending = Ending::default();
    let mut set = PollSet::default();
    let mut reaped = Instant::now();
    loop {
        if let Some(exit) = process.exit() {
            ending.kill_rest();
            return match exit {
                Exit::Code(code) => Ok(Ended::Code(code)),
                Exit::Signal(signal) => Ok(Ended::Signal(signal)),
                // Only another's child ends so.
                Exit::Unknown => Err(rustix::io::Errno::CHILD.into()),
            };
        }
        ending.look();
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

/// The end that somebody asked for.
#[derive(Default)]
struct Ending {
    since: Option<Instant>,
    was_asked: bool,
}

impl Ending {
    /// Does what is due.
    fn look(&mut self) {
        let Some(signal) = interrupt::requested() else { return };
        let since = *self.since.get_or_insert_with(Instant::now);
        let by_itself = if signal == libc::SIGINT { BY_ITSELF } else { Duration::ZERO };
        if !self.was_asked && since.elapsed() >= by_itself {
            self.was_asked = true;
            signal_all(Signal::TERM);
        }
        if since.elapsed() >= GONE {
            signal_all(Signal::KILL);
        }
    }

    /// Kills what the program leaves behind, if it was asked to end. Ranks that write what they have get their time.
    fn kill_rest(&mut self) {
        let Some(since) = self.since else { return };
        while !living().is_empty() && since.elapsed() < GONE {
            std::thread::sleep(Duration::from_millis(20));
            reap(0);
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
    for pid in living().into_iter().filter_map(|one| to_pid(one.pid)) {
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
    use super::*;

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
