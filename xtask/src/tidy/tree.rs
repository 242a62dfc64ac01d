//! The repository's text files and its crates, read once for all checks.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::packages::crate_name;

/// A text file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// From the repository's root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What crates.io shows of a package, by the keys of its manifest.
const DESCRIPTION: [&str; 6] = ["description", "license", "repository", "readme", "keywords", "categories"];

/// A crate of this repository and what it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// Name of the crate: `comm` for the package `rankmark-comm`.
    pub(crate) name: String,
    /// The folder of its Cargo.toml, from the repository's root.
    pub(crate) folder: String,
    /// What the product needs: normal and build dependencies. Those of tests are left out.
    pub(crate) needs: Vec<String>,
    /// Name of the package.
    pub(crate) full_name: String,
    pub(crate) library: Option<String>,
    /// Keys of [`DESCRIPTION`] that it does not have.
    pub(crate) lacking: Vec<&'static str>,
}

/// The files that are checked.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// Paths of files that are not text: pictures, fonts.
    pub(crate) others: Vec<String>,
    /// Paths of symbolic links.
    pub(crate) links: Vec<String>,
    pub(crate) packages: Vec<Package>,
}

impl Tree {
    /// Reads what git knows of, and new files that it does not ignore; not what is built or measured here. What a symbolic link
    /// names is checked in its own place.
    ///
    /// # Errors
    /// When git or cargo cannot tell.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let listed = output(root, "git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let (mut files, mut others, mut links) = (Vec::new(), Vec::new(), Vec::new());
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            if root.join(path).is_symlink() {
                links.push(path.to_owned());
                continue;
            }
            match std::fs::read_to_string(root.join(path)) {
                Ok(text) => files.push(File { path: path.to_owned(), text }),
                Err(error) if error.kind() == ErrorKind::InvalidData => others.push(path.to_owned()),
                // Deleted but not yet committed, or a folder (submodule): nothing to check.
                Err(_) => {}
            }
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let metadata = output(root, &cargo, &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
        let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { files, others, links, packages: packages(&metadata)? })
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

impl File {
    /// The crate that it belongs to: `comm` for `crates/comm/src/lib.rs`.
    pub(crate) fn package(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether it is part of what is shipped: neither a test, bench, example, fuzz target, nor a chore.
    pub(crate) fn is_product(&self) -> bool {
        let mut parts = self.path.split('/').skip(2);
        self.package().is_some()
            && parts.next() == Some("src")
            && !parts.any(|part| matches!(part, "tests" | "tests.rs"))
    }
}

fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned);
    let root = text(metadata, "workspace_root").ok_or("cargo metadata names no workspace")?;
    let listed = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let package = |value: &Value| {
        let manifest = text(value, "manifest_path")?;
        let folder = manifest.strip_prefix(&root)?.trim_start_matches('/').strip_suffix("Cargo.toml")?;
        let needs = value["dependencies"].as_array()?.iter().filter(|needed| needed["kind"] != "dev");
        let name = |value: &Value| text(value, "name").map(|name| crate_name(&name).to_owned());
        let needs = needs.filter_map(name).collect();
        let is_library = |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into()));
        let is_empty = |value: &Value| match value {
            Value::String(text) => text.is_empty(),
            Value::Array(values) => values.is_empty(),
            _ => true,
        };
        Some(Package {
            name: name(value)?,
            folder: folder.trim_end_matches('/').to_owned(),
            needs,
            full_name: text(value, "name")?,
            library: value["targets"].as_array()?.iter().find(is_library).and_then(|target| text(target, "name")),
            lacking: DESCRIPTION.into_iter().filter(|key| is_empty(&value[key])).collect(),
        })
    };
    listed.iter().map(|value| package(value).ok_or_else(|| format!("cargo metadata: odd package {value}"))).collect()
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).current_dir(root).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program} {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A tree of these files, for the tests of the checks.
    pub(crate) fn of_files(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Tree { files: files.iter().map(file).collect(), ..Tree::default() }
    }

    #[test]
    fn files_know_their_crate_and_purpose() {
        let product = |path: &str| File { path: path.to_owned(), text: String::new() }.is_product();
        assert!(product("crates/comm/src/shm/arena.rs"));
        for path in ["crates/comm/tests/all/main.rs", "crates/comm/benches/a.rs", "crates/stats/examples/a.rs"] {
            assert!(!product(path), "{path}");
        }
        for path in ["crates/comm/src/shm/tests.rs", "crates/comm/src/tests/a.rs", "xtask/src/main.rs", "README.md"] {
            assert!(!product(path), "{path}");
        }
    }

    #[test]
    fn packages_are_read_without_what_only_tests_need() {
        let metadata = json!({"workspace_root": "/r", "packages": [{
            "name": "rankmark-comm", "manifest_path": "/r/crates/comm/Cargo.toml",
            "dependencies": [{"name": "rankmark-terms", "kind": null}, {"name": "cc", "kind": "build"},
                             {"name": "loom", "kind": "dev"}],
            "targets": [{"name": "all", "kind": ["test"]}, {"name": "comm", "kind": ["lib"]}],
            "description": "Sends", "license": "MIT", "repository": "", "readme": "../README.md", "keywords": [],
            "categories": ["science"]}]});
        let expected = Package {
            name: "comm".into(),
            folder: "crates/comm".into(),
            needs: vec!["terms".to_owned(), "cc".to_owned()],
            full_name: "rankmark-comm".into(),
            library: Some("comm".into()),
            lacking: vec!["repository", "keywords"],
        };
        assert_eq!(packages(&metadata), Ok(vec![expected]));
        assert!(packages(&json!({})).is_err());
    }

    #[test]
    fn this_repository_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::read(root).unwrap();
        assert!(tree.packages.iter().any(|package| package.name == "xtask" && package.folder == "xtask"));
        assert!(tree.rust().any(|file| file.path == "xtask/src/tidy/tree.rs"));
    }
}
