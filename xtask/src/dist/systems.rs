//! The program of a release on bare systems: folders that hold a system's C library and no Rust, Python or network. Bubblewrap
//! shows the program only the folder, the processors (/sys), and an empty /tmp and /dev.
//!
//! One system is the current Debian. Others are given by the caller, because no package registry has a glibc of 2013: unpack the
//! image of a distribution, such as CentOS 7.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{GLIBC, done, shown};

/// What must not be there, below each of these folders.
const FOLDERS: [&str; 4] = ["usr/bin", "bin", "usr/local/bin", "root/.cargo/bin"];
const NOT_BARE: [&str; 4] = ["cargo", "rustc", "python3", "python"];

/// Tries the program of an unpacked tarball on Debian and on the given systems; a line for each.
///
/// # Errors
/// What failed, or that no system has the oldest glibc.
pub(super) fn try_all(target: &Path, unpacked: &Path, work: &Path, given: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let mut versions = Vec::new();
    for root in std::iter::once(&debian(target)?).chain(given) {
        let system = System::new(root, unpacked, &work.join(format!("system-{}", lines.len())))?;
        system.try_program()?;
        versions.push(system.glibc);
        let (major, minor) = system.glibc;
        let tried = "version, validate, a measurement, its report as HTML and PDF";
        lines.push(format!("bare system  {}, glibc {major}.{minor}  ({tried})", root.display()));
    }
    let (major, minor) = GLIBC;
    match versions.contains(&GLIBC) {
        true => Ok(lines),
        false => Err(format!(
            "{}\nno system with glibc {major}.{minor} was tried (hint: --system DIR, where DIR is the root folder of one, such as CentOS 7)",
            lines.join("\n")
        )),
    }
}

/// The folder of a minimal Debian, made once.
fn debian(target: &Path) -> Result<PathBuf, String> {
    let place = std::path::absolute(target.join("xtask/debian")).map_err(|error| error.to_string())?;
    let whole = place.join("whole");
    if whole.exists() {
        return Ok(place.join("root"));
    }
    // What an earlier run did not finish.
    let _ = std::fs::remove_dir_all(&place);
    let made = std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()));
    made.and_then(|()| {
        let mut debootstrap = Command::new("debootstrap");
        done(debootstrap.args(["--variant=minbase", "stable"]).arg(place.join("root")).stdout(Stdio::null()))
    })
    .map_err(|why| format!("{why} (hint: as root, after apt-get install debootstrap bubblewrap)"))?;
    std::fs::write(&whole, "").map_err(|error| format!("{}: {error}", whole.display()))?;
    Ok(place.join("root"))
}

/// A system, the program, and a folder in which it may write.
struct System<'a> {
    root: &'a Path,
    program: &'a Path,
    work: PathBuf,
    glibc: (u32, u32),
}

impl<'a> System<'a> {
    fn new(root: &'a Path, program: &'a Path, work: &Path) -> Result<Self, String> {
        let there = |path: &String| root.join(path).symlink_metadata().is_ok();
        let names = FOLDERS.iter().flat_map(|folder| NOT_BARE.map(|name| format!("{folder}/{name}")));
        if let Some(name) = names.into_iter().find(there) {
            return Err(format!("{} is not bare: it has {name}", root.display()));
        }
        let glibc = glibc(root).ok_or_else(|| format!("{} has no libc.so.6 of glibc", root.display()))?;
        std::fs::create_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))?;
        Ok(Self { root, program, work: work.to_owned(), glibc })
    }

    /// The program with these words, in the system.
    fn rankmark(&self, words: &[&str]) -> Result<Command, String> {
        let mut bwrap = Command::new("bwrap");
        bwrap.args(["--unshare-all", "--die-with-parent", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"]);
        // The folder of the system gets no new entries, so it is shown entry by entry.
        let entries = std::fs::read_dir(self.root).map_err(|error| format!("{}: {error}", self.root.display()))?;
        for entry in entries.filter_map(Result::ok) {
            let (path, inside) = (entry.path(), Path::new("/").join(entry.file_name()));
            match std::fs::read_link(&path) {
                Ok(link) => bwrap.arg("--symlink").arg(link).arg(inside),
                Err(_) if ["/proc", "/sys", "/dev", "/tmp", "/run"].map(Path::new).contains(&&*inside) => &mut bwrap,
                Err(_) => bwrap.arg("--ro-bind").arg(path).arg(inside),
            };
        }
        bwrap.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", "/sys", "/sys"]);
        bwrap.arg("--ro-bind").arg(self.program).arg("/rankmark");
        bwrap.arg("--bind").arg(&self.work).args(["/there", "--chdir", "/there", "--setenv", "HOME", "/there"]);
        bwrap.arg("/rankmark/rankmark").args(words).stdin(Stdio::null());
        Ok(bwrap)
    }

    /// What a program prints that must succeed.
    fn printed(&self, words: &[&str]) -> Result<String, String> {
        println!("    rankmark {} in {}", words.join(" "), self.root.display());
        let mut command = self.rankmark(words)?;
        let output = command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("{}: {error} (hint: apt-get install bubblewrap)", shown(&command)))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match output.status.success() {
            true => Ok(text),
            false => Err(format!("rankmark {} in {}: {}\n{text}", words.join(" "), self.root.display(), output.status)),
        }
    }

    fn try_program(&self) -> Result<(), String> {
        let version = self.printed(&["--version"])?;
        if version != concat!("rankmark ", env!("CARGO_PKG_VERSION"), "\n") {
            return Err(format!("rankmark --version in {} prints {version}", self.root.display()));
        }
        ready(&self.printed(&["validate", "--json"])?)?;
        let rows = self.printed(&["comm", "all_reduce", "--ranks", "2", "--quick", "--output-dir", "/there/record"])?;
        println!("{rows}");
        self.printed(&["report", "/there/record", "--format", "html,pdf"])?;
        let record = self.work.join("record");
        begins(&record.join("report.html"), b"<!doctype html>")?;
        begins(&record.join("report.pdf"), b"%PDF-")?;
        begins(&record.join("cases.jsonl"), b"{")
    }
}

/// Whether `validate --json` found that shared memory works, which needs nothing else.
fn ready(findings: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(findings).map_err(|error| format!("rankmark validate --json: {error}"))?;
    let shm = value["findings"].as_array().into_iter().flatten().find(|row| row["name"] == "shm");
    match shm.map(|row| &row["state"]) {
        Some(state) if state == "ready" => Ok(()),
        _ => Err(format!("rankmark validate: shm is not ready: {shm:?}")),
    }
}

/// Whether a file is there and of its kind.
fn begins(path: &Path, with: &[u8]) -> Result<(), String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match bytes.starts_with(with) {
        true => Ok(()),
        false => Err(format!("{} does not begin with {}", path.display(), String::from_utf8_lossy(with))),
    }
}

/// The version that the C library of a system names: `... release version 2.17, by Roland McGrath et al.`
fn glibc(root: &Path) -> Option<(u32, u32)> {
    let folders = ["lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "usr/lib64", "lib", "usr/lib"];
    let text = folders.iter().find_map(|folder| std::fs::read(root.join(folder).join("libc.so.6")).ok())?;
    version(&String::from_utf8_lossy(&text))
}

fn version(text: &str) -> Option<(u32, u32)> {
    let said = text.split("GNU C Library").nth(1)?.split(" version ").nth(1)?;
    let number: String = said.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let (major, minor) = number.trim_end_matches('.').split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_c_library_says_its_version() {
        let said = |version: &str| {
            format!("\0x version 9\0GNU C Library (Debian GLIBC 2.41-12) stable release version {version}, by")
        };
        assert_eq!(version(&said("2.17")), Some((2, 17)));
        assert_eq!(version(&said("2.41.")), Some((2, 41)));
        assert_eq!(version("musl libc"), None);
    }

    #[test]
    fn a_system_with_python_or_without_glibc_is_refused() {
        let place = std::env::temp_dir().join(format!("xtask-systems-{}", std::process::id()));
        let (root, work) = (place.join("root"), place.join("work"));
        std::fs::create_dir_all(root.join("usr/bin")).unwrap();
        let refusal = || System::new(&root, Path::new("/program"), &work).err();
        assert!(refusal().unwrap().contains("no libc.so.6"));
        std::fs::create_dir_all(root.join("lib64")).unwrap();
        std::fs::write(root.join("lib64/libc.so.6"), "GNU C Library stable release version 2.17, by").unwrap();
        assert_eq!(refusal(), None);
        // As Debian has it.
        std::os::unix::fs::symlink("python3.13", root.join("usr/bin/python3")).unwrap();
        assert!(refusal().unwrap().contains("it has usr/bin/python3"));
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn a_system_that_cannot_measure_is_found() {
        let findings = |state: &str| format!(r#"{{"findings": [{{"name": "shm", "state": "{state}"}}]}}"#);
        assert_eq!(ready(&findings("ready")), Ok(()));
        assert!(ready(&findings("misconfigured")).is_err());
        assert!(ready(r#"{"findings": []}"#).is_err() && ready("").is_err());
    }

    #[test]
    fn a_report_that_is_not_one_is_found() {
        let path = std::env::temp_dir().join(format!("xtask-begins-{}", std::process::id()));
        std::fs::write(&path, "%PDF-1.7").unwrap();
        assert_eq!(begins(&path, b"%PDF-"), Ok(()));
        std::fs::write(&path, "").unwrap();
        assert!(begins(&path, b"%PDF-").is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(begins(&path, b"%PDF-").is_err());
    }
}
