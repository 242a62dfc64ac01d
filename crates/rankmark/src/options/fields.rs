//! Measuring commands: options from the fields that benchmarks declare, in the sections of help that they declare.

use clap::{Arg, ArgAction, Command};
use record::{About, field_help, field_value};
use terms::{Field, Group, Kind};

use super::parts::{arguments, named};
use super::words::offering_field;
use super::{OUTPUT, Output, RUN, Whole};

/// The heading of a profile's own options.
pub(crate) const PROFILE: &str = "Profile";
/// The examples stand above the usage.
const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The command that measures one benchmark.
/// `hidden` are arguments that nobody writes.
pub(crate) fn command(about: &'static About, declared: &record::Command, hidden: Vec<Arg>) -> Command {
    let mut command = named(declared.name).about(declared.doc).before_help(examples(declared)).help_template(TEMPLATE);
    if let Some(field) = about.field(declared.argument) {
        let values = if let Kind::Word(words) = field.kind { words().join(" ") } else { String::new() };
        let help = if values.is_empty() {
            field_help(field, None)
        } else {
            format!("one or more, separated by commas: {values}")
        };
        let name = if field.name.len() > 2 { "NAME".to_owned() } else { field.name.to_uppercase() };
        let argument = Arg::new(field.name).value_name(name).required(needs_argument(field)).help(help);
        command = command.arg(offering_field(argument, field));
    }
    let command = command.args(hidden).after_help(declared.notes);
    with_options(command, &[about], declared.sweep)
}

/// Whether a command must be given a value of its argument: not where the field stands for all its values without one.
pub(crate) fn needs_argument(field: &Field) -> bool {
    field.default != Some("all")
}

/// The lines to begin with.
fn examples(declared: &record::Command) -> String {
    let longest = declared.examples.iter().map(|(arguments, _)| arguments.len()).max().unwrap_or_default();
    let lines = declared
        .examples
        .iter()
        .map(|(arguments, what)| format!("  rankmark {} {arguments:<longest$}  {what}", declared.name));
    std::iter::once("Examples (commas split lists, lists multiply):".to_owned())
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The command without rare options: for `-h`.
pub(crate) fn in_short(command: Command) -> Command {
    let is_measuring = command.get_arguments().any(|argument| argument.get_help_heading() == Some(RUN));
    if !is_measuring {
        return command;
    }
    let listed = [Group::COMMON.heading, OUTPUT, PROFILE];
    let more = format!("All options: rankmark {} --help", command.get_name());
    command.after_help(more).mut_args(|argument| {
        let rare = argument.get_help_heading().is_some_and(|heading| !listed.contains(&heading));
        argument.hide_short_help(rare)
    })
}

/// The command without options of fields in its help, but for those under `kept`: they go on working, and `rankmark list fields`
/// and the help of the commands that measure one benchmark show them.
pub(crate) fn without_fields(command: Command, kept: &[&str]) -> Command {
    command.mut_args(|argument| {
        let is_kept = |heading: &str| [OUTPUT, RUN].contains(&heading) || kept.contains(&heading);
        match argument.get_help_heading() {
            Some(heading) if !is_kept(heading) => argument.hide(true),
            _ => argument,
        }
    })
}

/// The benchmark that a command measures, and what it declares of the command.
pub(crate) fn measured(command: &str) -> Option<(&'static About, record::Command)> {
    let abouts = benchmarks::abouts().into_iter();
    abouts.filter_map(|about| Some((about, about.command?))).find(|(_, declared)| declared.name == command)
}

/// All options of a measuring command: fields and those of every run, the common ones first.
pub(crate) fn with_options(command: Command, abouts: &[&'static About], sweep: Option<record::Sweep>) -> Command {
    let mut fields: Vec<&'static Field> = Vec::new();
    for field in abouts.iter().flat_map(|about| about.all_fields()) {
        let is_argument = command.get_positionals().any(|argument| argument.get_id() == field.name);
        if !is_argument && fields.iter().all(|other| other.name != field.name) {
            fields.push(field);
        }
    }
    fields.sort_by_key(|field| field.group.place);
    let (common, rare): (Vec<_>, Vec<_>) = fields.into_iter().partition(|field| field.group == Group::COMMON);
    let swept = |field: &Field| sweep.filter(|sweep| sweep.field == field.name).map(|sweep| sweep.values);
    let options = |fields: Vec<&'static Field>| -> Vec<Arg> {
        fields.into_iter().map(|field| option(field, swept(field)).help_heading(field.group.heading)).collect()
    };
    let command = command.args(options(common)).args(of_every_run()).args(options(rare));
    command.args(of_whole_run()).disable_help_flag(true)
}

/// Where results go, and how much is said.
fn of_every_run() -> Vec<Arg> {
    let help = Arg::new("help").long("help").short('h').action(ArgAction::Help);
    let help = help.help("prints all options; -h: the common ones");
    arguments::<Output>().into_iter().chain([help]).map(|arg| arg.help_heading(OUTPUT)).collect()
}

/// What concerns the run and its record as a whole.
fn of_whole_run() -> Vec<Arg> {
    let of_new = ["name", "tag", "note"];
    let of_baseline = ["threshold", "fail_on"];
    let declared = |arg: Arg| match arg.get_id().as_str() {
        // A record that is continued keeps its own.
        name if of_new.contains(&name) => arg.conflicts_with("resume"),
        name if of_baseline.contains(&name) => arg.requires("baseline").hide(true),
        _ => arg,
    };
    arguments::<Whole>().into_iter().map(|arg| declared(arg).help_heading(RUN)).collect()
}

fn option(field: &'static Field, swept: Option<&'static str>) -> Arg {
    let long = field.name.replace('_', "-");
    let arg = Arg::new(field.name).help(field_help(field, swept)).value_name(field_value(field));
    let arg = arg.action(ArgAction::Append);
    // Hyphens and underscores are the same in names.
    let arg = if long == field.name { arg } else { arg.alias(field.name) };
    let synonyms = record::SYNONYMS.iter().filter(|(_, name)| *name == field.name);
    let arg = synonyms.fold(arg, |arg, (other, _)| arg.alias(*other));
    // A size of one letter is written as in formulas: `-m 4096`.
    let arg = match field.name.as_bytes() {
        [letter] => arg.short(char::from(*letter)),
        _ => arg,
    };
    let arg = offering_field(arg.long(long).allow_hyphen_values(false), field);
    match field.kind {
        Kind::Bool => arg.num_args(0..=1).default_missing_value("true"),
        _ => arg,
    }
}
