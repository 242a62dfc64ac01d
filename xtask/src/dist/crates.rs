//! `cargo xtask dist --crates`: whether crates.io would take every package, and whether each builds from what is in it.

use std::path::Path;

use crate::test::{cargo, target};

use super::done;

/// What crates.io takes at most.
const LIMIT: u64 = 10 << 20;

/// Packs, unpacks and builds all packages in the order of a release, and lists them with their sizes. Needs a commit without
/// changes, and the registry. Nothing is uploaded.
///
/// # Errors
/// What cargo refuses, or a package that is too large.
pub(super) fn check(root: &Path) -> Result<String, String> {
    done(&mut cargo(root, &["publish", "--dry-run", "--workspace", "--locked"]))?;
    let version = env!("CARGO_PKG_VERSION");
    // Cargo keeps packages that need each other in a registry of its own until all of them are built.
    let folders = ["package/tmp-registry", "package"].map(|folder| target(root).join(folder));
    let mut lines = String::new();
    for name in names(root)? {
        let file = format!("{name}-{version}.crate");
        let path = folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists());
        let path = path.ok_or_else(|| format!("cargo made no {file}"))?;
        let bytes = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?.len();
        lines += &line(&name, bytes)?;
    }
    Ok(lines)
}

/// The packages that are published.
fn names(root: &Path) -> Result<Vec<String>, String> {
    let crates = std::fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let folders = crates.filter_map(Result::ok).filter(|entry| entry.path().join("Cargo.toml").exists());
    let mut names: Vec<String> =
        folders.map(|entry| crate::packages::package_name(&entry.file_name().to_string_lossy())).collect();
    names.sort();
    Ok(names)
}

fn line(name: &str, bytes: u64) -> Result<String, String> {
    if bytes > LIMIT {
        return Err(format!("{name} has {bytes} bytes, and crates.io takes at most {LIMIT}"));
    }
    Ok(format!("{:>8.1} KB  {name}\n", bytes as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_crates_are_published_and_no_chore() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let names = names(root).unwrap();
        assert!(["rankmark", "rankmark-comm", "rankmark-terms"].iter().all(|name| names.iter().any(|own| own == name)));
        assert!(!names.iter().any(|name| name.contains("xtask")));
    }

    #[test]
    fn a_package_that_is_too_large_is_refused() {
        assert_eq!(line("rankmark-comm", 12_345).unwrap(), "    12.3 KB  rankmark-comm\n");
        assert!(line("rankmark-comm", LIMIT).is_ok() && line("rankmark-comm", LIMIT + 1).is_err());
    }
}
