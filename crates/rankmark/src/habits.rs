//! What users type out of habit, answered with the line to type.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use record::About;
use record::store::RUN_FILE;
use terms::{Collective, Field, Kind, Named, normalize};

use crate::commands::profile::job_words;
use crate::options::fields;
use crate::{Failure, external};

/// Options without a value, so that what stands behind them is a word of its own.
const FLAGS: [&str; 10] =
    ["--quiet", "-q", "--verbose", "-v", "--json", "--dry-run", "--quick", "--help", "-h", "--find-max-batch"];

/// What other tools call commands.
const OTHERS: [(&str, &str); 3] =
    [("doctor", "rankmark validate"), ("diff", "rankmark compare"), ("show", "rankmark report")];

/// The answer to arguments that clap refuses; None if [`crate::usage`] has one that is as good.
pub(crate) fn answer(error: &clap::Error, arguments: &[OsString], known: &clap::Command) -> Option<Failure> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|argument| argument.to_str()).collect::<Option<_>>()?;
    let (command, rest) = words.split_first()?;
    let is_known = |word: &str| known.get_subcommands().any(|sub| sub.get_name_and_visible_aliases().contains(&word));
    match *command {
        _ if command.starts_with('-') => leading(&words, is_known),
        _ if !is_known(command) => {
            let (line, what) = instead(command)?;
            Some(failure_with_lines(format!("`{command}` is {what}, not a command"), &[joined(&line, rest)]))
        }
        "profile" => job_words::answer(rest),
        "gen-config" => {
            let name = terms::nearest(positionals(rest).first()?, plans::hardware::names())?;
            let line = format!("rankmark gen-config --hardware {name}");
            Some(failure_with_lines(format!("`{name}` is hardware, not a preset"), &[line]))
        }
        _ if external::measures(command) && job_in(rest).is_some() => job_in(rest),
        _ => of_measured(command, rest, error),
    }
}

/// Options before the command, which belong behind it.
fn leading(words: &[&str], is_known: impl Fn(&str) -> bool) -> Option<Failure> {
    let line_of = |word: &str| match is_known(word) {
        true => Some(format!("rankmark {word}")),
        false => instead(word).map(|(line, _)| line),
    };
    let (at, line) = words.iter().enumerate().find_map(|(at, word)| Some((at, line_of(word)?)))?;
    let (options, rest) = (&words[..at], &words[at + 1..]);
    // What the command cannot be without.
    let argument = fields::measured(words[at]).and_then(|(about, declared)| {
        let field = about.field(declared.argument).filter(|field| fields::needs_argument(field))?;
        field.default.filter(|_| positionals(rest).is_empty())
    });
    let line = argument.map_or(line.clone(), |argument| format!("{line} {argument}"));
    Some(failure_with_lines("options stand after the command".to_owned(), &[joined(&joined(&line, rest), options)]))
}

/// The command of one benchmark: without its argument, with a model as one, or with a word that belongs elsewhere.
fn of_measured(command: &str, rest: &[&str], error: &clap::Error) -> Option<Failure> {
    let (about, declared) = fields::measured(command)?;
    let field = about.field(declared.argument);
    // A line with an option that does not exist would be refused again.
    let lacks_argument = error.kind() != ErrorKind::UnknownArgument && positionals(rest).is_empty();
    if let Some(field) = field.filter(|field| lacks_argument && fields::needs_argument(field)) {
        let words = if let Kind::Word(words) = field.kind { words() } else { Vec::new() };
        let what = format!("`rankmark {command}` needs {}\nvalid values: {}", field.doc, words.join(", "));
        let line = joined(&format!("rankmark {command} {}", field.default?), rest);
        return Some(failure_with_lines(what, &[line]));
    }
    if let Some(model) = positionals(rest).first().and_then(|word| model(word)).filter(|_| field.is_none()) {
        let others: Vec<&str> = rest.iter().copied().filter(|word| normalize(word) != normalize(model)).collect();
        let line = joined(&format!("rankmark {command} --model {model}"), &others);
        return Some(failure_with_lines(format!("`rankmark {command}` takes its model as an option"), &[line]));
    }
    with_word((about, field), command, rest, &misplaced_word(error)?)
}

/// The word that a command does not take, where clap found one.
fn misplaced_word(error: &clap::Error) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) if !word.starts_with('-') => Some(word.clone()),
        _ => None,
    }
}

/// The lines with a misplaced word where it belongs.
fn with_word((about, argument): (&About, Option<&Field>), command: &str, rest: &[&str], word: &str) -> Option<Failure> {
    if let Some(list) = argument.and_then(|field| record::one_list(field, &positionals(rest))) {
        let words = positionals(rest);
        let options: Vec<&str> = rest.iter().copied().filter(|word| !words.contains(word)).collect();
        let line = joined(&format!("rankmark {command} {list}"), &options);
        let what = format!("`rankmark {command}` takes one list, with commas and no spaces");
        return Some(failure_with_lines(what, &[line]));
    }
    let at = rest.iter().rposition(|other| *other == word)?;
    let others: Vec<&str> = rest[..at].iter().chain(&rest[at + 1..]).copied().collect();
    let line = |(option, value): (&str, String)| {
        let option = format!("--{}", option.replace('_', "-"));
        joined(&format!("rankmark {command}"), &[others.as_slice(), &[&option, &value]].concat())
    };
    let lines: Vec<String> = record::fields_for(about, argument, word).into_iter().map(line).collect();
    let what = format!("`{word}` belongs to no option");
    (!lines.is_empty()).then(|| failure_with_lines(what, &lines))
}

/// The line for a job of another program among the words of a command.
fn job_in(words: &[&str]) -> Option<Failure> {
    let first = *positionals(words).first()?;
    let (line, what) = job(first)?;
    let at = words.iter().position(|word| *word == first)?;
    Some(failure_with_lines(format!("`{first}` is {what}, not an argument"), &[joined(&line, &words[at + 1..])]))
}

/// The line that profiles a job, and what its first word is.
fn job(word: &str) -> Option<(String, &'static str)> {
    let name = Path::new(word).file_name()?.to_str()?;
    if name.ends_with(".py") {
        let python = job_words::python(&crate::environment::search_path());
        return Some((joined(&format!("rankmark profile -- {python}"), &[word]), "a Python program"));
    }
    job_words::starts_jobs(name).then(|| (joined("rankmark profile --", &[word]), "a program that starts jobs"))
}

/// The answer to a plan's name that is not a file, and that means something else.
pub(crate) fn no_plan(file: &str) -> Option<Failure> {
    let (line, what) = match job(file) {
        Some(job) => job,
        None if Path::new(file).exists() => return None,
        None => instead(file)?,
    };
    Some(failure_with_lines(format!("there is no plan `{file}`: it is {what}"), &[line]))
}

/// The line for a word that is not a command, and what the word is.
fn instead(word: &str) -> Option<(String, &'static str)> {
    if let Some(operations) = operations(word) {
        return Some((format!("rankmark comm {operations}"), "an operation"));
    }
    if let Some(model) = model(word) {
        return Some((format!("rankmark train --model {model}"), "a model"));
    }
    let benchmark = benchmarks::benchmark(word).or_else(|| benchmarks::benchmark(word.strip_suffix('s')?));
    if let Some((about, declared)) = benchmark.and_then(|found| Some((found.about(), found.about().command?))) {
        let argument = about.field(declared.argument).and_then(|field| field.default).unwrap_or_default();
        return Some((format!("rankmark {} {argument}", declared.name).trim_end().to_owned(), "a benchmark"));
    }
    if let Some((_, line)) = OTHERS.iter().find(|(other, _)| *other == word) {
        return Some(((*line).to_owned(), "a word of other tools"));
    }
    if normalize(word) == "quick" {
        return Some(("rankmark run".to_owned(), "the plan that is run without one"));
    }
    if plans::presets::names().contains(&word) {
        let line = format!("rankmark gen-config {word} > {word}.yaml && rankmark run {word}.yaml");
        return Some((line, "a preset of gen-config"));
    }
    if let Some(job) = job(word) {
        return Some(job);
    }
    let path = Path::new(word);
    if path.join(RUN_FILE).is_file() {
        return Some((joined("rankmark report", &[word]), "a record"));
    }
    let is_plan = path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml" || kind == "json");
    (is_plan && path.is_file()).then(|| (joined("rankmark run", &[word]), "a plan"))
}

/// The operations of a list, however other tools spell them.
fn operations(list: &str) -> Option<String> {
    let name = |word: &str| import::operation(word).map(Collective::name);
    list.split(',').map(name).collect::<Option<Vec<_>>>().map(|names| names.join(","))
}

fn model(word: &str) -> Option<&'static str> {
    benchmarks::models().iter().map(|model| model.name).find(|name| normalize(name) == normalize(word))
}

/// Words that belong to no option. A guess, because the options themselves are not known here.
fn positionals<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.starts_with('-') {
            false => found.push(*word),
            true if !FLAGS.contains(word) && !word.contains('=') => drop(words.next()),
            true => {}
        }
    }
    found
}

fn failure_with_lines(what: String, lines: &[String]) -> Failure {
    Failure::new(what).hint(lines.join("\n"))
}

/// A line of a shell, without secrets.
fn joined(line: &str, words: &[&str]) -> String {
    let words = record::command_line(words.iter().map(|word| (*word).to_owned()));
    let quoted = words.iter().map(|word| report::shell(word));
    std::iter::once(line.to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_by_their_other_names() {
        for (word, expected) in [
            ("allreduce", "all_reduce"),
            ("AllReduce,all-gather", "all_reduce,all_gather"),
            ("all_reduce_perf", "all_reduce"),
            ("osu_alltoallv", "all_to_allv"),
            ("MPI_Bcast", "broadcast"),
            ("sendrecv", "send_recv"),
        ] {
            assert_eq!(operations(word).as_deref(), Some(expected), "{word}");
        }
        assert_eq!((operations("compare"), operations("all_reduce,x"), operations("")), (None, None, None));
    }

    #[test]
    fn words_behind_options_are_their_values() {
        assert_eq!(positionals(&["a", "--format", "csv", "--quiet", "b", "--x=y", "c"]), ["a", "b", "c"]);
        assert_eq!(
            joined("rankmark comm", &["--bytes", "8..1GiB*2", "it's"]),
            r"rankmark comm --bytes '8..1GiB*2' 'it'\''s'"
        );
    }
}
