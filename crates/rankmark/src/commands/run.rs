//! `rankmark run`: a plan to a record.

use clap::ArgMatches;
use measure::machine;
use record::Plan;
use std::path::Path;

use super::measure;
use crate::arguments::DDLB_CONFIG;
use crate::only::Only;
use crate::plans::Loaded;
use crate::session::{Entry, Request};
use crate::{Failure, cli, foreign, habits, plans};

type Fields = Vec<(String, String)>;

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    let machine = machine::detect();
    let abouts = benchmarks::abouts();
    let mut overrides = crate::given::given(matches, &abouts);
    overrides.extend(cli::overrides(matches)?);
    let file = matches.get_one::<String>("plan").or_else(|| matches.get_one::<String>("config"));
    if let Some(failure) = file.and_then(|file| habits::no_plan(file)) {
        return Err(failure);
    }
    let words: Vec<String> = matches.get_many::<String>("only").into_iter().flatten().cloned().collect();
    let only = if words.is_empty() { None } else { Some(Only::named(&words)?) };
    let mut into_folder = false;
    let loaded = match (file, matches.try_get_one::<String>(DDLB_CONFIG).ok().flatten()) {
        (Some(file), _) => Some(plans::load(Path::new(file), &overrides, entry.coordinator)?),
        (None, Some(text)) => Some(plans::of_command_line(text, &overrides, entry.coordinator)?),
        (None, None) => None,
    };
    let plan = match loaded {
        Some(Loaded { mut plan, format }) => {
            into_folder = format.is_some_and(|format| format.shares_output_dir());
            if let Some(only) = only.filter(|only| !only.keep(&mut plan)) {
                return Err(only.missing(&plan));
            }
            Some(plan)
        }
        // A record brings its own plan.
        None if matches.contains_id("resume") => {
            if !overrides.is_empty() {
                let hint = "leave them out, or start a new record";
                return Err(Failure::new("a resumed record keeps its own fields").hint(hint));
            }
            None
        }
        None => Some(quick(&mut overrides, only.as_ref(), machine.allowed_cpus.len())?),
    };
    measure(&Request { matches, machine, entry, into_folder, is_profile: false }, plan)
}

/// The quick plan of this machine; of a benchmark that it does not have, what the benchmark's own command runs.
fn quick(overrides: &mut Fields, only: Option<&Only>, cores: usize) -> Result<Plan, Failure> {
    let text = (plans::PRESETS[0].text)(cores);
    let abouts = benchmarks::abouts();
    let whole = record::plan::read(&text, "the quick plan", &abouts, &[])?;
    foreign::with_steps(overrides, |name| foreign::takes(&whole.cases, name));
    let Some(only) = only else {
        return Ok(record::plan::read(&text, "the quick plan", &abouts, overrides)?);
    };
    let in_plan = |about: &&record::About| whole.cases.iter().any(|case| case.benchmark == about.name);
    if only.abouts.iter().copied().any(|about| in_plan(&about)) {
        let mut plan = record::plan::read(&text, "the quick plan", &abouts, overrides)?;
        return if only.keep(&mut plan) { Ok(plan) } else { Err(only.missing(&plan)) };
    }
    let [about] = only.abouts.as_slice() else { return Err(only.missing(&whole)) };
    let mut fields: Fields = overrides.drain(..).filter(|(name, _)| name != "steps").collect();
    foreign::with_steps(&mut fields, |name| about.field(name).is_some());
    let mut plan = record::plan::from_flags(about, &fields, &[])?;
    let command = about.command.as_ref().map_or(about.name, |command| command.name);
    plan.notes.push(format!("the quick plan has no case of {}: these are those of `rankmark {command}`", about.name));
    Ok(plan)
}
