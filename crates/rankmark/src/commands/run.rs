//! `rankmark run`: a plan to a record.

use clap::ArgMatches;
use measure::machine;
use std::path::Path;

use crate::session::{Entry, Request, measure};
use crate::{Failure, cli, habits, plans};

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let machine = machine::detect();
    let abouts = benchmarks::abouts();
    let mut overrides = crate::given::given(matches, &abouts);
    overrides.extend(cli::overrides(matches)?);
    let file = matches.get_one::<String>("plan").or_else(|| matches.get_one::<String>("config"));
    if let Some(failure) = file.and_then(|file| habits::no_plan(file)) {
        return Err(failure);
    }
    let plan = match file {
        Some(file) => Some(plans::load(Path::new(file), &overrides)?),
        // A record brings its own plan.
        None if matches.contains_id("resume") => {
            if !overrides.is_empty() {
                let hint = "leave them out, or start a new record";
                return Err(Failure::new("a record that is gone on with keeps its own fields").hint(hint));
            }
            None
        }
        None => {
            let text = (plans::PRESETS[0].text)(machine.allowed_cpus.len());
            Some(record::plan::read(&text, "the quick plan", &abouts, &overrides)?)
        }
    };
    measure(&Request { matches, machine, entry }, plan)
}
