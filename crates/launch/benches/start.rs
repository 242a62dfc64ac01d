//! How long a world takes to start, to answer a command and to end, and what sealing a long reply costs: `cargo bench -p rankmark-launch`.
//!
//! Starts itself again as the ranks. Medians and the range of the middle 90% of the runs. With RANKMARK_TEST_PYTHON, a Python
//! that has torch, also what worlds of PyTorch ranks take, forked and started one by one.

#![expect(clippy::disallowed_methods, reason = "a bench reads its arguments and prints")]

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use control::{Nonce, Role, Secret};
use launch::LocalStarter;
use measure::{Command, Failure, Probe, RankSide, Reply, World, WorldSpec};

/// Answers at once.
struct Echo;

impl RankSide for Echo {
    fn obey(&mut self, _: &Command) -> Reply {
        Reply::Numbers(vec![1.0])
    }
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if launch::is_rank(&args) {
        let environment = |name: &str| std::env::var_os(name);
        let made = launch::rank_main(&args, &environment, &mut |_| Ok::<Box<dyn RankSide>, Failure>(Box::new(Echo)));
        return ExitCode::from(made.map_or_else(|departure| departure.code() as u8, |()| 0));
    }
    for ranks in [1, 2, 4, 8] {
        let fields = serde_json::json!({"bind": "core"});
        let fields = fields.as_object().cloned().unwrap_or_default();
        let spec = WorldSpec { ranks, fields };
        let (mut starts, mut commands, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..40 {
            let begin = Instant::now();
            let mut world = match LocalStarter::new().start_processes(&spec) {
                Ok(world) => world,
                Err(verdict) => {
                    say(&format!("{verdict}"));
                    return ExitCode::FAILURE;
                }
            };
            starts.push(begin.elapsed());
            for _ in 0..20 {
                let begin = Instant::now();
                if world.command(&Command::Probe(Probe::Overhead), Duration::from_secs(10)).is_err() {
                    return ExitCode::FAILURE;
                }
                commands.push(begin.elapsed());
            }
            let begin = Instant::now();
            drop(world);
            ends.push(begin.elapsed());
        }
        say(&format!("{ranks} ranks: start {}, command {}, end {}", spread(starts), spread(commands), spread(ends)));
    }
    if let Ok(python) = std::env::var("RANKMARK_TEST_PYTHON")
        && let Err(verdict) = torch(&python)
    {
        say(&format!("{verdict}"));
        return ExitCode::FAILURE;
    }
    say(&format!("sealing 100 kB (10,000 samples): {}", spread(seals())));
    ExitCode::SUCCESS
}

/// Two ranks of PyTorch: ranks bound to cores are not forked.
fn torch(python: &str) -> Result<(), measure::Verdict> {
    for (how, bind) in [("forked", "none"), ("one by one", "core")] {
        let fields = serde_json::json!({"runtime": "pytorch", "backend": "gloo", "python": python, "bind": bind});
        let spec = WorldSpec { ranks: 2, fields: fields.as_object().cloned().unwrap_or_default() };
        let starter = LocalStarter::new().limit(Duration::from_secs(120));
        let (mut starts, mut processor) = (Vec::new(), Vec::new());
        for _ in 0..11 {
            let (begin, before) = (Instant::now(), of_children());
            let world = starter.start_processes(&spec)?;
            starts.push(begin.elapsed());
            drop(world);
            processor.push(of_children() - before);
        }
        // The first one also waits until its fork server has imported torch.
        let first = starts.remove(0);
        processor.remove(0);
        let (starts, processor) = (spread(starts), spread(processor));
        say(&format!("2 PyTorch ranks, {how}: first start {first:.2?}, then {starts}, processor time {processor}"));
    }
    Ok(())
}

/// Processor time of children that have ended.
fn of_children() -> Duration {
    // SAFETY: all zeros is a valid rusage, and the call only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Times of sealing one reply of 100 kB; opening it costs the same.
fn seals() -> Vec<Duration> {
    let mut session = Secret::from_bytes([1; 32]).session(Role::Rank, b"hello", &Nonce([2; 32]));
    let reply = vec![b'7'; 100_000];
    let once = |_| {
        let begin = Instant::now();
        std::hint::black_box(session.sealer.seal(&reply).is_ok());
        begin.elapsed()
    };
    (0..200).map(once).collect()
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    format!("{:.2?} ({:.2?}-{:.2?})", at(0.5), at(0.05), at(0.95))
}

fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}
