//! `rankmark completions SHELL`.

use clap::ArgMatches;

use crate::{Failure, cli, terminal};

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let Some(shell) = matches.get_one::<clap_complete::Shell>("shell").copied() else { return Ok(2) };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "rankmark", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
