//! `rankmark completions SHELL`.

use clap::ArgMatches;
use clap_complete::Shell;

use crate::{Failure, cli, terminal};

/// What clap's script for bash leaves out: values behind a comma, and behind `--option=`.
const BASH_LISTS: &str = include_str!("completions.bash");

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let Some(shell) = matches.get_one::<Shell>("shell").copied() else { return Ok(2) };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "rankmark", &mut script);
    if shell == Shell::Bash {
        script.extend_from_slice(BASH_LISTS.as_bytes());
    }
    terminal::print(&String::from_utf8_lossy(&script))
}
