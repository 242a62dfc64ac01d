//! `rankmark run`: a plan to a record.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use measure::machine;
use plans::only::{self, Only};
use plans::quick::quick;
use plans::{Loaded, fleet, presets};

use super::{CommandRow, Ended, measured};
use crate::options::{RUN, RunOptions, fields, parts};
use crate::session::{Entry, SessionRequest};
use crate::{Failure, habits, not_a_record, plan_files};
use import::lines::DDLB_CONFIG;

/// Runs a plan: every benchmark, every combination; without one, the quick plan of this machine
#[derive(clap::Args)]
#[command(
    visible_aliases = ["suite", "benchmark"],
    after_help = "Fields of cases are options, too: `--ranks 4`, `--bytes 1MiB`, `--quick` replace a field in all cases of \
                  the plan, as `--set ranks=4` does. `rankmark list fields` shows all of them."
)]
struct Planned {
    /// a plan, YAML or JSON
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: Option<String>,
    /// the same, as an option
    #[arg(long, short, value_name = "PLAN", value_hint = ValueHint::FilePath, conflicts_with = "plan")]
    config: Option<String>,
    #[arg(long = DDLB_CONFIG, hide = true)]
    ddlb_config: Option<String>,
}

/// Options of `run` alone, which stand behind those of all measuring commands.
#[derive(clap::Args)]
#[group(skip)]
struct OwnRunOptions {
    /// runs the cases of N ranks alone; the others are left to --resume
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    only_ranks: Option<u32>,
    #[arg(
        long,
        visible_alias = "benchmark",
        value_name = "BENCHMARK",
        value_delimiter = ',',
        conflicts_with = "resume",
        help = only::help()
    )]
    only: Vec<String>,
    /// also writes the results as one JSON file: name, world_size, timestamp, config, results
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

const NAME: &str = "run";

pub(crate) const ROW: CommandRow = CommandRow {
    declare: || {
        let command = <Planned as clap::Args>::augment_args(parts::named(NAME));
        let command = fields::with_options(command, &benchmarks::abouts(), None);
        let own = parts::arguments::<OwnRunOptions>().into_iter().map(|arg| arg.help_heading(RUN));
        vec![fields::without_fields(command.args(own), &[])]
    },
    run: |name, matches, entry| {
        (name == NAME).then(|| {
            let own: OwnRunOptions = parts::read(matches)?;
            let mut options = RunOptions::read(matches, &benchmarks::abouts())?;
            options.only_ranks = own.only_ranks;
            options.extra_files.results_json.clone_from(&own.output);
            run(parts::read(matches)?, &own, options, entry)
        })
    },
};

fn run(planned: Planned, own: &OwnRunOptions, mut options: RunOptions, entry: Entry<'_>) -> Ended {
    options.whole.resume.as_deref().map_or(Ok(()), not_a_record::refuse_file)?;
    let machine = machine::detect();
    let mut overrides = options.fields.clone();
    overrides.extend(options.overrides()?);
    let file = planned.plan.or(planned.config);
    options.has_plan = file.is_some();
    if let Some(failure) = file.as_deref().and_then(habits::no_plan) {
        return Err(failure);
    }
    let only = if own.only.is_empty() { None } else { Some(Only::named(&own.only)?) };
    let mut into_folder = false;
    let loaded = match (&file, &planned.ddlb_config) {
        (Some(file), _) => {
            Some(plan_files::load_kept(Path::new(file), (&overrides, only.as_ref()), entry.coordinator)?)
        }
        (None, Some(text)) => Some(plans::of_command_line(text, &overrides, &plan_files::here(entry.coordinator))?),
        (None, None) => None,
    };
    let plan = match loaded {
        Some(Loaded { mut plan, format }) => {
            into_folder = format.is_some_and(|format| format.shares_output_dir());
            if let Some(only) = only.filter(|only| !only.keep(&mut plan)) {
                return Err(only.missing(&plan).into());
            }
            Some(plan)
        }
        // A record brings its own plan.
        None if options.whole.resume.is_some() => {
            if !overrides.is_empty() {
                let hint = "leave them out, or start a new record";
                return Err(Failure::new("a resumed record keeps its own fields").hint(hint));
            }
            None
        }
        None => {
            let text = match entry.coordinator {
                Some(coordinator) => {
                    let several = coordinator.hosts().len() > 1;
                    presets::quick_of_launched(coordinator.size(), several.then(|| fleet::connection(coordinator)))
                }
                None => (presets::PRESETS[0].text)(machine.allowed_cpus.len()),
            };
            Some(quick(&mut overrides, only.as_ref(), &text)?)
        }
    };
    let explain = Some(measured::EXPLAIN);
    measured::measure(&SessionRequest { machine, into_folder, explain, ..SessionRequest::new(&options, entry) }, plan)
}
