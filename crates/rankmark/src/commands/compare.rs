//! `rankmark compare`: better, worse, same, or cannot tell.

mod interleave;

use clap::{Arg, ArgMatches, Command, ValueHint};

use crate::Failure;
use crate::cli::parts::named;
use crate::session::Entry;

pub(crate) fn command() -> Command {
    let sides = Arg::new("sides").value_name("PLAN").num_args(1..).required(true).value_hint(ValueHint::FilePath);
    named("compare")
        .about("Says of each case of two sides: better, worse, same, or cannot tell")
        .before_help(interleave::EXAMPLES)
        .after_help("Exit status: 0 all the same or better, 1 any worse, 2 it could not run, 3 cannot tell.")
        .arg(sides.help("a plan; two of them are side A and side B"))
        .args(interleave::arguments())
}

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    interleave::run(matches, entry)
}
