//! Every command that the documentation shows is one that this program takes: names of commands and options, and values
//! that clap checks. `tests/all/documented.rs` also runs them.

#[path = "../../tests/all/blocks.rs"]
mod blocks;

use std::ffi::OsString;

use clap::Command;

use crate::{arguments, cli, command_line};

/// What the program says of these arguments before it does anything.
fn parsed(whole: &Command, words: &[String]) -> Result<(), String> {
    let arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
    let arguments = arguments::of_others(arguments::ordered(arguments)).map_err(|failure| failure.on_one_line())?;
    let command = cli::for_arguments(whole.clone(), &arguments);
    match command.try_get_matches_from(&arguments) {
        Ok(_) => Ok(()),
        Err(said) if crate::is_help(&said, false) => Ok(()),
        Err(said) => Err(said.to_string()),
    }
}

#[test]
fn commands_of_blocks_are_understood() {
    let whole = command_line();
    let mut count = 0;
    let mut problems = Vec::new();
    for block in blocks::pages().iter().flat_map(|page| blocks::blocks(page)) {
        for words in blocks::commands(&block.text).iter().filter_map(|words| blocks::of_the_program(words)) {
            count += 1;
            problems.extend(
                parsed(&whole, &words).err().map(|said| format!("{}: {}\n{said}", block.place, words.join(" "))),
            );
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 100, "{count} commands");
}

#[test]
fn commands_in_the_text_are_understood() {
    let whole = command_line();
    let mut count = 0;
    let mut problems = Vec::new();
    let commands = blocks::pages().into_iter().flat_map(|page| blocks::in_text(&page, "rankmark "));
    for (place, words) in
        commands.flat_map(|(place, commands)| commands.into_iter().map(move |words| (place.clone(), words)))
    {
        // `rankmark run ...`: the rest is the reader's. With a backslash it is a line of a protocol.
        if words.iter().any(|word| word.contains("...") || word.contains('\\')) {
            continue;
        }
        count += 1;
        let problem = parsed(&whole, &words).err().filter(|said| !is_outline(said));
        problems.extend(problem.map(|said| format!("{place}: {}\n{said}", words.join(" "))));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 100, "{count} commands");
}

/// Whether a text names a command or an option without its arguments, or with a word in capitals for one: `rankmark
/// report DIR --format NAME`. Or it is a command for a machine with more GPUs.
fn is_outline(said: &str) -> bool {
    let placeholders = ["error: invalid value '", "error: unrecognized subcommand '"];
    let word = placeholders.iter().find_map(|head| said.strip_prefix(head)?.split('\'').next());
    said.starts_with("error: the following required arguments were not provided")
        || said.starts_with("error: a value is required for")
        || said.contains("need a GPU each, and this machine has")
        || word.is_some_and(|word| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_uppercase()))
}

#[test]
fn a_misspelt_command_is_not_understood() {
    let whole = command_line();
    let parsed = |line: &str| parsed(&whole, &line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(parsed("rankmark comm all_reduce --bytes 1KiB"), Ok(()));
    assert!(parsed("rankmark com all_reduce").is_err());
    assert!(parsed("rankmark comm all_reduce --byte-sizes 1KiB").is_err());
    assert!(parsed("rankmark gen-config slow").is_err());
}
