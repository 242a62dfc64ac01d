//! What crates.io needs of a crate, as far as its files tell. `cargo xtask dist --crates` makes and builds all packages.

use std::ops::Range;

use super::Finding;
use super::mask::product_code;
use super::tree::{File, Package, Tree};
use crate::packages::package_name;

/// Licences that stand in each crate as links to those of the repository: a package has only what is in its folder.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Crates that lack something, and files that name others outside their crate.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let published = tree.packages.iter().filter(|package| package.folder.starts_with("crates/"));
    let mut findings: Vec<Finding> = published.flat_map(|package| of_package(package, &tree.links)).collect();
    findings.extend(tree.rust().filter(|file| file.is_product()).flat_map(outside));
    findings
}

fn of_package(package: &Package, links: &[String]) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let mut lacking: Vec<String> = package.lacking.iter().map(|key| format!("has no `{key}`")).collect();
    let wanted = package_name(&package.name);
    if package.full_name != wanted {
        lacking.push(format!("names the package `{}`, and `{wanted}` is its name", package.full_name));
    }
    if package.library.as_ref() != Some(&package.name) {
        lacking.push(format!("names no library `{}`", package.name));
    }
    for licence in LICENCES {
        if !links.contains(&format!("{}/{licence}", package.folder)) {
            lacking.push(format!("has no link to ../../{licence} beside it"));
        }
    }
    lacking.into_iter().map(|what| Finding::error(&manifest, 0, what)).collect()
}

/// Files that the product includes from outside its crate: the package lacks them. And the folder of the crate's source, which
/// is not there where the program runs.
fn outside(file: &File) -> Vec<Finding> {
    let code = product_code(&file.text);
    let line = |at: usize| file.text[..at].matches('\n').count() + 1;
    let named = ["include_str!", "include_bytes!", "include!", "#[path", "env!"];
    let places = named.iter().flat_map(|name| code.match_indices(name).map(|(at, _)| at));
    let wrong = places.filter_map(|at| {
        let text = &file.text[argument(&code, at)];
        let path = text.split('"').nth(1)?;
        let up = path.split('/').take_while(|part| *part == "..").count();
        // The crate is the second part of a path, the file the last.
        let inside = file.path.split('/').count() - 3;
        let what = match path {
            "CARGO_MANIFEST_DIR" => "names the folder in which it was built".to_owned(),
            path if up > inside => format!("`{path}` is outside the crate, so the package on crates.io lacks it"),
            _ => return None,
        };
        Some(Finding::error(&file.path, line(at), what))
    });
    wrong.collect()
}

/// What stands in the brackets after `at`.
fn argument(code: &str, at: usize) -> Range<usize> {
    let end = code[at..].find([')', ']']).map_or(code.len(), |found| at + found);
    at..end
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&of_files(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_outside_a_crate_are_found() {
        for text in [
            "const A: &str = include_str!(\"../../../examples/a.yaml\");",
            "const A: &[u8] = include_bytes!(concat!(\n    \"../../a/\", $name));",
            "#[path = \"../../b/src/lib.rs\"] mod b;",
            "fn f() { concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../..\"); }",
        ] {
            let findings = found("crates/a/src/lib.rs", &format!("//! Doc.\n{text}\n"));
            assert_eq!(findings.len(), 1, "{text}: {findings:?}");
            assert!(findings[0].starts_with("error: crates/a/src/lib.rs:2: "), "{findings:?}");
        }
    }

    #[test]
    fn files_of_the_crate_and_of_tests_are_not() {
        for (path, text) in [
            ("crates/a/src/b/c.rs", "const A: &str = include_str!(\"../../plans/a.yaml\");"),
            (
                "crates/a/src/lib.rs",
                "const A: &str = include_str!(\"a.py\"); const B: &str = env!(\"CARGO_PKG_VERSION\");",
            ),
            ("crates/a/src/lib.rs", "#[cfg(test)]\n#[path = \"../../../tests/skip.rs\"]\nmod skip;"),
            ("crates/a/src/lib.rs", "#[cfg(test)] mod tests { const A: &str = include_str!(\"../../../README.md\"); }"),
            ("crates/a/tests/all/main.rs", "const A: &str = include_str!(\"../../../../README.md\");"),
            ("xtask/src/main.rs", "const A: &str = include_str!(\"../../README.md\");"),
        ] {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}: {text}");
        }
    }

    #[test]
    fn what_a_crate_lacks_is_listed() {
        let mut tree = of_files(&[]);
        let whole = Package {
            name: "comm".into(),
            full_name: "rankmark-comm".into(),
            folder: "crates/comm".into(),
            library: Some("comm".into()),
            ..Package::default()
        };
        tree.links = LICENCES.map(|licence| format!("crates/comm/{licence}")).to_vec();
        tree.packages = vec![whole.clone()];
        assert_eq!(check(&tree), []);
        for package in [
            Package { lacking: vec!["description"], ..whole.clone() },
            Package { full_name: "comm".into(), ..whole.clone() },
            Package { library: Some("rankmark_comm".into()), ..whole.clone() },
        ] {
            tree.packages = vec![package];
            assert_eq!(check(&tree).len(), 1, "{:?}", tree.packages);
        }
        tree.packages = vec![whole];
        tree.links.pop();
        assert_eq!(check(&tree).len(), 1);
    }
}
