//! The packages of the workspace, and which of them use which. The package of `crates/comm` is `rankmark-comm`, because names on
//! crates.io are of everybody; here it goes by the name of its folder and library, `comm`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::test::cargo;

/// What the names of packages begin with, before the name of the folder and library. Not `rankmark` itself, nor `xtask`.
const PREFIX: &str = "rankmark-";

/// The crate of a package: `comm` for `rankmark-comm`.
pub(crate) fn crate_name(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

/// The package of a crate: `rankmark-comm` for `comm`.
pub(crate) fn package_name(name: &str) -> String {
    match name {
        "rankmark" | "xtask" | "experiments" => name.to_owned(),
        _ => format!("{PREFIX}{name}"),
    }
}

/// The crates that were named, and with `dependents` all that use them, directly or not. Empty where none is named.
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
    let names: BTreeSet<&str> = packages.iter().filter_map(own_name).collect();
    let mut selected: BTreeSet<&str> = named.iter().map(|name| crate_name(name)).collect();
    if let Some(unknown) = selected.iter().find(|name| !names.contains(*name)) {
        let valid = names.into_iter().collect::<Vec<_>>().join(", ");
        return Err(format!("no crate `{unknown}`; valid values: {valid}"));
    }
    if dependents {
        add_dependents(&mut selected, packages);
    }
    Ok(selected.into_iter().map(str::to_owned).collect())
}

/// The crate of what cargo lists: a package, or a dependency.
fn own_name(listed: &Value) -> Option<&str> {
    listed["name"].as_str().map(crate_name)
}

/// Adds what uses one of them, until nothing is added.
fn add_dependents<'a>(selected: &mut BTreeSet<&'a str>, packages: &'a [Value]) {
    loop {
        let before = selected.len();
        let uses = |package: &&Value| {
            let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
            dependencies.iter().filter_map(own_name).any(|name| selected.contains(name))
        };
        let found: Vec<&str> = packages.iter().filter(uses).filter_map(own_name).collect();
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
            {"name": "rankmark-terms", "dependencies": [{"name": "serde"}]},
            {"name": "rankmark-record", "dependencies": [{"name": "rankmark-terms"}]},
            {"name": "rankmark-report", "dependencies": [{"name": "rankmark-record"}, {"name": "png"}]},
            {"name": "rankmark-stats", "dependencies": []},
        ]});
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(among(&metadata, &names(&["record"]), false), Ok(names(&["record"])));
        assert_eq!(among(&metadata, &names(&["terms"]), true), Ok(names(&["record", "report", "terms"])));
        assert_eq!(among(&metadata, &names(&["rankmark-record"]), false), Ok(names(&["record"])));
        let problem = among(&metadata, &names(&["reports"]), true).unwrap_err();
        assert_eq!(problem, "no crate `reports`; valid values: record, report, stats, terms");
    }

    #[test]
    fn a_crate_and_its_package_have_one_name_each() {
        for (name, package) in [("comm", "rankmark-comm"), ("rankmark", "rankmark"), ("xtask", "xtask")] {
            assert_eq!((package_name(name).as_str(), crate_name(package)), (package, name));
        }
    }
}
