//! Names of options and commands: those that a wrong one may have been meant to be.

use clap::{Arg, Command};

use crate::arguments::INTERNAL;

/// An argument without its value: `--format` of `--format <FORMAT>`.
pub(super) fn bare(name: &str) -> &str {
    let end = if name.starts_with('-') { name.find([' ', '=', '[']) } else { None };
    &name[..end.unwrap_or(name.len())]
}

/// The argument that clap calls so.
pub(super) fn option_of<'a>(name: &str, command: &'a Command) -> Option<&'a Arg> {
    let wanted = bare(name).trim_start_matches('-');
    let is_short = |arg: &Arg| arg.get_short().is_some_and(|short| wanted == short.to_string());
    command.get_arguments().find(|arg| arg.get_long() == Some(wanted) || is_short(arg))
}

/// The option that a long one may have been meant to be, by its name or by one of other tools.
pub(super) fn nearest_option<'a>(option: &str, command: &'a Command) -> Option<&'a str> {
    let word = option.strip_prefix("--")?;
    let options = || command.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    let named = options().filter(|(_, long)| !INTERNAL.contains(long));
    let names: Vec<(String, &str)> = named
        .flat_map(|(arg, long)| {
            let aliases = arg.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned);
            std::iter::once(long.to_owned()).chain(aliases).map(move |name| (name, long))
        })
        .collect();
    let near = terms::nearest(word, names.iter().map(|(name, _)| name.as_str()))?;
    names.iter().find(|(name, _)| name == near).map(|(_, long)| *long)
}

/// The command that a word may have been meant to be.
pub(super) fn nearest_command<'a>(word: &str, command: &'a Command) -> Option<&'a str> {
    terms::nearest(word, command.get_subcommands().flat_map(Command::get_name_and_visible_aliases))
}
