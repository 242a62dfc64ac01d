//! `rankmark profile`: runs steps, or another program's job, records where their time goes, and explains it.

pub(crate) mod explain;
pub(crate) mod job_words;
mod native;
mod own_job;
mod wanted;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, ValueHint};
use report::Target;
use terms::{Group, Seconds};

use super::{CommandRow, Ended};
use crate::Failure;
use crate::options::{RunOptions, fields, names_given, parts};
use crate::session::Entry;
use wanted::{Wanted, origin, range_of};

const EXAMPLES: &str = "\
Examples:
  rankmark profile --model transformer-small --ranks 2 --duration 30s   a built-in model
  rankmark profile -- torchrun --nproc-per-node 2 train.py              your own PyTorch job
  rankmark profile --import trace-rank0.json.gz trace-rank1.json.gz     traces of the PyTorch profiler
  rankmark profile results/DIR                                          traces of a record
  rankmark profile --compare results/BEFORE results/AFTER               what got slower";

/// Records where the time of training steps goes, and explains it: stalls, slow ranks, overlap, input
#[derive(clap::Args)]
#[command(before_help = EXAMPLES)]
struct Profile {
    /// a record with traces: explains them, and runs nothing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,
    /// a job to trace: `-- torchrun --nproc-per-node 2 train.py`
    #[arg(value_name = "COMMAND", num_args = 1.., last = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    own: ProfileOptions,
}

/// Options that only this command has. The short ones are those of TorchScale.
#[derive(clap::Args)]
#[group(skip)]
#[command(next_help_heading = fields::PROFILE)]
struct ProfileOptions {
    /// profiles the training cases of this plan
    #[arg(
        long,
        value_name = "PLAN",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["record", "import", "command"]
    )]
    plan: Option<PathBuf>,
    /// how long to measure and record (default: 20s)
    #[arg(long, short, value_name = "TIME")]
    duration: Option<Seconds>,
    /// what to look at (default: all)
    #[arg(long, short, value_name = "TARGET", value_parser = Target::NAMES.map(|(name, _)| name))]
    target: Option<String>,
    /// what records a job: the PyTorch profiler, or nsys around each rank (default: builtin)
    #[arg(long, value_name = "TOOL", value_parser = ["builtin", "nsys"])]
    tool: Option<String>,
    /// explains traces of other tools, files or a folder of them, and keeps the result in a record
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::AnyPath,
        num_args = 1..,
        conflicts_with_all = ["record", "command"]
    )]
    import: Vec<PathBuf>,
    /// what got slower from one trace or record to another
    #[arg(
        long,
        value_name = "TRACE",
        value_hint = ValueHint::AnyPath,
        num_args = 2,
        conflicts_with_all = ["record", "command", "import"]
    )]
    compare: Vec<PathBuf>,
    /// the same as --ranks
    #[arg(long, short, value_name = "N", conflicts_with = "ranks")]
    gpus: Option<String>,
}

const NAME: &str = "profile";

pub(crate) const ROW: CommandRow =
    CommandRow { declare: || vec![command()], run: |name, matches, entry| (name == NAME).then(|| run(matches, entry)) };

fn command() -> clap::Command {
    let about = native::about();
    let command = <Profile as clap::Args>::augment_args(parts::named(NAME)).next_help_heading(None);
    let steps = "only these steps of the job, the last one not included: 10:20";
    let command = fields::with_options(command, &[about], None)
        .mut_arg("output_dir", |arg| arg.short('o'))
        .mut_arg("steps", |arg| arg.value_name("FIRST:LAST").help(steps).help_heading(fields::PROFILE));
    // These fields have other defaults here.
    let command = native::DEFAULTS
        .into_iter()
        .fold(command, |command, (field, _, help)| command.mut_arg(field, |arg| arg.help(help)));
    fields::without_fields(command, &[fields::PROFILE, Group::COMMON.heading])
        .after_help("All fields of training are options, too: `rankmark train --help` shows them.")
}

fn run(matches: &ArgMatches, entry: Entry<'_>) -> Ended {
    let Profile { record, command, own } = parts::read(matches)?;
    let mut options = RunOptions::read(matches, &[native::about()])?;
    let steps = native::take_steps(&mut options.fields);
    let wanted = Wanted {
        target: Target::named(own.target.as_deref()),
        json: options.output.json,
        quiet: options.output.quiet,
        traces: job::Wanted {
            steps: steps.as_deref().map(range_of).transpose()?,
            labels: options.whole.labels.labels()?,
            origin,
        },
    };
    if let Some(failure) = record.as_deref().and_then(job_words::instead_of_record) {
        return Err(failure);
    }
    refuse_unrelated_options(&names_given(matches))?;
    if let [before, after] = own.compare.as_slice() {
        return explain::compare(before, after, &wanted);
    }
    if !own.import.is_empty() {
        return explain::files(&own.import, options.output.output_dir.as_deref(), &wanted);
    }
    if let Some(record) = record {
        return explain::record(&record, &wanted);
    }
    let nsys = own.tool.as_deref().is_some_and(|tool| tool != "builtin");
    if command.is_empty() {
        return native::run(
            &native::ProfileAsked { plan: own.plan, duration: own.duration, gpus: own.gpus, nsys },
            options,
            (entry, &wanted),
        );
    }
    let request =
        own_job::JobRequest { nsys, steps, duration: own.duration, output_dir: options.output.output_dir.as_deref() };
    own_job::run(&command, request, &wanted)
}

/// Explains traces of other tools for `rankmark import`, as `rankmark profile --import` does.
pub(crate) fn explain_files(files: &[PathBuf], output: Option<&Path>, json: bool) -> Result<u8, Failure> {
    explain::files(files, output, &Wanted { json, ..Wanted::default() })
}

/// Compares two traces for `rankmark compare`, as `rankmark profile --compare` does.
pub(crate) fn compare_traces([before, after]: [&Path; 2], json: bool) -> Result<u8, Failure> {
    explain::compare(before, after, &Wanted { json, ..Wanted::default() })
}

/// Options that apply wherever traces are explained.
const TRACE_OPTIONS: [&str; 9] =
    ["record", "command", "import", "compare", "steps", "target", "json", "quiet", "verbose"];
/// Options that also apply where a new record is made.
const RECORD_OPTIONS: [&str; 4] = ["output_dir", "name", "tag", "note"];
/// Options that also apply to a job.
const JOB_OPTIONS: [&str; 2] = ["duration", "tool"];

/// Refuses options that do not apply to what is profiled, rather than ignoring them.
fn refuse_unrelated_options(given: &[String]) -> Result<(), Failure> {
    let sources = ["record", "command", "import", "compare"];
    let Some(source) = sources.into_iter().find(|name| given.iter().any(|given| given == name)) else { return Ok(()) };
    let makes_record = ["command", "import"].contains(&source);
    let applies = |name: &str| {
        TRACE_OPTIONS.contains(&name)
            || source == "command" && JOB_OPTIONS.contains(&name)
            || makes_record && RECORD_OPTIONS.contains(&name)
    };
    let Some(name) = given.iter().find(|name| !applies(name)) else { return Ok(()) };
    let valid_for =
        if RECORD_OPTIONS.contains(&name.as_str()) { "a new record" } else { "a model that Rankmark trains" };
    let profiled = match source {
        "command" => "a command after `--`",
        "record" => "an existing record",
        _ => "traces",
    };
    let name = name.replace('_', "-");
    Err(Failure::new(format!("`--{name}` is for {valid_for}, not for {profiled}"))
        .hint(format!("leave `--{name}` out")))
}
