//! `rankmark completions SHELL`.

use clap::{Arg, Command};
use clap_complete::Shell;

use super::{Ended, Typed};
use crate::screen;
use crate::session::Entry;

/// What clap's script for bash leaves out: values behind a comma, and behind `--option=`.
const BASH_LISTS: &str = include_str!("completions.bash");
/// What offers values in lists in fish.
const FISH_LISTS: &str = include_str!("completions.fish");

/// A completion script for a shell
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// the shell
    shell: Shell,
}

impl Typed for Completions {
    const NAME: &'static str = "completions";

    fn run(self, entry: Entry<'_>) -> Ended {
        let mut script = Vec::new();
        let mut command = (entry.command_line)();
        clap_complete::generate(self.shell, &mut command, "rankmark", &mut script);
        let script = String::from_utf8_lossy(&script);
        let script = match self.shell {
            Shell::Bash => format!("{script}{BASH_LISTS}"),
            Shell::Zsh => zsh_lists(&script),
            Shell::Fish => format!("{script}{FISH_LISTS}{}", fish_values(&command)),
            _ => script.into_owned(),
        };
        screen::print(&script)
    }
}

/// The script with values that zsh completes behind a comma, too: clap's has the first of a list alone.
fn zsh_lists(script: &str) -> String {
    let line = |line: &str| {
        let is_list = line.starts_with("'*--") || line.contains("separated by commas");
        let values = line.rsplit_once(":(").and_then(|(before, rest)| Some((before, rest.split_once(")'")?)));
        match values.filter(|_| is_list) {
            Some((before, (values, behind))) => format!("{before}:_sequence compadd - {values}'{behind}\n"),
            None => format!("{line}\n"),
        }
    };
    script.lines().map(line).collect()
}

/// What clap's script for fish leaves out: values of arguments without a name, and values behind a comma.
fn fish_values(command: &Command) -> String {
    let words = |arg: &Arg| {
        let values = arg.get_possible_values();
        values.iter().map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let mut text = String::new();
    for of in command.get_subcommands() {
        let seen = format!("complete -c rankmark -n \"__fish_rankmark_using_subcommand {}\"", of.get_name());
        for arg in of.get_arguments().filter(|arg| !arg.is_hide_set() && !words(arg).is_empty()) {
            let values = words(arg);
            match arg.get_long() {
                _ if arg.is_positional() => {
                    text.push_str(&format!("{seen} -f -a \"(__rankmark_list {values})\"\n"));
                }
                Some(long) if arg.get_action().takes_values() => {
                    text.push_str(&format!("{seen} -l {long} -r -f -a \"(__rankmark_list {values})\"\n"));
                }
                _ => {}
            }
        }
    }
    text
}
