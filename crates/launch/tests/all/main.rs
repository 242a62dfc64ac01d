//! Worlds of real processes: this program starts itself again as the ranks (and as coordinators that are to be killed).

#![expect(clippy::disallowed_methods, reason = "this program is its own ranks, which print and read variables")]

mod attacks;
mod endings;
mod faults;
mod mpi;
mod play;
mod pytorch;
mod side;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod stalls;
mod talk;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};

/// Delays a rank before it connects, in milliseconds: so that a world takes its time to start.
const DELAY: &str = "LAUNCH_TEST_DELAY";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if launch::is_rank(&args) {
        return be_rank(&args);
    }
    if let Some(answer) = survey::probe_answer(&args) {
        let _ = std::io::stdout().write_all(answer.as_bytes());
        return ExitCode::SUCCESS;
    }
    comm::mpi::inspect_by(survey::inspect_in_child);
    if let Some(coordinator) = args.get(1).and_then(|arg| arg.to_str()?.strip_prefix("coordinator=")) {
        return endings::be_coordinator(coordinator);
    }
    let mut trials: Vec<Trial> = Vec::new();
    for (name, test) in
        [talk::TESTS, faults::TESTS, endings::TESTS, attacks::TESTS, mpi::TESTS, pytorch::TESTS, stalls::TESTS].concat()
    {
        let test: fn() = test;
        trials.push(Trial::test(name, move || {
            test();
            Ok(())
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn be_rank(args: &[OsString]) -> ExitCode {
    if let Some(milliseconds) = std::env::var(DELAY).ok().and_then(|text| text.parse().ok()) {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }
    match launch::rank_main(args, &|name| std::env::var_os(name), &mut side::make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(departure) => {
            let _ = writeln!(std::io::stderr(), "{departure}");
            ExitCode::from(departure.code() as u8)
        }
    }
}
