//! The command of one benchmark (`comm`, `train`, ...): its fields from flags.

use std::path::PathBuf;

use measure::machine;
use record::{About, Plan};

use super::profile::explain;
use super::{CommandRow, Ended, baseline};
use crate::options::{Pairs, RunOptions, default_ranks, fields, parts, ranks_with_gpus};
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
    let sizes = swept(declared, &mut pairs);
    let overrides = options.overrides()?;
    default_ranks(&mut pairs, &overrides, entry.coordinator);
    ranks_with_gpus(about, &mut pairs, &overrides, machine::gpus);
    let mut plan = record::plan::from_flags(about, &pairs, &overrides)?;
    if sizes {
        check_swept(declared, &plan)?;
    }
    plan.notes.extend(read_as);
    if let Some(note) = external::default_backend(entry.coordinator, &pairs, &overrides) {
        options.output.note_first(&note);
    }
    let machine = machine::detect();
    measure(&SessionRequest { machine, explain: Some(EXPLAIN), ..SessionRequest::new(options, entry) }, Some(plan))
}

/// Adds the values that a command sweeps where nobody names any. True: somebody did.
fn swept(declared: &record::Command, pairs: &mut Pairs) -> bool {
    let Some(sweep) = declared.sweep else { return false };
    let of = |name: &str| pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let (field, value) = sweep.unless;
    let is_void = of(field).is_some_and(|given| terms::normalize(given) == value);
    let is_given = of(sweep.field).is_some();
    if !is_given && !is_void {
        pairs.push((sweep.field.to_owned(), sweep.values.to_owned()));
    }
    is_given
}

/// Refuses values of the swept field that no case has: a table without the size that was asked for would be taken for one of that
/// size.
fn check_swept(declared: &record::Command, plan: &Plan) -> Result<(), Failure> {
    let Some(sweep) = declared.sweep else { return Ok(()) };
    if plan.cases.iter().any(|case| case.value(sweep.field).is_some()) {
        return Ok(());
    }
    let (field, value) = sweep.unless;
    Err(Failure::new(format!("`{value}` has no {}: `--{}` means nothing", sweep.field, sweep.field))
        .cause(format!("{field} is {value}"))
        .hint(format!("leave `--{}` out", sweep.field)))
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
