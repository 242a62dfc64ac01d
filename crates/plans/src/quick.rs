//! The quick plan as `--only` and the user's fields leave it.

use record::{Plan, PlanErrors};

use crate::foreign;
use crate::only::Only;

/// The quick plan of this machine; of a benchmark that it does not have, what the benchmark's own command runs.
///
/// # Errors
/// Fields that the plan refuses, and benchmarks of which it has no case.
pub fn quick(overrides: &mut Vec<(String, String)>, only: Option<&Only>, text: &str) -> Result<Plan, PlanErrors> {
    let abouts = benchmarks::abouts();
    let whole = record::plan::read(text, "the quick plan", &abouts, &[])?;
    foreign::with_steps(overrides, |name| foreign::takes(&whole.cases, name));
    let Some(only) = only else { return record::plan::read(text, "the quick plan", &abouts, overrides) };
    let in_plan = |about: &&record::About| whole.cases.iter().any(|case| case.benchmark == about.name);
    if only.abouts.iter().copied().any(|about| in_plan(&about)) {
        let is_kept = |about: &record::About| only.keeps(about);
        let mut plan = record::plan::read_kept(text, "the quick plan", &abouts, (overrides, &is_kept))?;
        return if only.keep(&mut plan) { Ok(plan) } else { Err(only.missing(&plan).into()) };
    }
    let [about] = only.abouts.as_slice() else { return Err(only.missing(&whole).into()) };
    let mut fields: Vec<(String, String)> = overrides.drain(..).filter(|(name, _)| name != "steps").collect();
    foreign::with_steps(&mut fields, |name| about.field(name).is_some());
    let mut plan = record::plan::from_flags(about, &fields, &[])?;
    let command = about.command.as_ref().map_or(about.name, |command| command.name);
    plan.notes.push(format!("the quick plan has no case of {}: these are those of `rankmark {command}`", about.name));
    Ok(plan)
}
