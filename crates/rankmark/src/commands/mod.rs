//! One module a command.

pub(crate) mod baseline;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod gen_config;
pub(crate) mod gen_job;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod measured;
pub(crate) mod merge;
pub(crate) mod pack;
pub(crate) mod profile;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod trust;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod watch;

use clap::ArgMatches;
use measure::machine;
use record::{About, Plan};

use crate::arguments::READ_AS;
use crate::session::{self, Ended, Entry, Request};
use crate::{Failure, cli, external, terminal};

/// Runs a benchmark with the fields that flags gave.
fn measure_flags(
    about: &'static About,
    mut fields: Vec<(String, String)>,
    matches: &ArgMatches,
    entry: Entry<'_>,
) -> Result<u8, Failure> {
    let overrides = cli::overrides(matches)?;
    cli::default_ranks(&mut fields, &overrides, entry.coordinator);
    cli::ranks_with_gpus(about, &mut fields, &overrides, machine::gpus);
    let mut plan = record::plan::from_flags(about, &fields, &overrides)?;
    plan.notes.extend(matches.try_get_one::<String>(READ_AS).ok().flatten().cloned());
    if let Some(note) = external::default_backend(entry.coordinator, &fields, &overrides) {
        terminal::note_first(matches, &note);
    }
    measure(&Request { matches, machine: machine::detect(), entry, into_folder: false, is_profile: false }, Some(plan))
}

/// Runs a plan, and compares the record with the baseline that the options name. The run's own failure counts first.
fn measure(request: &Request<'_>, plan: Option<Plan>) -> Result<u8, Failure> {
    let baseline = baseline::at_end(request.matches)?;
    let Ended { code, directory } = session::measure(request, plan)?;
    let (Some(mut baseline), Some(directory)) = (baseline, directory) else { return Ok(code) };
    let (text, judged) = baseline.judge(&directory)?;
    match (request.matches.get_flag("quiet"), request.matches.get_flag("json")) {
        (true, _) => {}
        (_, true) => terminal::remark(&format!("\n{text}")),
        (_, false) => drop(terminal::print(&format!("\n{text}"))?),
    }
    Ok(if code == 0 { judged } else { code })
}
