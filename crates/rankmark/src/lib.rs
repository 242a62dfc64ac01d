//! `rankmark`: measures, explains and compares how fast distributed deep learning runs.
//!
//! This crate reads arguments and our environment, prints, and exits; everything else is in the crates below.

#![expect(clippy::disallowed_methods, reason = "the one crate that prints and reads the environment")]

mod arguments;
mod cli;
mod commands;
mod environment;
mod exit_codes;
mod external;
mod failure;
mod habits;
mod incomplete;
mod options;
mod packed;
mod plan_files;
mod screen;
mod session;
#[cfg(test)]
mod tests;
mod usage;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use commands::{CommandRow, Section};
use external::ProcessRole;
use failure::Failure;
use report::not_a_record;
use session::Entry;

/// The commands, in the groups and the order of help. A new one is its module and a line here.
const COMMANDS: &[Section] = &[
    Section {
        heading: Some("Measure"),
        rows: &[
            commands::run::ROW,
            commands::measured::ROW,
            CommandRow::typed::<commands::calibrate::Calibrate>(),
            CommandRow::typed::<commands::fleet::Fleet>(),
            CommandRow::typed::<commands::watch::Watch>(),
        ],
    },
    Section {
        heading: Some("Explain"),
        rows: &[
            commands::profile::ROW,
            CommandRow::typed::<commands::predict::Predict>(),
            CommandRow::typed::<commands::hang::Hang>(),
            CommandRow::typed::<commands::report::Report>(),
            CommandRow::typed::<commands::history::History>(),
        ],
    },
    Section {
        heading: Some("Compare and share"),
        rows: &[
            commands::compare::ROW,
            CommandRow::typed::<commands::baseline::Baseline>(),
            CommandRow::typed::<commands::import::Import>(),
            CommandRow::typed::<commands::pack::Pack>(),
        ],
    },
    Section {
        heading: Some("Set up"),
        rows: &[
            CommandRow::typed::<commands::validate::Validate>(),
            CommandRow::typed::<commands::list::List>(),
            CommandRow::typed::<commands::gen_config::GenConfig>(),
            CommandRow::typed::<commands::gen_job::GenJob>(),
            CommandRow::typed::<commands::version::VersionCommand>(),
        ],
    },
    // Rare: help only names them.
    Section {
        heading: None,
        rows: &[
            CommandRow::typed::<commands::merge::Merge>(),
            CommandRow::typed::<commands::man::Man>(),
            CommandRow::typed::<commands::schema::Schema>(),
            CommandRow::typed::<commands::completions::Completions>(),
        ],
    },
];

/// The whole command line, as help, completion and manual pages show it.
fn command_line() -> clap::Command {
    cli::command(COMMANDS)
}

/// The program: reads the arguments, does what they say, and gives the exit status.
pub fn main() -> ExitCode {
    let begun = Instant::now();
    // Refused only where the kernel knows no such signal.
    let _ = process::interrupt::outlive_file_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    comm::surrounded_by(environment::of_gpus);
    if launch::is_rank(&arguments) {
        return session::rank(&arguments);
    }
    if survey::is_probe(&arguments) {
        return session::probe(&arguments);
    }
    if let Some(answer) = survey::probe_answer(&arguments) {
        return screen::print(&answer).map_or(ExitCode::FAILURE, ExitCode::from);
    }
    screen::choose_colours();
    comm::mpi::inspect_by(survey::inspect_in_child);
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        measure::machine::show_gpus(&visible);
    }
    let arguments = match arguments::of_others(arguments::ordered(arguments)) {
        Ok(arguments) => arguments,
        Err(failure) => return ExitCode::from(report_end(Err(failure), false)),
    };
    let as_json = asks_for_json(&arguments);
    match external::part(&arguments) {
        Ok(ProcessRole::Alone) => {
            ExitCode::from(report_end(dispatch(&arguments, Entry { begun, coordinator: None, command_line }), as_json))
        }
        Ok(ProcessRole::Idle) => ExitCode::SUCCESS,
        Ok(ProcessRole::Agent(external)) => external::agent(&external, &arguments),
        Ok(ProcessRole::Coordinator(external)) => ExitCode::from(lead(external, &arguments, begun)),
        Err(failure) => ExitCode::from(report_end(Err(failure), as_json)),
    }
}

/// Leads a run with ranks that a launcher started; all of its processes end with the same code.
fn lead(external: launch::external::External, arguments: &[OsString], begun: Instant) -> u8 {
    let coordinator = match external::gather(external) {
        Ok(coordinator) => coordinator,
        Err(failure) => return report_end(Err(failure), asks_for_json(arguments)),
    };
    let arguments = launch::external::coordinator_arguments(arguments);
    let code = report_end(
        dispatch(&arguments, Entry { begun, coordinator: Some(&coordinator), command_line }),
        asks_for_json(&arguments),
    );
    coordinator.dismiss(code);
    code
}

/// Whether `--json` is among the arguments. Asked before they are read, because what is wrong with them is an error, too.
fn asks_for_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

fn report_end(ended: Result<u8, Failure>, as_json: bool) -> u8 {
    ended.unwrap_or_else(|failure| {
        screen::complain(&failure, as_json);
        failure.code
    })
}

/// Whether what clap says is help or a version: also where a command is missing, unless a program reads the answer.
fn is_help(said: &clap::Error, as_json: bool) -> bool {
    let missing = said.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    !said.use_stderr() || (missing && !as_json)
}

/// 0: fine. 1: it ran, and a check or a gate failed. 2: it could not run.
fn dispatch(arguments: &[OsString], entry: Entry<'_>) -> Result<u8, Failure> {
    let command = cli::for_arguments(command_line(), arguments);
    let matches = match command.clone().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) if is_help(&error, asks_for_json(arguments)) => return screen::help(&error),
        Err(error) => {
            let answer = habits::answer(&error, arguments, &command);
            return Err(answer.unwrap_or_else(|| usage::failure(&error, command, arguments)));
        }
    };
    let (name, of) = matches.subcommand().expect("clap requires a subcommand");
    let mut rows = COMMANDS.iter().flat_map(|section| section.rows);
    let ended = rows.find_map(|row| (row.run)(name, of, entry));
    ended.expect("clap knows the commands of the table alone")
}
