//! What the tests' coordinators share: starting worlds, cases that tell ranks what to do, and looking at processes.

use std::time::{Duration, Instant};

use launch::{LocalStarter, ProcessWorld};
use measure::{Command, Reply, Verdict, World, WorldSpec};
use record::Case;
use serde_json::{Value, json};

/// Long enough for every good answer on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A table entry: a test and its name.
pub(crate) type Test = (&'static str, fn());

/// A world with these fields.
pub(crate) fn spec(ranks: u32, fields: Value) -> WorldSpec {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    WorldSpec { ranks, fields }
}

/// Starts a plain world.
pub(crate) fn start(ranks: u32) -> ProcessWorld {
    LocalStarter::new().start_processes(&spec(ranks, json!({}))).unwrap()
}

/// A case that tells ranks what to do.
pub(crate) fn case(what: &str, parameters: Value) -> Case {
    let Value::Object(parameters) = parameters else { panic!("parameters are an object") };
    Case::new(what, parameters.into())
}

/// Lets all ranks do it; the paths that they answer.
pub(crate) fn act(world: &mut ProcessWorld, what: &str, parameters: Value) -> Result<Vec<String>, Verdict> {
    act_within(world, what, parameters, LONG)
}

/// As [`act`], within this time.
pub(crate) fn act_within(
    world: &mut ProcessWorld,
    what: &str,
    parameters: Value,
    limit: Duration,
) -> Result<Vec<String>, Verdict> {
    let replies = world.command(&Command::Prepare { case: Box::new(case(what, parameters)), check: true }, limit)?;
    Ok(replies.into_iter().map(|reply| if let Reply::Ready(ready) = reply { ready.path } else { panic!() }).collect())
}

/// Whether a process of this number exists (a zombie does).
pub(crate) fn exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits until none of them exists; those that still do after `limit`.
pub(crate) fn wait_gone(pids: &[u32], limit: Duration) -> Vec<u32> {
    let deadline = Instant::now() + limit;
    loop {
        let left: Vec<u32> = pids.iter().copied().filter(|pid| exists(*pid)).collect();
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, signal: i32) {
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "pid {pid}");
}
