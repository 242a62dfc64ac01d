//! Parts of commands that are declared in modules of their own.

use clap::{Arg, ArgAction, Command};

/// A command. Elsewhere clap's type would look like the one that starts processes (`cargo xtask tidy`).
pub(crate) fn named(name: &'static str) -> Command {
    Command::new(name)
}

/// `--json`.
pub(crate) fn json() -> Arg {
    Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON on standard output")
}
