//! `--name`, `--tag`, `--note`: what the user calls a run.

use clap::{Arg, ArgAction, ArgMatches};
use record::Labels;

use crate::Failure;

/// The options of a command that goes on with records, too: those keep their own labels.
pub(crate) fn options() -> [Arg; 3] {
    options_of_new().map(|arg| arg.conflicts_with("resume"))
}

/// The options of a command that makes new records only.
pub(crate) fn options_of_new() -> [Arg; 3] {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    [
        option("name", "NAME", "name of the run, also of its default directory: results/TIME-NAME"),
        option("tag", "TAG", "a tag of the run, kept in the record; repeats").action(ArgAction::Append),
        option("note", "TEXT", "a remark on the run, kept in the record"),
    ]
}

/// The labels that were given.
pub(crate) fn read(matches: &ArgMatches) -> Result<Labels, Failure> {
    let one = |name: &str| matches.get_one::<String>(name).cloned();
    let tags = matches.get_many::<String>("tag").into_iter().flatten().cloned().collect();
    let labels = Labels { name: one("name"), tags, note: one("note") };
    labels.checked().map_err(|(what, rule)| Failure::new(what).hint(rule))
}
