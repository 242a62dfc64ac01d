//! The packages of the workspace, and which of them use which.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::test::cargo;

/// The packages that were named, and with `dependents` all that use them, directly or not. Empty where none is named.
///
/// # Errors
/// A name that the workspace does not have, or why cargo could not list them.
pub(crate) fn selected(root: &Path, named: &[String], dependents: bool) -> Result<Vec<String>, String> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let output = cargo(root, &["metadata", "--no-deps", "--offline", "--format-version", "1"]).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    among(&metadata, named, dependents)
}

fn among(metadata: &Value, named: &[String], dependents: bool) -> Result<Vec<String>, String> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    if let Some(unknown) = named.iter().find(|name| !names.contains(name.as_str())) {
        let valid = names.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("no package `{unknown}`; valid values: {valid}"));
    }
    let mut selected: BTreeSet<&str> = named.iter().map(String::as_str).collect();
    if dependents {
        add_dependents(&mut selected, packages);
    }
    Ok(selected.into_iter().map(str::to_owned).collect())
}

/// Adds what uses one of them, until nothing is added.
fn add_dependents<'a>(selected: &mut BTreeSet<&'a str>, packages: &'a [Value]) {
    loop {
        let before = selected.len();
        let uses = |package: &&Value| {
            let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            dependencies.iter().any(|one| one["name"].as_str().is_some_and(|name| selected.contains(name)))
        };
        let names = packages.iter().filter(uses).filter_map(|package| package["name"].as_str());
        let found: Vec<&str> = names.collect();
        selected.extend(found);
        if selected.len() == before {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_uses_a_package_is_found_over_several_steps() {
        let metadata = serde_json::json!({"packages": [
            {"name": "terms", "dependencies": [{"name": "serde"}]},
            {"name": "record", "dependencies": [{"name": "terms"}]},
            {"name": "report", "dependencies": [{"name": "record"}, {"name": "png"}]},
            {"name": "stats", "dependencies": []},
        ]});
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(among(&metadata, &names(&["record"]), false), Ok(names(&["record"])));
        assert_eq!(among(&metadata, &names(&["terms"]), true), Ok(names(&["record", "report", "terms"])));
        let problem = among(&metadata, &names(&["reports"]), true).unwrap_err();
        assert_eq!(problem, "no package `reports`; valid values: record, report, stats, terms");
    }
}
