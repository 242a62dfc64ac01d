//! The whole command line, of the table of commands.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

use crate::commands::Row;
use crate::options::fields;
use crate::options::parts::named;

/// The command line with these commands.
pub(crate) fn command(rows: &[Row]) -> Command {
    named("rankmark")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures, explains and compares how fast distributed deep learning runs")
        .after_help("Exit status: 0 fine, 1 a check or a gate failed, 2 it could not run, 3 a comparison cannot tell.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_long_args(false)
        .args(leading())
        .subcommands(rows.iter().flat_map(|row| (row.declare)()))
}

/// The same for these arguments: `-h` leaves out what is rare.
pub(crate) fn for_arguments(command: Command, arguments: &[OsString]) -> Command {
    match arguments.iter().any(|argument| argument == OsStr::new("-h")) {
        true => command.mut_subcommands(fields::in_short),
        false => command,
    }
}

/// For help and completion only: [`crate::arguments::ordered`] has put them behind the command.
fn leading() -> [Arg; 3] {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    [
        flag("quiet", "print errors only; commands that have it, before or after the command").short('q'),
        flag("verbose", "print more; commands that have it, before or after the command").short('v'),
        flag("json", "JSON on standard output; commands that have it, before or after the command"),
    ]
}
