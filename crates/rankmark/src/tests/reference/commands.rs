//! A page for each command, from what clap knows of it.

use clap::{Arg, Command};

use super::markdown::{cell, code, plain, table};
use crate::COMMANDS;
use crate::options::fields;

/// How far pages of commands lie below docs.
const DEPTH: usize = 2;

/// The commands in the groups of help, each with its page.
pub(super) fn index() -> String {
    let mut text = String::new();
    for section in COMMANDS {
        text += &format!("## {}\n\n", section.heading.unwrap_or("More commands"));
        let declared = section.rows.iter().flat_map(|row| (row.declare)());
        let row = |command: Command| {
            let name = command.get_name();
            vec![format!("[`rankmark {name}`](commands/{name}.md)"), cell(&about(&command), 1)]
        };
        text += &format!("{}\n", table(&["command", "does"], declared.map(row)));
    }
    text
}

/// The name of each page's file, and the page.
pub(super) fn pages() -> Vec<(String, String)> {
    let mut whole = crate::command_line();
    whole.build();
    let listed = whole.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    listed.map(|command| (format!("{}.md", command.get_name()), page(command))).collect()
}

fn page(command: &Command) -> String {
    let name = format!("rankmark {}", command.get_name());
    let mut text = format!("# {name}\n\n{}", body(command, &name, "##"));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        let name = format!("{name} {}", below.get_name());
        text += &format!("## {name}\n\n{}", body(below, &name, "###"));
    }
    format!("{}\n", text.trim_end())
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn body(command: &Command, name: &str, heading: &str) -> String {
    let mut text = format!("{}.\n\n", plain(about(command).trim_end_matches('.'), DEPTH));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        text += &format!("Other names: {}.\n\n", aliases.join(", "));
    }
    let usage = command.clone().bin_name(name).render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").split('\n').map(str::trim).collect::<Vec<_>>().join("\n");
    text += &format!("```text\n{usage}\n```\n\n");
    if let Some(before) = command.get_before_help() {
        text += &examples(&before.to_string());
    }
    for (title, arguments) in by_heading(command) {
        let rows = arguments.into_iter().map(|argument| vec![code(&shown(argument)), help(argument)]);
        text += &format!("{heading} {title}\n\n{}\n", table(&["option", "what it does"], rows));
    }
    if fields::measured(command.get_name()).is_some() {
        text += "[Fields of a case](../fields.md) has all values of each option that is a field.\n\n";
    }
    if let Some(after) = command.get_after_help() {
        text += &format!("{heading} Notes\n\n{}\n\n", notes(&after.to_string()));
    }
    text
}

/// The heading of examples as a sentence, and the lines as they stand in help.
fn examples(text: &str) -> String {
    let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
    format!("{}\n\n```text\n{lines}\n```\n\n", plain(head, DEPTH))
}

/// Paragraphs; lines that begin with a blank are shown as they are.
fn notes(text: &str) -> String {
    let mut made = String::new();
    let mut in_block = false;
    for line in text.trim_end().lines() {
        let indented = line.starts_with("  ");
        if indented != in_block {
            made += if indented { "\n```text\n" } else { "```\n\n" };
            in_block = indented;
        }
        made += &if indented { line.to_owned() } else { plain(line, DEPTH) };
        made.push('\n');
    }
    if in_block { made + "```" } else { made.trim_end().to_owned() }
}

/// Arguments that help shows, under its headings and in its order.
fn by_heading(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut groups: Vec<(String, Vec<&Arg>)> = Vec::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        let usual = if argument.is_positional() { "Arguments" } else { "Options" };
        let title = argument.get_help_heading().filter(|_| !argument.is_positional()).unwrap_or(usual);
        match groups.iter_mut().find(|(known, _)| known == title) {
            Some((_, group)) => group.push(argument),
            None => groups.push((title.to_owned(), vec![argument])),
        }
    }
    groups
}

/// `-q, --quiet`, `--bytes <BYTES>`, `[DIR]`.
fn shown(argument: &Arg) -> String {
    let text = argument.to_string();
    match argument.get_short() {
        Some(short) if argument.get_long().is_some() => format!("-{short}, {text}"),
        _ => text,
    }
}

/// What help says of an argument, with its values and its default.
fn help(argument: &Arg) -> String {
    let mut text = cell(&argument.get_help().map(ToString::to_string).unwrap_or_default(), DEPTH);
    let takes_values = argument.get_action().takes_values();
    let values = argument.get_possible_values();
    let values: Vec<String> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| format!("`{}`", value.get_name())).collect();
    if takes_values && !values.is_empty() && !argument.is_hide_possible_values_set() {
        text += &format!(". Values: {}", values.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        text += &format!(". Default: {}", defaults.join(", "));
    }
    let names = argument.get_visible_aliases().unwrap_or_default();
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|name| format!("`--{name}`")).collect();
        text += &format!(". Also {}", names.join(", "));
    }
    text
}
