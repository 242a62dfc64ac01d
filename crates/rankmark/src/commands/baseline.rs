//! `rankmark baseline save NAME [DIR...] | list | check`: records that later runs are compared with.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use record::pack::Redaction;
use record::{
    BASELINES, CaseLine, CompactRecord, Record, RunEnd, find_baselines, list_baselines, read_baseline, read_run,
    save_baseline,
};
use report::{Gate, SideSource};
use terms::Status;

use super::compare::{Outputs, record_side, sides};
use super::pack::names;
use super::{Ended, Typed};
use crate::options::GateOptions;
use crate::options::gate::BaselineOptions;
use crate::session::Entry;
use crate::{Failure, incomplete, not_a_record, screen};
use record::store::RESULTS;
use record::store::RecordFolders;

/// Keeps records in .rankmark/baselines, and compares runs with them
#[derive(clap::Args)]
#[command(
    after_help = "A baseline of five or more equal runs knows the noise between runs. Baselines are small and meant to be \
                  committed: names of hosts and users are replaced. A measuring command with `--baseline NAME` compares \
                  at its end, and takes --threshold and --fail-on as `check` does. docs/how-to/ci.md says how to use one in \
                  CI.",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Baseline {
    #[command(subcommand)]
    command: BaselineCommand,
}

#[derive(clap::Subcommand)]
enum BaselineCommand {
    /// Adds records to a baseline; saving a record again changes nothing
    Save(Save),
    /// Lists baselines, each with its number of runs
    List {
        /// JSON on standard output
        #[arg(long)]
        json: bool,
    },
    /// Compares a record with a baseline; exit status as that of compare
    Check(Check),
}

#[derive(clap::Args)]
struct Save {
    /// the baseline's name
    #[arg(value_name = "NAME")]
    name: String,
    /// records, or folders of them (default: the newest in results)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, num_args = 0..)]
    record: Vec<PathBuf>,
    /// replaces the runs that the baseline has
    #[arg(long)]
    replace: bool,
    /// keeps names of hosts, users and home folders
    #[arg(long)]
    keep_names: bool,
}

#[derive(clap::Args)]
struct Check {
    /// the baseline (default: the only one)
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// a record's directory (default: the newest in results)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    record: Option<PathBuf>,
    #[command(flatten)]
    gate: GateOptions,
    #[command(flatten)]
    outputs: Outputs,
}

impl Typed for Baseline {
    const NAME: &'static str = "baseline";

    fn run(self, _: Entry<'_>) -> Ended {
        match self.command {
            BaselineCommand::Save(given) => save(given),
            BaselineCommand::List { json } => list(json),
            BaselineCommand::Check(given) => check(given),
        }
    }
}

/// The folder of baselines: that of this project, else one in this folder.
fn folder() -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    find_baselines(&here).unwrap_or_else(|| PathBuf::from(BASELINES))
}

fn save(given: Save) -> Ended {
    let name = given.name.as_str();
    let named = if given.record.is_empty() { vec![newest()?] } else { given.record };
    let directories = named.iter().flat_map(|directory| report::records_below(directory, &mut screen::warn));
    let mut read = Vec::new();
    for directory in directories {
        not_a_record::refuse_file(&directory)?;
        let record = read_run(&directory)?;
        refuse_running(&directory, &record)?;
        incomplete::warn(&directory, record.banner().as_deref());
        let is_whole = |line: &&CaseLine| line.status == Status::Ok && !line.lacks_trials();
        let whole = record.cases.iter().filter(is_whole).count();
        if whole == 0 {
            let cause = record.banner().unwrap_or_else(|| "no case is ok with all its trials".to_owned());
            return Err(Failure::new(format!("no case of {} can be part of a baseline", directory.display()))
                .cause(cause)
                .hint("a baseline is made of runs that worked; `rankmark run --resume DIR` runs the rest"));
        }
        let left_out = record.cases.iter().filter(|line| line.lacks_trials()).count();
        if left_out > 0 {
            let cases = view::number::count(left_out, "case", "cases");
            let place = view::one_line(&directory.display().to_string());
            screen::warn(&format!("{place}: {cases} left out, with fewer trials than the plan asks for"));
        }
        read.push((directory, record));
    }
    let mut compact = Vec::new();
    for (directory, record) in &read {
        let mut redaction = match given.keep_names {
            true => None,
            false => Some(Redaction::new(names(directory)?)),
        };
        compact.push((directory, CompactRecord::new(record, redaction.as_mut())?));
    }
    let folder = folder();
    // Only now: a record that is refused leaves the baseline as it was.
    if given.replace {
        record::clear_baseline(&folder, name)?;
    }
    let mut text = String::new();
    for (directory, record) in &compact {
        text += &match save_baseline(&folder, name, record)? {
            Some(path) => format!("saved     {}\n", path.display()),
            None => format!("known     {}: it is in the baseline already\n", directory.display()),
        };
    }
    let runs = read_baseline(&folder, name)?.len();
    let enough = if runs < stats::FEWEST_RUNS {
        format!("; the noise between runs is known from {} on", stats::FEWEST_RUNS)
    } else {
        String::new()
    };
    screen::print(&format!("{text}baseline  {name}: {}{enough}\n", view::number::count(runs, "run", "runs")))
}

/// A copy of a record that still grows would be taken for that of a run that was killed.
fn refuse_running(directory: &Path, record: &Record) -> Result<(), Failure> {
    match record.end {
        RunEnd::Running => {
            let what = format!("{} cannot be part of a baseline yet", directory.display());
            Err(Failure::new(what).cause("its run is still running").hint("save it once the run has ended"))
        }
        RunEnd::Ended | RunEnd::Interrupted(_) | RunEnd::Killed | RunEnd::Unknown | RunEnd::Part => Ok(()),
    }
}

fn list(as_json: bool) -> Ended {
    let folder = folder();
    let mut text = String::new();
    for (name, runs) in list_baselines(&folder)? {
        let records = read_baseline(&folder, &name)?;
        let incomplete: Vec<String> = records.iter().filter_map(Record::banner).collect();
        text += &match as_json {
            true => format!("{}\n", serde_json::json!({ "name": name, "runs": runs, "incomplete": incomplete })),
            false => {
                let runs = view::number::count(runs, "run", "runs");
                let lines = incomplete.iter().map(|banner| format!("  {}\n", view::one_line(banner)));
                format!("{name}  {runs}\n{}", lines.collect::<String>())
            }
        };
    }
    if as_json {
        return screen::print_json(&text);
    }
    if text.is_empty() {
        screen::remark("note: there is no baseline; `rankmark baseline save NAME DIR` makes one\n");
    }
    screen::print(&text)
}

fn check(given: Check) -> Ended {
    let folder = folder();
    let name = match given.name {
        Some(name) => name,
        None => only_one(&folder)?,
    };
    let base = SideSource { records: read_baseline(&folder, &name)?, name: format!("baseline {name}") };
    let directory = given.record.map_or_else(newest, Ok)?;
    not_a_record::refuse_file(&directory)?;
    sides((&given.outputs, &given.gate.gate(), false), base, vec![record_side(&directory)?])
}

fn only_one(folder: &Path) -> Result<String, Failure> {
    let found = list_baselines(folder)?;
    match found.as_slice() {
        [(name, _)] => Ok(name.clone()),
        [] => Err(Failure::new("there is no baseline").hint("`rankmark baseline save NAME DIR` makes one")),
        several => {
            let names: Vec<&str> = several.iter().map(|(name, _)| name.as_str()).collect();
            Err(Failure::new("there are several baselines")
                .cause(names.join(", "))
                .hint("name one: `rankmark baseline check NAME`"))
        }
    }
}

/// The newest record in the folder of results.
fn newest() -> Result<PathBuf, Failure> {
    let missing = || Failure::new(format!("there is no record in {RESULTS}")).hint("name its directory");
    let found = RecordFolders::within(Path::new(RESULTS)).map_err(|_| missing())?;
    let mut dated: Vec<(String, PathBuf)> = Vec::new();
    for path in incomplete::readable(found) {
        if let Ok(record) = record::read_results(&path) {
            dated.push((record.file.started, path));
        }
    }
    dated.into_iter().max().map(|(_, path)| path).ok_or_else(missing)
}

/// The baseline that a run is to be compared with at its end: read before anything is measured.
pub(crate) struct AtEnd {
    base: SideSource,
    gate: Gate,
}

/// What `--baseline` asks for.
///
/// # Errors
/// When there is no such baseline.
pub(crate) fn at_end(options: &BaselineOptions) -> Result<Option<AtEnd>, Failure> {
    let Some(name) = &options.baseline else { return Ok(None) };
    let base = SideSource { records: read_baseline(&folder(), name)?, name: format!("baseline {name}") };
    Ok(Some(AtEnd { base, gate: options.gate.gate() }))
}

impl AtEnd {
    /// The comparison of a finished run, as text, and the exit code that it gives.
    pub(crate) fn judge(&mut self, directory: &Path) -> Result<(String, u8), Failure> {
        super::compare::at_end(&mut self.base, record_side(directory)?, &self.gate)
    }
}
