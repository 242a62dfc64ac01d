//! Notes for `rankmark version` what this binary was built from: commit, rustc, target, profile, features.
//!
//! The commit is that of this repository's HEAD. A package of crates.io has it in a file of cargo. A tarball, or a copy inside of
//! another repository, has none. Packagers set RANKMARK_COMMIT.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script by variables")]

use std::path::{Path, PathBuf};
use std::process::Command;

const UNKNOWN: &str = "unknown";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RANKMARK_COMMIT");
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let given = Some(variable("RANKMARK_COMMIT")).filter(|commit| !commit.is_empty());
    let commit = given.or_else(|| packed(&here)).or_else(|| head(&root));
    let rustc = said(&variable("RUSTC"), &["--version"], &root);
    println!("cargo::rustc-env=RANKMARK_BUILD_COMMIT={}", commit.as_deref().unwrap_or(UNKNOWN));
    println!("cargo::rustc-env=RANKMARK_BUILD_RUSTC={}", rustc.as_deref().unwrap_or(UNKNOWN));
    println!("cargo::rustc-env=RANKMARK_BUILD_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=RANKMARK_BUILD_PROFILE={}", variable("PROFILE"));
    println!("cargo::rustc-env=RANKMARK_BUILD_FEATURES={}", features().join(","));
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// The features of this crate that are on. `default` stands for others.
fn features() -> Vec<String> {
    let on = |(name, _): (String, String)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase().replace('_', "-"));
    let mut features: Vec<String> = std::env::vars().filter_map(on).filter(|name| name != "default").collect();
    features.sort();
    features
}

/// The commit that cargo noted in the package: `"sha1": "..."` in its one object.
fn packed(here: &Path) -> Option<String> {
    let text = std::fs::read_to_string(here.join(".cargo_vcs_info.json")).ok()?;
    let value = text.split_once("\"sha1\"")?.1.split('"').nth(1)?;
    Some(value.to_owned()).filter(|commit| !commit.is_empty() && is_hexadecimal(commit))
}

fn is_hexadecimal(commit: &str) -> bool {
    commit.chars().all(|c| c.is_ascii_hexdigit())
}

/// The commit that is checked out. Cargo runs this again only when another one is.
fn head(root: &Path) -> Option<String> {
    let top = PathBuf::from(said("git", &["rev-parse", "--show-toplevel"], root)?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    // The log changes with every commit and checkout. Without it: HEAD itself, and what it may point to. A path that is not
    // there would make cargo run this every time.
    let paths = |names: &[&str]| -> Vec<PathBuf> {
        let of = |name: &&str| said("git", &["rev-parse", "--git-path", name], root).map(|path| root.join(path));
        names.iter().filter_map(of).filter(|path| path.exists()).collect()
    };
    let log = paths(&["logs/HEAD"]);
    for path in if log.is_empty() { paths(&["HEAD", "packed-refs", "refs/heads"]) } else { log } {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    said("git", &["rev-parse", "HEAD"], root).filter(|commit| is_hexadecimal(commit))
}

/// What a program prints, where it succeeds.
fn said(program: &str, arguments: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}
