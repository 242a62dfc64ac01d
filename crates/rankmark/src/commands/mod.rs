//! One module a command: its arguments as a type, and what it does. The table of all stands in lib.rs.

pub(crate) mod baseline;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod fleet;
pub(crate) mod gen_config;
pub(crate) mod gen_job;
pub(crate) mod hang;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod measured;
pub(crate) mod merge;
pub(crate) mod pack;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod watch;

use clap::ArgMatches;

use crate::Failure;
use crate::options::parts;
use crate::session::Entry;

/// What a command leaves: the exit status.
pub(crate) type Ended = Result<u8, Failure>;

/// A command whose arguments are a type.
pub(crate) trait Typed: clap::Args {
    /// What users write.
    const NAME: &'static str;
    /// Does it.
    fn run(self, entry: Entry<'_>) -> Ended;
}

/// A line of the table of commands.
pub(crate) struct CommandRow {
    /// The command as clap knows it: one, or each that benchmarks declare.
    pub(crate) declare: fn() -> Vec<clap::Command>,
    /// Does what was read, if the name is of this row.
    pub(crate) run: fn(&str, &ArgMatches, Entry<'_>) -> Option<Ended>,
}

/// Commands that stand together in help.
pub(crate) struct Section {
    /// Title of the section; None: help names the commands, and shows no line of them.
    pub(crate) heading: Option<&'static str>,
    /// The commands, in their order.
    pub(crate) rows: &'static [CommandRow],
}

impl CommandRow {
    /// A command with arguments of this type.
    pub(crate) const fn typed<T: Typed>() -> Self {
        Self {
            declare: || vec![T::augment_args(parts::named(T::NAME))],
            run: |name, matches, entry| (name == T::NAME).then(|| parts::read::<T>(matches)?.run(entry)),
        }
    }
}
