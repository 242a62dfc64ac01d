//! `cargo xtask pdf`: builds `rankmark-pdf`, which stands outside the workspace because typst takes long to build, and puts
//! it beside every `rankmark` that was built here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::counts;
use crate::ledger::Ledger;

/// The program.
pub(crate) const PROGRAM: &str = "rankmark-pdf";
/// Its manifest, from the root of the repository.
pub(crate) const MANIFEST: &str = "pdf/Cargo.toml";

/// Builds it and prints where it is. False where that fails.
pub(crate) fn run(root: &Path) -> bool {
    match build(root).and_then(|program| Ok((place(&program, &programs(root))?, program))) {
        Ok((placed, program)) => {
            println!("{}", program.display());
            placed.iter().for_each(|path| println!("{}", path.display()));
            if placed.is_empty() {
                println!("no rankmark was built here yet: put {PROGRAM} beside it, or into a folder on PATH");
            }
            true
        }
        Err(why) => {
            eprintln!("error: {why}");
            false
        }
    }
}

/// A folder of its own: the lock file is another one, so crates of the workspace would be built twice there, too.
fn folder(root: &Path) -> PathBuf {
    crate::test::target(root).join("pdf")
}

/// Where cargo puts the program of a release build.
fn built(root: &Path) -> PathBuf {
    folder(root).join("release").join(PROGRAM)
}

/// A cargo command on the program's own manifest.
fn cargo(root: &Path, command: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut cargo = Command::new(program);
    cargo.current_dir(root).args([command, "--manifest-path", MANIFEST]);
    cargo
}

/// The same, with one profile for everything: typst is built once.
fn cargo_release(root: &Path, command: &str) -> Command {
    let mut cargo = cargo(root, command);
    cargo.args(["--release", "--locked", "--target-dir"]).arg(folder(root));
    cargo
}

/// Builds the program.
///
/// # Errors
/// That cargo failed.
fn build(root: &Path) -> Result<PathBuf, String> {
    println!("building {PROGRAM}: typst takes about 800 s of processor time, once");
    let mut command = cargo_release(root, "build");
    let status = command.stdin(Stdio::null()).status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(built(root)) } else { Err(format!("cargo build --manifest-path {MANIFEST}: {status}")) }
}

/// Folders of the target folder that hold a `rankmark`.
fn programs(root: &Path) -> Vec<PathBuf> {
    let target = crate::test::target(root);
    ["debug", "release", "dist"]
        .map(|profile| target.join(profile))
        .into_iter()
        .filter(|at| at.join("rankmark").is_file())
        .collect()
}

/// Copies the program into these folders. Under another name first: one that runs cannot be written to.
fn place(program: &Path, folders: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let put = |folder: &PathBuf| {
        let (path, beside) = (folder.join(PROGRAM), folder.join(format!(".{PROGRAM}.part")));
        let put = std::fs::copy(program, &beside).and_then(|_| std::fs::rename(&beside, &path));
        put.map(|()| path.clone()).map_err(|error| format!("{}: {error}", path.display()))
    };
    folders.iter().map(put).collect()
}

/// Format, and with `full` also build and tests: steps of `cargo xtask test`.
pub(crate) fn check(root: &Path, full: bool, ledger: &mut Ledger) {
    ledger.check("format of pdf", cargo(root, "fmt").arg("--check"));
    if !full {
        ledger.skip("pdf", "heavy: typst takes about 800 s of processor time to build (hint: --full)");
        return;
    }
    ledger.check("pdf", &mut cargo_release(root, "build"));
    ledger.tests("tests of pdf", cargo_release(root, "test").arg("--quiet"), counts::of_libtest);
    if let Err(why) = place(&built(root), &programs(root)) {
        ledger.skip("pdf beside rankmark", why);
    }
}

/// Builds the program for a release: for this machine's processor, with a linker for an old glibc. `zigbuild` is
/// cargo-zigbuild, with zig on its path.
pub(crate) fn for_release(root: &Path, zigbuild: &mut Command, triple: &str, glibc: (u32, u32)) -> PathBuf {
    let (major, minor) = glibc;
    zigbuild.args(["zigbuild", "--manifest-path", MANIFEST, "--release", "--locked"]);
    zigbuild.arg("--target-dir").arg(folder(root)).args(["--target", &format!("{triple}.{major}.{minor}")]);
    folder(root).join(triple).join("release").join(PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_put_beside_others_and_replaced() {
        let work = std::env::temp_dir().join(format!("xtask-pdf-{}", std::process::id()));
        let (from, to) = (work.join("from"), work.join("to"));
        std::fs::create_dir_all(&to).unwrap();
        for content in ["old", "new"] {
            std::fs::write(&from, content).unwrap();
            let placed = place(&from, std::slice::from_ref(&to)).unwrap();
            assert_eq!(placed, [to.join(PROGRAM)]);
            assert_eq!(std::fs::read_to_string(&placed[0]).unwrap(), content);
        }
        assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
        assert!(place(&work.join("nothing"), &[to]).is_err());
        std::fs::remove_dir_all(&work).unwrap();
    }

    #[test]
    fn the_program_has_a_lock_file_of_its_own() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let manifest = std::fs::read_to_string(root.join(MANIFEST)).unwrap();
        assert!(manifest.contains("\n[workspace]\n"), "it would join the workspace, and typst every build");
        assert!(root.join("pdf/Cargo.lock").is_file());
        let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
        assert!(manifest.lines().any(|line| line == version), "one version: {version}");
    }
}
