//! What a release consists of: every crate that its binary is built from, as a CycloneDX document (version 1.5), from
//! `cargo metadata` and the checksums of Cargo.lock. The same lock file gives the same document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// The package that is handed out.
const BINARY: &str = "rankmark";

/// The document, as text. `epoch`: seconds since 1970.
///
/// # Errors
/// What cargo says.
pub(super) fn document(root: &Path, targets: &[&str], epoch: &str) -> Result<String, String> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let found = build_sbom(&metadata(root, targets)?, &checksums(&lock), &time(epoch)?)?;
    serde_json::to_string_pretty(&found).map(|text| text + "\n").map_err(|error| error.to_string())
}

/// The packages that are built into the binary, as cargo describes them, by name and version.
pub(super) fn built_in(metadata: &Value) -> Result<Vec<&Value>, String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let own = packages.iter().find(|package| text(package, "name") == BINARY);
    let own = own.ok_or_else(|| format!("no package is named {BINARY}"))?;
    let (_, built_in) = reached(metadata, text(own, "id"));
    let mut found: Vec<&Value> = packages.iter().filter(|package| built_in.contains(text(package, "id"))).collect();
    found.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    Ok(found)
}

/// What cargo knows of all packages of these targets.
///
/// # Errors
/// What cargo says.
pub(super) fn metadata(root: &Path, targets: &[&str]) -> Result<Value, String> {
    let mut metadata = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    metadata.current_dir(root).args(["metadata", "--format-version", "1", "--locked"]).stdin(Stdio::null());
    metadata.args(targets.iter().flat_map(|target| ["--filter-platform", target]));
    let ended = metadata.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !ended.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&ended.stderr).trim()));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Checksums of packages, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let of_package = |package: &str| {
        let value = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
            Some(line.trim_matches('"').to_owned())
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    lock.split("[[package]]").filter_map(of_package).collect()
}

pub(super) fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// Packages that are built into the binary, and those that only build it.
fn reached<'a>(metadata: &'a Value, first: &'a str) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(node, "id"), node)).collect();
    let all = |wants: fn(&Value) -> bool| {
        let (mut found, mut next) = (BTreeSet::from([first]), vec![first]);
        while let Some(id) = next.pop() {
            let deps = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
            for dep in deps.filter(|dep| dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(wants))) {
                let id = text(dep, "pkg");
                if found.insert(id) {
                    next.push(id);
                }
            }
        }
        found
    };
    let built_in = all(|kind| kind["kind"].is_null());
    let building = all(|kind| kind["kind"] != "dev");
    (building.difference(&built_in).copied().collect(), built_in)
}

fn build_sbom(metadata: &Value, sums: &BTreeMap<(String, String), String>, time: &str) -> Result<Value, String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let own = packages.iter().find(|package| text(package, "name") == BINARY);
    let own = own.ok_or_else(|| format!("no package is named {BINARY}"))?;
    let (building, built_in) = reached(metadata, text(own, "id"));
    let wanted = |package: &&Value| {
        let id = text(package, "id");
        id != text(own, "id") && (building.contains(id) || built_in.contains(id))
    };
    let mut all: Vec<&Value> = packages.iter().filter(wanted).collect();
    all.sort_by_key(|package| (text(package, "name"), text(package, "version")));
    let scope = |package: &Value| if built_in.contains(text(package, "id")) { "required" } else { "excluded" };
    let components: Vec<Value> = all.iter().map(|package| component(package, sums, Some(scope(package)))).collect();
    let mut root = component(own, sums, None);
    root["type"] = "application".into();
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time, "component": root},
        "components": components,
        "dependencies": dependencies(metadata, own, &all),
    }))
}

/// What names a package within the document.
fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn component(package: &Value, sums: &BTreeMap<(String, String), String>, scope: Option<&str>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut found = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": name,
        "version": version,
        "purl": reference(package),
    });
    if let Some(scope) = scope {
        found["scope"] = scope.into();
    }
    // Manifests of before SPDX separate alternatives by a slash.
    let licence = text(package, "license").replace('/', " OR ");
    if !licence.is_empty() {
        found["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(sum) = sums.get(&(name.to_owned(), version.to_owned())) {
        found["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    found
}

/// Which package needs which, of those that are listed.
fn dependencies(metadata: &Value, own: &Value, listed: &[&Value]) -> Vec<Value> {
    let names: BTreeMap<&str, String> =
        listed.iter().chain(&[own]).map(|package| (text(package, "id"), reference(package))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let mut all: Vec<(String, BTreeSet<String>)> = nodes
        .filter_map(|node| {
            let needs = node["deps"].as_array()?.iter().filter(|dep| {
                dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
            });
            let needs = needs.filter_map(|dep| names.get(text(dep, "pkg")).cloned());
            Some((names.get(text(node, "id"))?.clone(), needs.collect()))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(name, needs)| json!({"ref": name, "dependsOn": needs})).collect()
}

/// `2001-09-09T01:46:40Z` of 1000000000 (days to a date: Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn time(epoch: &str) -> Result<String, String> {
    let seconds: i64 = epoch.parse().map_err(|_| format!("SOURCE_DATE_EPOCH is not a number of seconds: {epoch}"))?;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Ok(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (epoch, wanted) in [
            ("0", "1970-01-01T00:00:00Z"),
            ("1000000000", "2001-09-09T01:46:40Z"),
            ("951782400", "2000-02-29T00:00:00Z"),
            ("4107542399", "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(time(epoch).unwrap(), wanted);
        }
        assert!(time("yesterday").is_err());
    }

    #[test]
    fn what_only_tests_need_is_left_out_and_what_only_builds_is_said() {
        let package =
            |name: &str, licence: &str| json!({"id": name, "name": name, "version": "1.0.0", "license": licence});
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("rankmark", "MIT"), package("a", "MIT/Apache-2.0"), package("b", "MIT"), package("c", "MIT"),
                         package("d", "MIT")],
            "resolve": {"nodes": [
                {"id": "rankmark", "deps": [dep("a", Value::Null), dep("b", "build".into()), dep("c", "dev".into())]},
                {"id": "a", "deps": [dep("d", Value::Null)]},
                {"id": "b", "deps": []}, {"id": "c", "deps": []}, {"id": "d", "deps": []},
            ]},
        });
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"00ff\"\n\n\
                    [[package]]\nname = \"rankmark\"\nversion = \"1.0.0\"\n";
        let found = build_sbom(&metadata, &checksums(lock), "t").unwrap();
        let listed: Vec<[&str; 2]> = found["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|component| [text(component, "name"), text(component, "scope")])
            .collect();
        assert_eq!(listed, [["a", "required"], ["b", "excluded"], ["d", "required"]]);
        assert_eq!(found["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(found["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(found["metadata"]["component"]["type"], "application");
        let needs = json!({"ref": "pkg:cargo/rankmark@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0", "pkg:cargo/b@1.0.0"]});
        assert!(found["dependencies"].as_array().unwrap().contains(&needs), "{found}");
        assert!(build_sbom(&json!({"packages": []}), &BTreeMap::new(), "t").is_err());
    }

    /// The document of this repository has the checksum and the licence of every crate of the registry, and
    /// two documents are the same.
    #[test]
    fn this_repository_has_a_complete_document() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let targets = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
        let document = document(root, &targets, "1000000000").unwrap();
        let found: Value = serde_json::from_str(&document).unwrap();
        let components = found["components"].as_array().unwrap();
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap();
        let sums = checksums(&lock);
        for component in components {
            let name = (text(component, "name").to_owned(), text(component, "version").to_owned());
            assert_eq!(component["hashes"][0]["content"].as_str(), sums.get(&name).map(String::as_str), "{name:?}");
            assert!(component["licenses"][0]["expression"].is_string(), "{name:?}");
        }
        let names: BTreeSet<&str> = components.iter().map(|component| text(component, "name")).collect();
        assert!(["rankmark-engine", "serde_json", "half"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(!names.contains("xtask") && !names.contains("loom"), "{names:?}");
        assert_eq!(document, super::document(root, &targets, "1000000000").unwrap());
    }
}
