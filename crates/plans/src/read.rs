//! Reads plans: our own, and those that configurations of other tools become.

use std::path::{Path, PathBuf};

use import::{Content, Format};
use launch::external::Coordinator;
use record::{Plan, PlanErrors};
use terms::Error;

use crate::foreign;
use crate::only::Only;

/// What a plan may depend on besides its file.
pub struct Surroundings<'a> {
    /// The ranks of a launcher, where one started this program.
    pub coordinator: Option<&'a Coordinator>,
    /// The folders of the path.
    pub search_path: fn() -> Vec<PathBuf>,
}

/// A plan that was read.
pub struct Loaded {
    /// The plan.
    pub plan: Plan,
    /// The format of the configuration that it was made from.
    pub format: Option<&'static dyn Format>,
}

/// Reads a plan: one of ours, or another tool's configuration, which is said in the plan's notes.
///
/// # Errors
/// When it cannot be read, or what is wrong in it; when it holds results and no configuration.
pub fn load(path: &Path, overrides: &[(String, String)], here: &Surroundings<'_>) -> Result<Loaded, PlanErrors> {
    load_kept(path, (overrides, None), here)
}

/// Reads a plan with only the cases that `--only` keeps, where it is given: fields that are set need not fit the others.
///
/// # Errors
/// As [`load`].
pub fn load_kept(
    path: &Path,
    (overrides, only): (&[(String, String)], Option<&Only>),
    here: &Surroundings<'_>,
) -> Result<Loaded, PlanErrors> {
    let abouts = benchmarks::abouts();
    let is_kept = |about: &record::About| only.is_none_or(|only| only.keeps(about));
    let ours = || Ok(Loaded { plan: record::plan::load_kept(path, &abouts, (overrides, &is_kept))?, format: None });
    // What cannot be read as text is refused by the reader of plans, which says why.
    let Ok(source) = import::Source::load(path) else { return ours() };
    let Some(format) = import::recognise(&source) else { return ours() };
    foreign(source, format, (overrides, &is_kept), here)
}

/// Reads another tool's configuration that stands on the command line.
///
/// # Errors
/// As [`load`].
pub fn of_command_line(
    configuration: &str,
    overrides: &[(String, String)],
    here: &Surroundings<'_>,
) -> Result<Loaded, PlanErrors> {
    let source = import::Source::new("the command line", configuration.as_bytes().to_vec())?;
    let format = import::recognise(&source).ok_or_else(|| Error::new("the command line holds no configuration"))?;
    foreign(source, format, (overrides, &|_| true), here)
}

fn foreign(
    source: import::Source,
    format: &'static dyn Format,
    (overrides, is_kept): record::plan::OfKept<'_>,
    here: &Surroundings<'_>,
) -> Result<Loaded, PlanErrors> {
    let abouts = benchmarks::abouts();
    let source = foreign::here(source, format, overrides, here);
    match format.read(&source)? {
        Content::Plan(made) => {
            let mut left = foreign::left(&made, overrides);
            let bare = record::plan::read(&made.text, &made_of(&source), &abouts, &[])?;
            foreign::with_steps(&mut left, |name| foreign::takes(&bare.cases, name));
            let mut plan = record::plan::read_kept(&made.text, &made_of(&source), &abouts, (&left, is_kept))?;
            let how = format!("{} is read as {}; `rankmark import` shows each field", source.name(), format.doc());
            plan.notes.splice(0..0, std::iter::once(how).chain(made.warnings));
            plan.read_as = Some(format.name().to_owned());
            Ok(Loaded { plan, format: Some(format) })
        }
        Content::Results(_) => {
            let what = format!("{} holds results ({}), not a plan", source.name(), format.doc());
            Err(Error::new(what).hint(format!("rankmark import {}", report::shell(source.name()))).into())
        }
    }
}

/// What a plan is called that was made from a file: its lines are not those of the file.
pub fn made_of(source: &import::Source) -> String {
    format!("the plan made of {}", source.name())
}
