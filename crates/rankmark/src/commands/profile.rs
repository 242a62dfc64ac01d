//! `rankmark profile`: runs steps, or another program's job, records where their time goes, and explains it.

mod calls;
mod ends;
pub(crate) mod explain;
mod explanation;
mod hang_watch;
mod hangs;
mod job;
mod kept;
mod kernel;
mod native;
mod show;
mod spill;
mod step_parts;
mod verdict;

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use record::Labels;
use terms::{Group, Seconds};

use crate::cli::{measured, parts};
use crate::session::Entry;
use crate::{Failure, terminal};

const EXAMPLES: &str = "\
Examples:
  rankmark profile --model transformer-small --ranks 2 --duration 30s   a built-in model
  rankmark profile -- torchrun --nproc-per-node 2 train.py              your own PyTorch job
  rankmark profile --import trace-rank0.json.gz trace-rank1.json.gz     traces of the PyTorch profiler
  rankmark profile results/DIR                                          traces of a record
  rankmark profile --compare results/BEFORE results/AFTER               what got slower";
/// The heading of its own options in help.
pub(crate) const HEADING: &str = "Profile";

/// What the user wants to see.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Everything.
    #[default]
    All,
    /// Ranks that wait for others, and for whom.
    SyncStalls,
    /// Communication that runs beside computation.
    Overlap,
    /// Waiting for data.
    Input,
}

impl Target {
    const NAMES: [(&'static str, Self); 4] =
        [("all", Self::All), ("sync_stalls", Self::SyncStalls), ("overlap", Self::Overlap), ("input", Self::Input)];

    fn of(matches: &ArgMatches) -> Self {
        let name = matches.get_one::<String>("target").map_or("all", String::as_str);
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map_or(Self::All, |(_, target)| target)
    }

    /// Whether something that belongs to `part` is shown.
    pub(crate) fn shows(self, part: Self) -> bool {
        self == Self::All || self == part
    }
}

pub(crate) fn command() -> Command {
    let own = |arg: Arg| arg.help_heading(HEADING);
    let about = native::about();
    let command = parts::named("profile")
        .about("Records where the time of training steps goes, and explains it: stalls, slow ranks, overlap, input")
        .before_help(EXAMPLES)
        .arg(
            Arg::new("record")
                .value_name("DIR")
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(PathBuf))
                .help("a record with traces: explains them, and runs nothing"),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(1..)
                .last(true)
                .value_parser(value_parser!(std::ffi::OsString))
                .help("a job to trace: `-- torchrun --nproc-per-node 2 train.py`"),
        )
        .args(options().map(own));
    let steps = "only these steps of the job, the last one not included: 10:20";
    // Short options as TorchScale has them.
    let command = measured::with_options(command, &[about], None)
        .mut_arg("output-dir", |arg| arg.short('o'))
        .mut_arg("steps", |arg| arg.value_name("FIRST:LAST").help(steps).help_heading(HEADING));
    // Their defaults are others here.
    let command = native::DEFAULTS
        .into_iter()
        .fold(command, |command, (field, _, help)| command.mut_arg(field, |arg| arg.help(help)));
    measured::without_fields(command, &[HEADING, Group::COMMON.heading])
        .after_help("All fields of training are options, too: `rankmark train --help` shows them.")
}

fn options() -> [Arg; 7] {
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_hint(ValueHint::AnyPath).value_parser(value_parser!(PathBuf))
    };
    [
        Arg::new("plan")
            .long("plan")
            .value_name("PLAN")
            .value_hint(ValueHint::FilePath)
            .value_parser(value_parser!(PathBuf))
            .conflicts_with_all(["record", "import", "command"])
            .help("profiles the training cases of this plan"),
        Arg::new("duration")
            .long("duration")
            .short('d')
            .value_name("TIME")
            .value_parser(value_parser!(Seconds))
            .help("how long to measure and record (default: 20s)"),
        Arg::new("target")
            .long("target")
            .short('t')
            .value_name("TARGET")
            .value_parser(Target::NAMES.map(|(name, _)| name))
            .help("what to look at (default: all)"),
        Arg::new("tool")
            .long("tool")
            .value_name("TOOL")
            .value_parser(["builtin", "nsys"])
            .help("what records a job: the PyTorch profiler, or nsys around each rank (default: builtin)"),
        file("import")
            .value_name("FILE")
            .num_args(1..)
            .conflicts_with_all(["record", "command"])
            .help("explains traces of other tools, files or a folder of them, and keeps the result in a record"),
        file("compare")
            .value_name("TRACE")
            .num_args(2)
            .conflicts_with_all(["record", "command", "import"])
            .help("what got slower from one trace or record to another"),
        Arg::new("gpus")
            .long("gpus")
            .short('g')
            .value_name("N")
            .action(ArgAction::Set)
            .conflicts_with("ranks")
            .help("the same as --ranks"),
    ]
}

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let wanted = Wanted::read(matches)?;
    refuse_of_training(matches)?;
    if let Some(files) = matches.get_many::<PathBuf>("compare") {
        let files: Vec<&Path> = files.map(PathBuf::as_path).collect();
        return explain::compare(files[0], files[1], &wanted);
    }
    if let Some(files) = matches.get_many::<PathBuf>("import") {
        let files: Vec<PathBuf> = files.cloned().collect();
        return explain::files(&files, matches.get_one::<PathBuf>("output-dir").map(PathBuf::as_path), &wanted);
    }
    if let Some(record) = matches.get_one::<PathBuf>("record") {
        return explain::record(record, &wanted);
    }
    match matches.get_many::<std::ffi::OsString>("command") {
        Some(words) => job::run(&words.cloned().collect::<Vec<_>>(), matches, &wanted),
        None => native::run(matches, entry, &wanted),
    }
}

/// Explains traces of other tools as `--import` does, for the command that takes their files.
pub(crate) fn imported(files: &[PathBuf], output: Option<&Path>, json: bool) -> Result<u8, Failure> {
    explain::files(files, output, &Wanted { json, ..Wanted::default() })
}

/// What every look at traces takes; all else is for a run of a model that Rankmark trains.
const OF_TRACES: [&str; 9] = ["record", "command", "import", "compare", "steps", "target", "json", "quiet", "verbose"];
/// What takes it that makes a record.
const OF_RECORDS: [&str; 4] = ["output-dir", "name", "tag", "note"];
/// What a job takes beside that.
const OF_JOBS: [&str; 2] = ["duration", "tool"];

/// Options that mean nothing here are refused, and not dropped in silence.
fn refuse_of_training(matches: &ArgMatches) -> Result<(), Failure> {
    let others = ["record", "command", "import", "compare"];
    let Some(other) = others.into_iter().find(|name| matches.contains_id(name)) else { return Ok(()) };
    let makes_record = ["command", "import"].contains(&other);
    let is_for_it = |name: &str| {
        OF_TRACES.contains(&name)
            || other == "command" && OF_JOBS.contains(&name)
            || makes_record && OF_RECORDS.contains(&name)
    };
    let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    let mut names = matches.ids().map(clap::Id::as_str).filter(|name| is_given(name));
    let Some(name) = names.find(|name| !is_for_it(name)) else { return Ok(()) };
    let (name, what) = (
        name.replace('_', "-"),
        match other {
            "command" => "a command after `--`",
            "record" => "a record",
            _ => "traces",
        },
    );
    let of = if OF_RECORDS.contains(&name.as_str()) { "a new record" } else { "a model that Rankmark trains" };
    Err(Failure::new(format!("`--{name}` is for {of}, and {what} is given")).hint(format!("leave `--{name}` out")))
}

/// How to look at what was recorded.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) target: Target,
    pub(crate) steps: Option<std::ops::Range<u32>>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// What a new record is called.
    labels: Labels,
}

impl Wanted {
    fn read(matches: &ArgMatches) -> Result<Self, Failure> {
        let steps = matches.get_many::<String>("steps").into_iter().flatten().next();
        Ok(Self {
            target: Target::of(matches),
            steps: steps.map(|text| range_of(text)).transpose()?,
            json: matches.get_flag("json"),
            quiet: matches.get_flag("quiet"),
            labels: crate::labels::read(matches)?,
        })
    }

    /// Shows text where JSON does not take its place.
    fn say(&self, text: &str) -> Result<(), Failure> {
        match (self.quiet, self.json) {
            (true, _) => {}
            (_, true) => terminal::remark(text),
            (_, false) => drop(terminal::print(text)?),
        }
        Ok(())
    }
}

fn range_of(text: &str) -> Result<std::ops::Range<u32>, Failure> {
    let numbers =
        text.split_once(':').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    match numbers {
        Some((from, to)) if from < to => Ok(from..to),
        _ => {
            Err(Failure::new(format!("`--steps {text}` is not a range of steps"))
                .hint("FIRST:LAST, as in --steps 10:20"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_steps_is_read_or_refused() {
        assert_eq!(range_of("10:20").ok(), Some(10..20));
        for wrong in ["10", "20:10", "10:10", "a:b", "-1:4"] {
            assert!(range_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_target_shows_its_own_part_and_all_shows_everything() {
        assert!(Target::All.shows(Target::Input) && Target::Input.shows(Target::Input));
        assert!(!Target::Input.shows(Target::Overlap));
    }
}
