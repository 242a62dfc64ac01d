//! The small optional parts that tests use: installed on Debian and Ubuntu when that needs no password.
//!
//! Nothing here may fail the tests: a part that cannot be had is listed as skipped, with the reason.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program or library that some tests use when it is there.
struct Part {
    /// On the search path; a library as its place below the system's folder of them.
    program: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
}

/// A part is installed only if a test really names its program (see [`is_used`]).
static PARTS: &[Part] = &[
    Part { program: "tmux", package: "tmux" },
    Part { program: "zsh", package: "zsh" },
    Part { program: "fish", package: "fish" },
    Part { program: "ip", package: "iproute2" },
    Part { program: "shellcheck", package: "shellcheck" },
    Part { program: "bwrap", package: "bubblewrap" },
    Part { program: "mpirun.openmpi", package: "openmpi-bin" },
    Part { program: "mpirun.mpich", package: "mpich" },
    Part { program: "slurmctld", package: "slurm-wlm" },
    Part { program: "munged", package: "munge" },
    Part { program: "pmix2/lib/libpmix.so", package: "libpmix-dev" },
];

/// What compiles plain loops around MPI's collectives: the heavy tests alone do. The libraries come without headers.
static MPI_HEADERS: &[Part] = &[
    Part { program: "openmpi/include/mpi.h", package: "libopenmpi-dev" },
    Part { program: "mpicc.mpich", package: "libmpich-dev" },
];

/// Whether any MPI library can be compiled against, under Debian's names.
pub(crate) fn has_mpi_headers() -> bool {
    MPI_HEADERS.iter().any(|part| is_there(part.program))
}

/// Installs what is missing and used. Returns why a part is still missing, a `NAME: reason` each.
pub(crate) fn missing_parts(root: &Path, full: bool, may_install: bool) -> Vec<String> {
    let heavy = if full { MPI_HEADERS } else { &[] };
    let used = PARTS.iter().filter(|part| is_used(root, part.program)).chain(heavy);
    let mut problems = Vec::new();
    for part in used.filter(|part| !is_there(part.program)) {
        let result = if may_install { install(part.package) } else { Err("not installed (--no-install)".into()) };
        if let Err(reason) = result {
            problems.push(format!("{}: {reason}", part.program));
        }
    }
    problems
}

/// Whether a string literal of an integration test ends with the program: its name, or a path to it.
fn is_used(root: &Path, program: &str) -> bool {
    let Ok(crates) = std::fs::read_dir(root.join("crates")) else { return false };
    let literal = format!("{program}\"");
    crates.flatten().any(|folder| names(&folder.path().join("tests"), &literal))
}

fn names(folder: &Path, literal: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            names(&path, literal)
        } else {
            std::fs::read_to_string(&path).is_ok_and(|text| text.contains(literal))
        }
    })
}

/// Whether the search path holds the program, or the system's folder of libraries the library.
pub(crate) fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let libraries = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    std::env::split_paths(&folders).chain([libraries.into()]).any(|folder| folder.join(program).is_file())
}

/// Where on the search path the program is.
pub(crate) fn place_of(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Installs a package, where that needs no password.
///
/// # Errors
/// Why it was not installed.
pub(crate) fn install(package: &str) -> Result<(), String> {
    if !is_debian(&std::fs::read_to_string("/etc/os-release").unwrap_or_default()) {
        return Err(format!("not installed (hint: install the package `{package}`)"));
    }
    let sudo: &[&str] = match () {
        () if says("id", &["-u"]) == Some("0".into()) => &[],
        () if says("sudo", &["-n", "true"]).is_some() => &["sudo", "-n"],
        () => return Err(format!("not installed, and neither root nor sudo (hint: apt-get install {package})")),
    };
    println!("    installing {package}");
    // The lists may be old or, in a fresh container, absent: then once more after an update.
    if apt(sudo, &["install", "--yes", "--no-install-recommends", package]).is_err() {
        apt(sudo, &["update"])?;
        apt(sudo, &["install", "--yes", "--no-install-recommends", package])?;
    }
    Ok(())
}

fn apt(sudo: &[&str], arguments: &[&str]) -> Result<(), String> {
    // Without a network this must end soon. Through `env`, because sudo drops variables.
    let quick = ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0", "-o", "DPkg::Lock::Timeout=60", "-qq"];
    let words = [sudo, &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], &quick, arguments].concat();
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last = complaint.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("apt-get {}: {last}", arguments[0]))
}

/// The command's trimmed output, if it succeeded.
fn says(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether this os-release text is that of Debian or a descendant.
fn is_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split_whitespace())
        .any(|id| id == "debian" || id == "ubuntu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_descendants_are_recognised() {
        assert!(is_debian("NAME=\"Debian GNU/Linux\"\nID=debian\n"));
        assert!(is_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian("ID=fedora\nVARIANT_ID=debian\n"));
        assert!(!is_debian(""));
    }

    #[test]
    fn programs_are_found_on_the_search_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program-of-rankmark"));
    }

    #[test]
    fn only_what_a_test_names_is_wanted() {
        let root = std::env::temp_dir().join(format!("rankmark-xtask-{}", std::process::id()));
        let folder = root.join("crates/rankmark/tests/all");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("terminal.rs"), "Command::new(\"tmux\")").unwrap();
        assert!(is_used(&root, "tmux"));
        assert!(!is_used(&root, "screen"));
        std::fs::remove_dir_all(&root).unwrap();
        assert!(!is_used(&root, "tmux"));
    }
}
