//! Wrong usage: what clap refuses, in the form of our own errors. Clap's own text has other words, and names arguments that only
//! this program writes.

mod names;

use std::error::Error as _;
use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use terms::did_you_mean;

use crate::Failure;
use names::{bare, nearest_command, nearest_option, option_of};

/// A command that was asked for, as far as its words are known.
struct AskedCommand {
    command: Command,
    /// `rankmark baseline`.
    line: String,
}

/// The failure of arguments that clap refuses.
pub(crate) fn failure(error: &clap::Error, root: Command, arguments: &[OsString]) -> Failure {
    let asked = AskedCommand::find(root, arguments);
    let name = text(error, ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument if name.starts_with('-') => asked.unknown_option(&name),
        ErrorKind::UnknownArgument => asked.unexpected_word(&name),
        ErrorKind::InvalidSubcommand => asked.unknown_command(&text(error, ContextKind::InvalidSubcommand)),
        ErrorKind::MissingRequiredArgument => asked.incomplete(&texts(error, ContextKind::InvalidArg)),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => asked.without_command(),
        ErrorKind::ArgumentConflict => conflict(&name, &texts(error, ContextKind::PriorArg)),
        ErrorKind::InvalidValue => asked.wrong_value(error, &name),
        ErrorKind::ValueValidation => invalid(error, &name),
        ErrorKind::TooManyValues => asked.one_value_more(error, &name),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => asked.wrong_number(error, &name),
        ErrorKind::NoEquals => Failure::new(format!("`{}` needs `=` before its value", bare(&name))),
        ErrorKind::InvalidUtf8 => Failure::new("an argument is not UTF-8"),
        _ => first_line(error),
    }
}

impl AskedCommand {
    fn find(mut root: Command, arguments: &[OsString]) -> Self {
        // Gives each command its whole name, which its usage begins with.
        root.build();
        let mut asked = Self { line: root.get_name().to_owned(), command: root };
        for word in arguments.iter().skip(1) {
            let Some(inner) = asked.command.find_subcommand(word) else { break };
            asked = Self { line: format!("{} {}", asked.line, inner.get_name()), command: inner.clone() };
        }
        asked
    }

    fn unknown_option(&self, option: &str) -> Failure {
        let failure = Failure::new(format!("`{}` has no option `{option}`", self.line));
        if let Some(why) = record::no_field(option.trim_start_matches('-')) {
            let has = |field: &str| self.command.get_arguments().any(|arg| arg.get_id() == field);
            let written = |field: &str, value: &str| format!("`--{} {value}`", field.replace('_', "-"));
            let hint = why.hint(has, written);
            return failure.cause(why.cause).hint(if hint.is_empty() { self.help() } else { hint });
        }
        let near = nearest_option(option, &self.command).map(|near| did_you_mean(&format!("--{near}")));
        failure.hint(near.unwrap_or_else(|| self.help()))
    }

    fn unexpected_word(&self, word: &str) -> Failure {
        let failure = Failure::new(format!("`{}` does not take `{word}`", self.line));
        let is_process = word.parse::<u32>().is_ok() && self.command.get_arguments().any(|arg| arg.get_id() == "pid");
        failure.hint(if is_process { format!("{} --pid {word}", self.line) } else { self.usage() })
    }

    fn unknown_command(&self, word: &str) -> Failure {
        let failure = match self.command.get_name() == self.line {
            true => Failure::new(format!("there is no command `{word}`")),
            false => Failure::new(format!("`{}` has no command `{word}`", self.line)),
        };
        failure.hint(nearest_command(word, &self.command).map_or_else(|| self.help(), did_you_mean))
    }

    fn incomplete(&self, missing: &[String]) -> Failure {
        let all = missing.join(" and ");
        let are_options = missing.iter().all(|name| name.starts_with('-'));
        let values: Vec<String> = match missing {
            [option] => option_of(option, &self.command).map(possible).unwrap_or_default(),
            _ => Vec::new(),
        };
        let hint = match (are_options, values.is_empty()) {
            (true, true) => format!("add {all}"),
            (true, false) => format!("add {all}: {}", values.join(", ")),
            (false, _) => self.usage(),
        };
        Failure::new(format!("`{}` needs {all}", self.line)).hint(hint)
    }

    fn without_command(&self) -> Failure {
        let names: Vec<&str> = self.command.get_subcommands().map(Command::get_name).collect();
        Failure::new(format!("`{}` needs a command", self.line)).hint(format!("valid values: {}", names.join(", ")))
    }

    fn wrong_value(&self, error: &clap::Error, name: &str) -> Failure {
        let (value, valid) = (text(error, ContextKind::InvalidValue), texts(error, ContextKind::ValidValue));
        let valid = valid.iter().map(String::as_str);
        if !value.is_empty() {
            let taker = if name.starts_with('-') { bare(name) } else { &self.line };
            let what = format!("`{taker}` does not take `{value}`");
            return Failure::new(what).hint(terms::suggestion(&value, valid));
        }
        let failure = Failure::new(format!("`{}` has no value", bare(name)));
        match valid.clone().next() {
            Some(_) => failure.hint(format!("valid values: {}", valid.collect::<Vec<_>>().join(", "))),
            None => failure.hint(self.whole(name)),
        }
    }

    fn one_value_more(&self, error: &clap::Error, name: &str) -> Failure {
        let most =
            option_of(name, &self.command).and_then(clap::Arg::get_num_args).map_or(0, |range| range.max_values());
        let what = match most {
            0 => format!("`{}` takes no value", bare(name)),
            1 => format!("`{}` takes one value", bare(name)),
            most => format!("`{}` takes at most {most} values", bare(name)),
        };
        Failure::new(what).hint(format!("leave `{}` out", text(error, ContextKind::InvalidValue)))
    }

    fn wrong_number(&self, error: &clap::Error, name: &str) -> Failure {
        let number = |kind| match error.get(kind) {
            Some(ContextValue::Number(number)) => Some(*number),
            _ => None,
        };
        let wanted = number(ContextKind::ExpectedNumValues).or_else(|| number(ContextKind::MinValues));
        let given = number(ContextKind::ActualNumValues).unwrap_or_default();
        if !name.starts_with('-') {
            let what = format!("`{}` needs {} arguments, not {given}", self.line, wanted.unwrap_or_default());
            return Failure::new(what).hint(self.usage());
        }
        let what = format!("`{}` takes {} values, not {given}", bare(name), wanted.unwrap_or_default());
        Failure::new(what).hint(self.whole(name))
    }

    /// An argument with what its values are called.
    fn whole(&self, name: &str) -> String {
        option_of(name, &self.command).map_or_else(|| name.to_owned(), ToString::to_string)
    }

    fn help(&self) -> String {
        let things = if self.command.is_subcommand_required_set() { "commands" } else { "options" };
        format!("`{} --help` lists the {things}", self.line)
    }

    fn usage(&self) -> String {
        let usage = self.command.clone().render_usage().to_string();
        format!("usage: {}", usage.trim_start_matches("Usage:").trim())
    }
}

fn possible(option: &clap::Arg) -> Vec<String> {
    option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

fn conflict(name: &str, others: &[String]) -> Failure {
    let others: Vec<String> = others.iter().map(|other| format!("`{}`", bare(other))).collect();
    let name = format!("`{}`", bare(name));
    let is_itself = others.is_empty() || others.contains(&name);
    let what = if is_itself {
        format!("{name} is given twice")
    } else {
        format!("{name} and {} exclude each other", others.join(" and "))
    };
    Failure::new(what).hint("leave one of them out")
}

fn invalid(error: &clap::Error, name: &str) -> Failure {
    let value = text(error, ContextKind::InvalidValue);
    let failure = Failure::new(format!("`{}` does not take `{value}`", bare(name)));
    let Some(cause) = error.source().map(ToString::to_string) else { return failure };
    match number_wanted(&cause) {
        Some(hint) => failure.hint(hint),
        None => failure.cause(cause),
    }
}

/// What to write where a whole number is wanted, from what the library says of another value.
fn number_wanted(cause: &str) -> Option<String> {
    if cause == "invalid digit found in string" {
        return Some("use a whole number".to_owned());
    }
    let (_, range) = cause.split_once(" is not in ")?;
    let (first, last) = range.split_once("..")?;
    let last = last.trim_start_matches('=');
    // The largest number of a type bounds nothing.
    let is_open = last.is_empty() || [u64::from(u32::MAX), u64::MAX].iter().any(|most| last == most.to_string());
    Some(match is_open {
        true => format!("use a whole number, {first} or more"),
        false => format!("use a whole number from {first} to {last}"),
    })
}

/// The first line of an error, for kinds that clap may add.
fn first_line(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let line = text.trim().lines().next().unwrap_or("the arguments are wrong");
    Failure::new(line.trim_start_matches("error: "))
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    texts(error, kind).into_iter().next().unwrap_or_default()
}

fn texts(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => Vec::new(),
    }
}
