//! The command line. Options of measuring commands are made from the fields that benchmarks declare.

pub(crate) mod measured;
pub(crate) mod parts;
mod words;

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use launch::job::TARGETS;

use crate::arguments::DDLB_CONFIG;
use crate::commands::list::RECORDS;
use parts::json;

pub(crate) use measured::{measured, needs_argument};

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("rankmark")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures, explains and compares how fast distributed deep learning runs")
        .after_help("Exit status: 0 fine, 1 a check or a gate failed, 2 it could not run, 3 a comparison cannot tell.")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .infer_long_args(false)
        .args(leading())
        .subcommand(run())
        .subcommands(
            benchmarks::abouts()
                .into_iter()
                .filter_map(|about| Some(measured::command(about, about.command.as_ref()?))),
        )
        .subcommand(crate::commands::profile::command())
        .subcommand(report())
        .subcommand(crate::commands::compare::command())
        .subcommand(crate::commands::baseline::command())
        .subcommand(crate::commands::history::command())
        .subcommand(crate::commands::watch::command())
        .subcommand(crate::commands::import::command())
        .subcommand(crate::commands::merge::command())
        .subcommand(crate::commands::pack::command())
        .subcommand(list())
        .subcommand(gen_config())
        .subcommand(gen_job())
        .subcommand(validate())
        .subcommand(crate::commands::version::command())
        .subcommand(crate::commands::man::command())
        .subcommand(
            Command::new("schema")
                .about("The JSON Schema of plans or records")
                .arg(Arg::new("of").value_parser(["plan", "record"]).default_value("plan").help("which of the two")),
        )
        .subcommand(
            Command::new("completions").about("A completion script for a shell").arg(
                Arg::new("shell").required(true).value_parser(value_parser!(clap_complete::Shell)).help("the shell"),
            ),
        )
}

/// The whole command line for these arguments: `-h` leaves out what is rare.
pub(crate) fn command_for(arguments: &[OsString]) -> Command {
    match arguments.iter().any(|argument| argument == OsStr::new("-h")) {
        true => command().mut_subcommands(measured::in_short),
        false => command(),
    }
}

/// For help and completion only: [`crate::arguments::ordered`] has put them behind the command.
fn leading() -> [Arg; 3] {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    [
        flag("quiet", "print errors only; commands that have it, before or after the command").short('q'),
        flag("verbose", "print more; commands that have it, before or after the command").short('v'),
        flag("json", "JSON on standard output; commands that have it, before or after the command"),
    ]
}

fn run() -> Command {
    let command = Command::new("run")
        .visible_aliases(["suite", "benchmark"])
        .about("Runs a plan: every benchmark, every combination; without one, the quick plan of this machine")
        .arg(Arg::new("plan").value_name("PLAN").value_hint(ValueHint::FilePath).help("a plan, YAML or JSON"))
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("PLAN")
                .value_hint(ValueHint::FilePath)
                .short('c')
                .conflicts_with("plan")
                .help("the same, as an option"),
        )
        .arg(Arg::new(DDLB_CONFIG).long(DDLB_CONFIG).hide(true));
    let command = command.after_help(
        "Fields of cases are options, too: `--ranks 4`, `--bytes 1MiB`, `--quick` replace a field in all cases of the plan, as \
         `--set ranks=4` does. `rankmark list fields` shows all of them.",
    );
    let only = Arg::new("only-ranks").long("only-ranks").value_name("N").value_parser(value_parser!(u32).range(1..));
    let only = only.help("runs the cases of N ranks alone; the others are left to --resume");
    let benchmark = Arg::new("only")
        .long("only")
        .visible_alias("benchmark")
        .value_name("BENCHMARK")
        .value_delimiter(',')
        .action(ArgAction::Append)
        .conflicts_with("resume")
        .help(format!("runs the cases of these benchmarks alone: {}", benchmark_words()));
    let output = Arg::new("output")
        .long("output")
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .value_parser(value_parser!(std::path::PathBuf))
        .help("also writes the results as one JSON file: name, world_size, timestamp, config, results");
    let command = measured::with_options(command, &benchmarks::abouts(), None)
        .args([only, benchmark, output].map(|arg| arg.help_heading(measured::RUN)));
    measured::without_fields(command, &[])
}

/// Names of benchmarks, each with that of its command where this is another: `collective (or comm)`.
fn benchmark_words() -> String {
    let word = |about: &'static record::About| match about
        .command
        .as_ref()
        .map(|command| command.name)
        .filter(|name| *name != about.name)
    {
        Some(command) => format!("{} (or {command})", about.name),
        None => about.name.to_owned(),
    };
    benchmarks::abouts().into_iter().map(word).collect::<Vec<_>>().join(", ")
}

const REPORT_EXAMPLES: &str = "\
Examples:
  rankmark report results/DIR --open               all formats; opens the HTML page
  rankmark report results/DIR --format html        report.html alone: one file that loads nothing
  rankmark report results/DIR --format pdf,parquet a document to print, and a typed table
  rankmark report results/DIR --junit junit.xml    each case as a test, for a CI system
  rankmark report results/A results/B              one HTML page about both";

fn report() -> Command {
    let source = || {
        Arg::new("source")
            .value_name("DIR")
            .value_hint(ValueHint::DirPath)
            .action(ArgAction::Append)
            .help("a record's directory, or a folder of records (default: results); several make one HTML page")
    };
    let format = || {
        let names: Vec<&'static str> = report::FORMATS.iter().map(|format| format.name()).collect();
        let by_default: Vec<&str> = report::default_formats().iter().map(|format| format.name()).collect();
        Arg::new("format")
            .long("format")
            .value_name("FORMAT")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(names)
            .help(format!("only these formats (default: {})", by_default.join(", ")))
    };
    let layout = || {
        let names: Vec<&'static str> = report::LAYOUTS.iter().map(|layout| layout.name()).collect();
        Arg::new("layout")
            .long("layout")
            .value_name("LAYOUT")
            .value_parser(names)
            .conflicts_with("format")
            .help("write the files of another tool's report instead")
    };
    let output = || {
        Arg::new("output-dir")
            .long("output-dir")
            .value_name("DIR")
            .value_hint(ValueHint::DirPath)
            .value_parser(value_parser!(std::path::PathBuf))
            .help("where the files go (default: the record; of a layout, a folder of its name there)")
    };
    let open = || {
        Arg::new("open")
            .long("open")
            .action(ArgAction::SetTrue)
            .conflicts_with("layout")
            .help("open the HTML page in the browser (xdg-open)")
    };
    Command::new("report")
        .about("Writes the report of a record, or of each record in a folder: tables, pictures, text")
        .args_conflicts_with_subcommands(true)
        .arg(source().num_args(0..))
        .arg(Arg::new("from").long("source").short('s').value_name("DIR").conflicts_with("source").hide(true))
        .args([format().short('f'), layout(), output(), open()])
        .args(one_file())
        .args(crate::exports::options())
        .after_help(REPORT_EXAMPLES)
        .subcommand(
            Command::new("generate")
                .about("The same, with options")
                .arg(source().long("source").short('s'))
                .args([format().short('f'), layout(), output(), open()])
                .args(one_file())
                .args(crate::exports::options()),
        )
}

/// Options of reports as TorchScale has them.
fn one_file() -> [Arg; 3] {
    let file = Arg::new("output").long("output").short('o').value_name("FILE").value_hint(ValueHint::FilePath);
    let file = file.value_parser(value_parser!(std::path::PathBuf)).conflicts_with("output-dir");
    [
        file.help("write the one file of a format, of one record, to FILE"),
        verbose("also say what each record holds, on standard error"),
        quiet("print errors only, and no path"),
    ]
}

fn verbose(help: &'static str) -> Arg {
    Arg::new("verbose").long("verbose").short('v').action(ArgAction::SetTrue).help(help)
}

fn quiet(help: &'static str) -> Arg {
    Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).conflicts_with("verbose").help(help)
}

fn list() -> Command {
    let kinds = [
        "benchmarks",
        "models",
        "strategies",
        "primitives",
        "operations",
        "backends",
        "formats",
        "layouts",
        "imports",
        "presets",
        "hardware",
        "fields",
        "caveats",
        "injections",
        RECORDS,
    ];
    Command::new("list")
        .about("What there is; `list records [DIR]`: the runs that were made")
        .arg(Arg::new("kind").value_parser(kinds).help("only this kind"))
        .arg(
            Arg::new("folder")
                .value_name("DIR")
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(std::path::PathBuf))
                .help("of `records`: the folder that holds them (default: results)"),
        )
        .arg(json())
}

fn gen_config() -> Command {
    Command::new("gen-config")
        .about("Prints a plan to start from")
        .arg(Arg::new("preset").value_parser(crate::plans::names()).help("which plan (default: quick)"))
        .arg(
            Arg::new("hardware")
                .long("hardware")
                .value_name("NAME")
                .value_parser(crate::hardware::named)
                .conflicts_with("preset")
                .help(format!(
                    "a plan for this hardware, with the figures that it should reach; auto: for this machine [{}]",
                    crate::hardware::names().join(", ")
                )),
        )
}

fn gen_job() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u32).range(1..)).help(help)
    };
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_hint(ValueHint::AnyPath).help(help)
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let targets: Vec<&'static str> = TARGETS.iter().map(|target| target.name).collect();
    let command = Command::new("gen-job")
        .about("Writes the file by which a launcher runs a plan: Slurm, Kubernetes, mpirun, torchrun")
        .after_help(
            "The job has a step for each number of ranks of the plan, all into one record; on Kubernetes, a Job with a \
             record each. With `--ranks N` it has one step, and cases of other ranks are skipped. With `--ranks 1` it is \
             one process, which starts the ranks of every case itself, on one host.",
        )
        .arg(
            Arg::new("for")
                .long("for")
                .required(true)
                .value_name("LAUNCHER")
                .value_parser(targets)
                .help("the launcher"),
        )
        .arg(
            Arg::new("plan")
                .value_name("PLAN")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(std::path::PathBuf))
                .help("a plan, YAML or JSON"),
        )
        .arg(number("ranks", "one step of so many ranks (default: a step for each number of ranks of the plan)"))
        .arg(file("program", "PATH", "this program there (default: this one's own path; in a container, `rankmark`)"))
        .arg(file("output-dir", "DIR", "where the record goes"))
        .arg(
            file("output", "FILE", "write it there (default: standard output)")
                .value_parser(value_parser!(std::path::PathBuf)),
        )
        .arg(flag("force", "replace a FILE that is there").requires("output"))
        .arg(crate::commands::trust::option())
        .arg(json());
    let mut seen: Vec<&'static str> = Vec::new();
    TARGETS.iter().flat_map(|target| target.options).fold(command, |command, choice| {
        if seen.contains(&choice.name) {
            return command;
        }
        seen.push(choice.name);
        let having = TARGETS.iter().filter(|target| target.takes(choice.name)).map(|target| target.name);
        let help = format!("{} [{}]", choice.doc, having.collect::<Vec<_>>().join(", "));
        let arg = Arg::new(choice.name).long(choice.name).value_name(choice.value).help(help);
        let arg = arg.help_heading("Options of some launchers");
        command.arg(if choice.name == "ranks-per-node" { arg.visible_alias("ntasks-per-node") } else { arg })
    })
}

fn validate() -> Command {
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .value_hint(ValueHint::FilePath)
            .value_parser(value_parser!(std::path::PathBuf))
            .help(help)
    };
    Command::new("validate")
        .about("What this machine has, what is slow or missing, the impact, and how to fix it")
        .after_help(
            "States: ready; slow (works with reduced performance); misconfigured (present, does not work); missing.\n\n\
             Exit status: 0 everything requested can run; 1 something is misconfigured, no backend that measures is \
             ready, the Python of --python lacks torch, or a case of --plan would be skipped; 2 the check was not \
             possible. Cases that were not looked at do not change the exit status.",
        )
        .arg(file("plan", "PLAN", "also say which cases of this plan would run here, and why others would not"))
        .arg(file("python", "PATH", "check the PyTorch of this Python (default: the first python3 on PATH)"))
        .arg(crate::commands::trust::option().requires("plan"))
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("leave out what takes seconds, and say what was left out"),
        )
        .arg(verbose("give each finding a row of its own, and name every case that would not run"))
        .arg(quiet("print only what is wrong"))
        .arg(json())
}

/// Where a launcher started the ranks and nobody says how many there are, as many as it started.
pub(crate) fn default_ranks(
    pairs: &mut Vec<(String, String)>,
    overrides: &[(String, String)],
    coordinator: Option<&launch::external::Coordinator>,
) {
    let given = |pairs: &[(String, String)]| pairs.iter().any(|(name, _)| name == "ranks");
    if let Some(coordinator) = coordinator.filter(|_| !given(pairs) && !given(overrides)) {
        pairs.push(("ranks".to_owned(), coordinator.size().to_string()));
    }
}

/// Where nobody says how many ranks, no more than there are GPUs for them: each takes one of its own.
pub(crate) fn ranks_with_gpus(
    about: &record::About,
    pairs: &mut Vec<(String, String)>,
    overrides: &[(String, String)],
    gpus: impl FnOnce() -> usize,
) {
    let given = |name: &str| pairs.iter().chain(overrides).rev().find(|(given, _)| given == name);
    let is_on_gpus = given("device").is_some_and(|(_, device)| device == "cuda");
    if !is_on_gpus || given("ranks").is_some() {
        return;
    }
    let default = about.field("ranks").and_then(|field| field.default).and_then(|text| text.parse::<usize>().ok());
    let gpus = gpus();
    if gpus > 0 && default.is_some_and(|ranks| ranks > gpus) {
        pairs.push(("ranks".to_owned(), gpus.to_string()));
    }
}

/// The `--set` options.
pub(crate) fn overrides(matches: &ArgMatches) -> Result<Vec<(String, String)>, crate::Failure> {
    let given = matches.get_many::<String>("set").into_iter().flatten();
    let pair = |text: &String| {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            crate::Failure::new(format!("`--set {text}` sets nothing")).hint("--set FIELD=VALUE, as in --set ranks=2,4")
        })?;
        Ok((name.trim().to_owned(), value.to_owned()))
    };
    given.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_asks_for_no_more_ranks_than_gpus() {
        let (about, _) = measured("comm").unwrap();
        let ranks = |given: &[(&str, &str)], gpus: usize| {
            let pairs = |given: &[(&str, &str)]| {
                given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
            };
            let mut pairs = pairs(given);
            ranks_with_gpus(about, &mut pairs, &[], || gpus);
            pairs.into_iter().find(|(name, _)| name == "ranks").map(|(_, ranks)| ranks)
        };
        assert_eq!(ranks(&[("device", "cuda")], 1).as_deref(), Some("1"));
        // The plan's own default holds.
        assert_eq!(ranks(&[("device", "cuda")], 2), None);
        assert_eq!(ranks(&[("device", "cuda")], 8), None);
        // The ranks say what is missing.
        assert_eq!(ranks(&[("device", "cuda")], 0), None);
        assert_eq!(ranks(&[("device", "cuda"), ("ranks", "2")], 1).as_deref(), Some("2"));
        assert_eq!(ranks(&[], 1), None);
    }
}
