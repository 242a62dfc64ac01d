//! Parts that declarations of commands share.

use clap::{Arg, ArgMatches, Args, Command};

use crate::Failure;

/// A command. Elsewhere clap's type would look like the one that starts processes (`cargo xtask tidy`).
pub(crate) fn named(name: &'static str) -> Command {
    Command::new(name)
}

/// The arguments that a type declares. Where they stand in help is left to the command that takes them.
pub(crate) fn arguments<T: Args>() -> Vec<Arg> {
    T::augment_args(named("").next_display_order(None)).get_arguments().cloned().collect()
}

/// What clap read, as the type that declared it.
///
/// # Errors
/// Where clap has no such argument: a fault of the declaration.
pub(crate) fn read<T: Args>(matches: &ArgMatches) -> Result<T, Failure> {
    T::from_arg_matches(matches).map_err(|error| Failure::new("the arguments cannot be read").cause(error))
}
