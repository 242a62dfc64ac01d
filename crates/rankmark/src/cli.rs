//! The whole command line, of the table of commands.

mod first_page;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

use crate::commands::Section;
use crate::exit_codes;
use crate::options::fields;
use crate::options::parts::named;

/// The command line with these commands.
pub(crate) fn command(sections: &[Section]) -> Command {
    let declared = |section: &Section| section.rows.iter().flat_map(|row| (row.declare)()).collect::<Vec<_>>();
    named("rankmark")
        .help_template(first_page::template(sections))
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures, explains and compares how fast distributed deep learning runs")
        .after_help(exit_codes::summary())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_long_args(false)
        .args(leading())
        .subcommands(sections.iter().flat_map(declared).map(with_aliases))
}

/// The command with what other tools call its options, and with earlier names of fields. Help does not show them.
fn with_aliases(command: Command) -> Command {
    let names = |arg: &Arg| -> Vec<String> {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect()
    };
    let fields: Vec<_> = benchmarks::abouts().into_iter().flat_map(|about| about.all_fields()).collect();
    let taken: Vec<String> = command.get_arguments().flat_map(names).collect();
    command.mut_args(|arg| {
        let is_it = |field: &str| arg.get_long().is_some() && arg.get_id() == field;
        let meant = record::ALIASES.iter().filter(|(_, field)| is_it(field)).map(|(alias, _)| *alias);
        let was = fields.iter().filter(|field| is_it(field.name)).flat_map(|field| field.was).copied();
        let spellings = meant.chain(was).flat_map(|alias| [alias.to_owned(), alias.replace('_', "-")]);
        let free: BTreeSet<String> = spellings.filter(|name| !taken.contains(name)).collect();
        free.into_iter().fold(arg, Arg::alias)
    })
}

/// The command line for these arguments: `-h` leaves out what is rare.
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
