//! The command of one benchmark (`comm`, `train`, ...): its fields from flags.

use std::path::PathBuf;

use measure::machine;
use plans::ranks::{default_ranks, ranks_with_gpus};
use record::{About, Plan};

use super::profile::explain;
use super::{CommandRow, Ended, baseline};
use crate::options::{RunOptions, fields, parts};
use crate::session::{self, Entry, Explain, SessionRequest};
use crate::{Failure, external, screen};
use import::lines::{READ_AS, STUDY_CSV};

/// What the options of other programs became: our own reader of arguments writes it.
#[derive(clap::Args)]
#[group(skip)]
struct Translated {
    #[arg(long = READ_AS, hide = true, allow_hyphen_values = true)]
    read_as: Option<String>,
    #[arg(long = STUDY_CSV, hide = true, allow_hyphen_values = true)]
    study_csv: Option<PathBuf>,
}

/// Explains the traces that a run recorded with its results.
pub(in crate::commands) const EXPLAIN: Explain = explain::after_run;

/// Each command that a benchmark declares.
pub(crate) const ROW: CommandRow = CommandRow {
    declare: || {
        let declared = benchmarks::abouts().into_iter().filter_map(|about| Some((about, about.command.as_ref()?)));
        declared.map(|(about, command)| fields::command(about, command, parts::arguments::<Translated>())).collect()
    },
    run: |name, matches, entry| {
        let (about, declared) = fields::measured(name)?;
        Some((|| {
            let translated: Translated = parts::read(matches)?;
            let mut options = RunOptions::read(matches, &[about])?;
            options.extra_files.study_csv = translated.study_csv;
            run(about, &declared, &options, (translated.read_as, entry))
        })())
    },
};

fn run(
    about: &'static About,
    declared: &record::Command,
    options: &RunOptions,
    (read_as, entry): (Option<String>, Entry<'_>),
) -> Ended {
    let mut pairs = options.fields.clone();
    let named = declared.sweep.filter(|sweep| sweep.fill(&mut pairs));
    let overrides = options.overrides()?;
    default_ranks(&mut pairs, &overrides, entry.coordinator);
    ranks_with_gpus(about, &mut pairs, &overrides, machine::gpus);
    let mut plan = record::plan::from_flags(about, &pairs, &overrides)?;
    if let Some(sweep) = named {
        sweep.check(&plan)?;
    }
    plan.notes.extend(read_as);
    if let Some(note) = external::default_backend(entry.coordinator, &pairs, &overrides) {
        options.output.note_first(&note);
    }
    let machine = machine::detect();
    measure(&SessionRequest { machine, explain: Some(EXPLAIN), ..SessionRequest::new(options, entry) }, Some(plan))
}

/// Runs a plan, and compares the record with the baseline that the options name. The run's own failure counts first.
pub(super) fn measure(request: &SessionRequest<'_>, plan: Option<Plan>) -> Result<u8, Failure> {
    let baseline = baseline::at_end(&request.options.whole.baseline)?;
    let session::Ended { code, directory } = session::measure(request, plan)?;
    let (Some(mut baseline), Some(directory)) = (baseline, directory) else { return Ok(code) };
    let judged = baseline.judge(&directory);
    let (text, judged) = judged.map_err(|failure| if code == 0 { failure } else { failure.with_code(code) })?;
    match (request.options.output.quiet, request.options.output.json) {
        (true, _) => {}
        (_, true) => screen::remark(&format!("\n{text}")),
        (_, false) => drop(screen::print(&format!("\n{text}"))?),
    }
    Ok(if code == 0 { judged } else { code })
}
