//! `rankmark`: measures, explains and compares how fast distributed deep learning runs.
//!
//! This crate reads arguments and our environment, prints, and exits; everything else is in the crates below.

mod cli;
mod commands;
mod failure;
mod plans;
mod session;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use failure::Failure;

fn main() -> ExitCode {
    let begun = Instant::now();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if launch::is_rank(&arguments) {
        return session::rank(&arguments);
    }
    if launch::survey::is_probe(&arguments) {
        return session::probe(&arguments);
    }
    if let Some(answer) = launch::probe_answer(&arguments) {
        return terminal::print(&answer).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    comm::mpi::inspect_by(launch::inspect_in_child);
    match dispatch(&arguments, begun) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            terminal::complain(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// 0: fine. 1: it ran, and a check or a gate failed. 2: it could not run.
fn dispatch(arguments: &[OsString], begun: Instant) -> Result<u8, Failure> {
    let matches = match cli::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return terminal::usage(&error),
    };
    match matches.subcommand() {
        Some(("run", of)) => commands::run::run(of, begun),
        Some(("comm", of)) => commands::comm::run(of, begun),
        Some(("train", of)) => commands::train::run("training", of, begun),
        Some(("memory", of)) => commands::train::run("memory", of, begun),
        Some(("report", of)) => commands::report::run(of),
        Some(("list", of)) => commands::list::run(of),
        Some(("gen-config", of)) => commands::gen_config::run(of),
        Some(("validate", of)) => commands::validate::run(of),
        Some(("schema", of)) => commands::schema::run(of),
        Some(("completions", of)) => commands::completions::run(of),
        _ => unreachable!("clap requires one of the subcommands above"),
    }
}
