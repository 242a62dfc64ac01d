//! Which crate may use which: arrows only point down (ARCHITECTURE.md).

use super::Finding;
use super::tree::{Package, Tree};

/// Each crate and those directly below it; it may also use whatever is below those, and `terms`. Planned crates are
/// listed, too, because one order was decided for all of them.
static BELOW: &[(&str, &[&str])] = &[
    // words
    ("terms", &[]),
    // facts
    ("record", &["terms"]),
    ("trace", &["terms"]),
    ("model", &["terms"]),
    ("stats", &["terms"]),
    // How records are read: between record and the crates that show or declare.
    ("view", &["stats", "record"]),
    // machinery
    ("device", &["trace"]),
    ("comm", &["device", "trace"]),
    ("engine", &["device", "trace", "model"]),
    ("parallel", &["comm", "engine"]),
    ("measure", &["stats", "record", "trace"]),
    ("process", &[]),
    ("control", &["process", "measure"]),
    ("survey", &["process", "measure", "comm"]),
    // work
    ("contract", &["comm", "measure", "view"]),
    // One family of benchmarks each: side by side, so that they compile at the same time.
    ("collective", &["contract"]),
    ("primitive", &["contract", "engine"]),
    ("training", &["contract", "parallel"]),
    // Its product is a case of `primitive`.
    ("hardware", &["primitive"]),
    ("benchmarks", &["collective", "primitive", "training", "hardware"]),
    ("runner", &["benchmarks"]),
    ("launch", &["control", "survey"]),
    // meaning
    ("diagnose", &["stats", "record", "trace"]),
    ("import", &["stats", "record", "trace"]),
    ("report", &["view", "diagnose"]),
    ("predict", &["parallel", "view"]),
    // Another program's job: what is measured of it is explained and kept as a case is.
    ("job", &["benchmarks", "launch", "import", "report"]),
    // What a plan would do here, before anything is started.
    ("plans", &["runner", "launch", "import", "report", "predict"]),
    // face
    ("rankmark", &["plans", "job", "runner", "launch", "diagnose", "import", "predict", "report"]),
    // Chores know the repository, never the product; `coverage` judges records by the same pure functions.
    ("xtask", &["stats"]),
    ("experiments", &["xtask"]),
];

/// Crates that only these may use, though others are above them, too: nothing above `benchmarks` names a benchmark.
static ONLY_FOR: &[(&str, &[&str])] = &[
    ("collective", &["benchmarks"]),
    ("primitive", &["benchmarks", "hardware"]),
    ("training", &["benchmarks"]),
    ("hardware", &["benchmarks"]),
];

/// Everything that `name` may use.
fn allowed(name: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    let mut open = vec![name];
    while let Some(next) = open.pop() {
        for below in BELOW.iter().filter(|(above, _)| *above == next).flat_map(|(_, below)| *below) {
            if !found.contains(below) {
                found.push(below);
                open.push(below);
            }
        }
    }
    found
}

/// Every crate of ours stands in the table, in a folder of its name, takes the workspace's lints, and uses only what is
/// below it. What only tests need is free: they may look anywhere.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        for what in complaints(package) {
            findings.push(Finding::error(&manifest, 0, what));
        }
        let text = tree.files.iter().find(|file| file.path == manifest).map(|file| file.text.as_str());
        if !text.is_some_and(|text| text.contains("[lints]\nworkspace = true")) {
            findings.push(Finding::error(
                &manifest,
                0,
                "does not take the workspace's lints (`[lints] workspace = true`)",
            ));
        }
    }
    findings
}

fn complaints(package: &Package) -> Vec<String> {
    let name = package.name.as_str();
    if !BELOW.iter().any(|(known, _)| *known == name) {
        return vec![format!("`{name}` has no place in the order of crates (xtask/src/tidy/edges.rs)")];
    }
    let below = allowed(name);
    let ours = |needed: &&String| BELOW.iter().any(|(known, _)| known == needed);
    let refused = |needed: &String| {
        let users = ONLY_FOR.iter().find(|(known, _)| known == needed).map(|(_, users)| *users);
        match users {
            _ if !below.contains(&needed.as_str()) => Some("it is not below it".to_owned()),
            Some(users) if !users.contains(&name) => Some(format!("only {} may", users.join(" and "))),
            _ => None,
        }
    };
    let needed = package.needs.iter().filter(ours);
    let mut complaints: Vec<String> =
        needed.filter_map(|needed| Some(format!("`{name}` may not use `{needed}`: {}", refused(needed)?))).collect();
    if package.folder.rsplit('/').next() != Some(name) {
        complaints.push(format!("`{name}` lies in `{}`: a crate's folder has its name", package.folder));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, needs: &[&str]) -> Package {
        let needs = needs.iter().map(|&needed| needed.to_owned()).collect();
        Package { name: name.to_owned(), folder: format!("crates/{name}"), needs, ..Package::default() }
    }

    #[test]
    fn downward_edges_are_allowed_also_across_levels() {
        assert_eq!(complaints(&package("comm", &["terms", "device", "trace", "libc"])), Vec::<String>::new());
        assert_eq!(
            complaints(&package("benchmarks", &["comm", "device", "record", "stats", "trace", "terms"])).len(),
            0
        );
        assert_eq!(
            complaints(&package("rankmark", &["terms", "comm", "report", "launch", "benchmarks", "runner"])).len(),
            0
        );
    }

    #[test]
    fn upward_and_sideward_edges_are_errors() {
        for (above, below) in [
            ("comm", "engine"),
            ("engine", "comm"),
            ("report", "launch"),
            ("terms", "stats"),
            ("measure", "comm"),
            ("launch", "benchmarks"),
            ("control", "comm"),
            ("survey", "launch"),
            ("process", "terms"),
            ("report", "runner"),
            ("benchmarks", "runner"),
            ("contract", "benchmarks"),
            ("collective", "primitive"),
            ("primitive", "hardware"),
            ("training", "hardware"),
            ("runner", "collective"),
            ("rankmark", "primitive"),
            ("record", "trace"),
            ("xtask", "record"),
        ] {
            assert_eq!(complaints(&package(above, &[below])).len(), 1, "{above} -> {below}");
        }
    }

    #[test]
    fn unknown_crates_and_wrong_folders_are_errors() {
        assert_eq!(complaints(&package("helpers", &[])).len(), 1);
        let moved = Package { folder: "crates/stat".to_owned(), ..package("stats", &[]) };
        assert_eq!(complaints(&moved), ["`stats` lies in `crates/stat`: a crate's folder has its name"]);
    }

    #[test]
    fn the_order_has_no_cycle() {
        for (name, _) in BELOW {
            assert!(!allowed(name).contains(name), "{name}");
        }
    }

    #[test]
    fn a_crate_without_the_lints_is_found() {
        let mut tree =
            super::super::tree::tests::of_files(&[("crates/terms/Cargo.toml", "[package]\nname = \"terms\"")]);
        tree.packages.push(package("terms", &[]));
        assert_eq!(check(&tree).len(), 1);
        tree.files[0].text.push_str("\n[lints]\nworkspace = true\n");
        assert_eq!(check(&tree), []);
    }
}
