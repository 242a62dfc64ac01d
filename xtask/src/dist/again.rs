//! Whether a release can be built again: from a clone of the commit in another folder, with another target folder, come the same
//! files, byte for byte. And whether a binary names folders of the machine that built it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Dist, cargo_home, done, names, sums};

/// Builds the files a second time and compares them; a line that says so.
///
/// # Errors
/// What differs, or that the commit alone does not make the files.
pub(super) fn check(dist: &Dist) -> Result<String, String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").current_dir(dist.root).args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("git {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    let changed = git(&["status", "--porcelain"])?;
    if !changed.is_empty() {
        return Err(format!("only a commit can be built again, and these files are changed:\n{changed}"));
    }
    let place = dist.work.join("again");
    let source = place.join("source");
    done(Command::new("git").args(["clone", "--quiet", "--no-checkout"]).args([dist.root, &source]))?;
    let commit = git(&["rev-parse", "HEAD"])?;
    done(Command::new("git").current_dir(&source).args(["checkout", "--quiet", "--detach", &commit]))?;
    let (target, out, work) = (place.join("target"), place.join("out"), place.join("work"));
    for folder in [&out, &work] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let again = Dist {
        root: &source,
        target: &target,
        out,
        work,
        tools: dist.tools.clone(),
        version: dist.version.clone(),
        epoch: dist.epoch.clone(),
        targets: dist.targets.clone(),
    };
    again.files()?;
    again.list_crates()?;
    let names = names(&dist.version, &dist.targets);
    same(&sums(&dist.out, &names)?, &sums(&again.out, &names)?)?;
    Ok(format!("built again  {} files from a clone in {}: the same bytes", names.len(), source.display()))
}

/// Refuses checksums that are not equal.
fn same(first: &str, second: &str) -> Result<(), String> {
    let different: Vec<&str> = first.lines().filter(|line| !second.lines().any(|other| other == *line)).collect();
    match different.is_empty() {
        true => Ok(()),
        false => Err(format!("built again, these files differ:\n{}", different.join("\n"))),
    }
}

/// Compiler options that replace the folders of this machine by names that are equal everywhere: sources of the toolchain, of this
/// repository, of the registries (each has a folder with a name of its own), and what build scripts write. The last that fits
/// counts.
pub(super) fn remaps(root: &Path, target: &Path) -> Vec<String> {
    let said = |words: &[&str]| {
        let output = Command::new("rustc").current_dir(root).args(words).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned()).filter(|_| output.status.success())
    };
    let mut pairs: Vec<(PathBuf, String)> = Vec::new();
    let version = said(&["-vV"]).unwrap_or_default();
    let hash = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    if let (Some(sysroot), Some(hash)) = (said(&["--print", "sysroot"]), hash) {
        pairs.push((Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), format!("/rustc/{hash}")));
    }
    pairs.push((root.to_owned(), "rankmark".to_owned()));
    pairs.push((target.to_owned(), "target".to_owned()));
    let registries = std::fs::read_dir(cargo_home().join("registry/src")).into_iter().flatten().filter_map(Result::ok);
    let mut registries: Vec<PathBuf> = registries.map(|folder| folder.path()).collect();
    // Cargo builds everything again if the order changes.
    registries.sort();
    pairs.extend(registries.into_iter().map(|folder| (folder, "registry".to_owned())));
    pairs.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect()
}

/// Refuses a binary that names one of the folders.
pub(super) fn names_no_folder(binary: &Path, folders: &[&Path]) -> Result<(), String> {
    let bytes = std::fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    for folder in folders {
        let name = folder.as_os_str().as_encoded_bytes();
        // `/` alone is in every binary.
        if name.len() > 3 && bytes.windows(name.len()).any(|window| window == name) {
            return Err(format!("{} names {}, a folder of this machine", binary.display(), folder.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_are_named() {
        let sums = "00ff  a.whl\n11ee  a.tar.gz\n";
        assert_eq!(same(sums, sums), Ok(()));
        let why = same(sums, "00ff  a.whl\n11ef  a.tar.gz\n").unwrap_err();
        assert!(why.ends_with("11ee  a.tar.gz") && !why.contains("a.whl"), "{why}");
    }

    #[test]
    fn a_binary_that_names_a_folder_is_refused() {
        let path = std::env::temp_dir().join(format!("xtask-leak-{}", std::process::id()));
        std::fs::write(&path, b"\x7fELF\0/builder/a/rankmark/src\0").unwrap();
        let check = |folder: &str| names_no_folder(&path, &[Path::new("/"), Path::new(folder)]);
        assert_eq!(check("/builder/b"), Ok(()));
        assert!(check("/builder/a").unwrap_err().contains("names /builder/a"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn every_folder_of_a_build_is_replaced() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let options = remaps(root, &root.join("target"));
        let has = |option: String| options.contains(&option);
        assert!(has(format!("--remap-path-prefix={}=rankmark", root.display())), "{options:?}");
        assert!(has(format!("--remap-path-prefix={}=target", root.join("target").display())), "{options:?}");
        assert!(options.iter().any(|option| option.contains("/lib/rustlib/src/rust=/rustc/")), "{options:?}");
    }
}
