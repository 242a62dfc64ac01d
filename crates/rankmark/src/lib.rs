//! `rankmark`: measures, explains and compares how fast distributed deep learning runs.
//!
//! This crate reads arguments and our environment, prints, and exits; everything else is in the crates below.

#![expect(clippy::disallowed_methods, reason = "the one crate that prints and reads the environment")]

mod arguments;
mod cli;
mod commands;
mod directory;
mod dry_run;
mod environment;
mod exports;
mod external;
mod failure;
mod foreign;
mod given;
mod habits;
mod hardware;
mod labels;
mod next;
mod only;
mod outputs;
mod placement;
mod plans;
mod restart;
mod session;
mod terminal;
mod typesetter;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use external::Part;
use failure::Failure;
use session::Entry;

/// The program: reads the arguments, does what they say, and gives the exit status.
pub fn main() -> ExitCode {
    let begun = Instant::now();
    // Refused only where the kernel knows no such signal.
    let _ = process::interrupt::outlive_file_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if launch::is_rank(&arguments) {
        return session::rank(&arguments);
    }
    if survey::is_probe(&arguments) {
        return session::probe(&arguments);
    }
    if let Some(answer) = survey::probe_answer(&arguments) {
        return terminal::print(&answer).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    terminal::choose_colours();
    comm::mpi::inspect_by(survey::inspect_in_child);
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        measure::machine::show_gpus(&visible);
    }
    let arguments = match arguments::of_others(arguments::ordered(arguments)) {
        Ok(arguments) => arguments,
        Err(failure) => return ExitCode::from(told(Err(failure), false)),
    };
    let as_json = asks_for_json(&arguments);
    match external::part(&arguments) {
        Ok(Part::Alone) => ExitCode::from(told(dispatch(&arguments, Entry { begun, coordinator: None }), as_json)),
        Ok(Part::Idle) => ExitCode::SUCCESS,
        Ok(Part::Agent(external)) => external::agent(&external, &arguments),
        Ok(Part::Coordinator(external)) => ExitCode::from(lead(external, &arguments, begun)),
        Err(failure) => ExitCode::from(told(Err(failure), as_json)),
    }
}

/// Leads a run with ranks that a launcher started; all of its processes end with the same code.
fn lead(external: launch::external::External, arguments: &[OsString], begun: Instant) -> u8 {
    let coordinator = match external::gather(external) {
        Ok(coordinator) => coordinator,
        Err(failure) => return told(Err(failure), asks_for_json(arguments)),
    };
    let arguments = launch::external::coordinator_arguments(arguments);
    let code = told(dispatch(&arguments, Entry { begun, coordinator: Some(&coordinator) }), asks_for_json(&arguments));
    coordinator.dismiss(code);
    code
}

/// Whether `--json` is among the arguments. Asked before they are read, because what is wrong with them is an error, too.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

fn told(ended: Result<u8, Failure>, as_json: bool) -> u8 {
    ended.unwrap_or_else(|failure| {
        terminal::complain(&failure, as_json);
        failure.code
    })
}

/// 0: fine. 1: it ran, and a check or a gate failed. 2: it could not run.
fn dispatch(arguments: &[OsString], entry: Entry<'_>) -> Result<u8, Failure> {
    let matches = match cli::command_for(arguments).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => match habits::answer(arguments).filter(|_| error.use_stderr()) {
            Some(failure) => return Err(failure),
            None => return terminal::usage(error, asks_for_json(arguments)),
        },
    };
    match matches.subcommand() {
        Some(("run", of)) => commands::run::run(of, entry),
        Some(("profile", of)) => commands::profile::run(of, entry),
        Some(("report", of)) => commands::report::run(of),
        Some(("compare", of)) => commands::compare::run(of, entry),
        Some(("baseline", of)) => commands::baseline::run(of),
        Some(("history", of)) => commands::history::run(of),
        Some(("watch", of)) => commands::watch::run(of),
        Some(("import", of)) => commands::import::run(of, commands::profile::imported),
        Some(("merge", of)) => commands::merge::run(of),
        Some(("pack", of)) => commands::pack::run(of),
        Some(("list", of)) => commands::list::run(of),
        Some(("gen-config", of)) => commands::gen_config::run(of),
        Some(("gen-job", of)) => commands::gen_job::run(of),
        Some(("validate", of)) => commands::validate::run(of),
        Some(("version", of)) => commands::version::run(of),
        Some(("man", of)) => commands::man::run(of),
        Some(("schema", of)) => commands::schema::run(of),
        Some(("completions", of)) => commands::completions::run(of),
        Some((name, of)) => commands::measured::run(name, of, entry),
        None => unreachable!("clap requires a subcommand"),
    }
}
