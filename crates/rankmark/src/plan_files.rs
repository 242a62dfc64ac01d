//! Plans that arguments name, read with what this process knows of its surroundings.

use std::path::Path;

use launch::external::Coordinator;
use plans::only::Only;
use plans::{Loaded, Surroundings};
use record::Plan;

use crate::{Failure, environment};

/// What a plan may depend on here.
pub(crate) fn here(coordinator: Option<&Coordinator>) -> Surroundings<'_> {
    Surroundings { coordinator, search_path: environment::search_path }
}

/// Reads a plan, see [`plans::load`].
pub(crate) fn load(
    path: &Path,
    overrides: &[(String, String)],
    coordinator: Option<&Coordinator>,
) -> Result<Loaded, Failure> {
    load_kept(path, (overrides, None), coordinator)
}

/// Reads a plan with only the cases that `--only` keeps, see [`plans::load_kept`].
pub(crate) fn load_kept(
    path: &Path,
    kept: (&[(String, String)], Option<&Only>),
    coordinator: Option<&Coordinator>,
) -> Result<Loaded, Failure> {
    Ok(plans::load_kept(path, kept, &here(coordinator))?)
}

/// Reads a plan, with what benchmarks add to its cases.
pub(crate) fn complete(path: &Path) -> Result<Plan, Failure> {
    let mut plan = load(path, &[], None)?.plan;
    benchmarks::complete(&mut plan);
    Ok(plan)
}
