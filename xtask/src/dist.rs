//! `cargo xtask dist`: the wheels and tarballs that are handed out, for each target. Built by maturin with zig's linker, which
//! makes binaries for an old glibc and for other processors. Beside them lie a list of all crates in them (CycloneDX) and the
//! checksums of all files. They are tried on this machine and on bare systems. Nothing is uploaded here.
//!
//! Two runs on the same commit and tools make the same files: times come from SOURCE_DATE_EPOCH, names of this machine's
//! folders are left out. `--again` shows it.

mod again;
mod crates;
mod files;
mod first_row;
mod notices;
mod sbom;
mod systems;
mod tries;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::runs::printed;
use crate::wheels;

/// The tools, in the versions that this step was written with.
const TOOLS: [&str; 4] = ["maturin==1.16.0", "ziglang==0.17.1", "cargo-zigbuild==0.24.1", "wheel==0.48.0"];

/// The glibc of the oldest systems that the binaries run on.
const GLIBC: (u32, u32) = (2, 17);

/// Files that are packed with the binary, from the root of the repository.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The licences of what is built in: in the tarball, and beside the wheel, which has only those of Rankmark.
const NOTICES: &str = "THIRD-PARTY.txt";

/// Shells that have a completion script, and the name that each shell looks for.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "rankmark.bash"), ("fish", "rankmark.fish"), ("zsh", "_rankmark")];

/// A processor that files are made for.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// Name of the processor, as Rust and the platform tags of wheels both call it.
    arch: &'static str,
    /// Cargo's name.
    triple: &'static str,
    /// ELF's number of the processor.
    machine: u16,
}

const TARGETS: [Target; 2] = [
    Target { arch: "x86_64", triple: "x86_64-unknown-linux-gnu", machine: 62 },
    Target { arch: "aarch64", triple: "aarch64-unknown-linux-gnu", machine: 183 },
];

impl Target {
    /// The target of this machine; None where nothing is made for it.
    fn own() -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.arch == std::env::consts::ARCH)
    }

    /// The name that maturin gives the wheel. 2.17 has an older name, too, which old versions of pip ask for.
    fn wheel(&self, version: &str) -> String {
        let (major, minor) = GLIBC;
        let arch = self.arch;
        format!("rankmark-{version}-py3-none-manylinux2014_{arch}.manylinux_{major}_{minor}_{arch}.whl")
    }

    /// The folder that a tarball unpacks to.
    fn folder(&self, version: &str) -> String {
        format!("rankmark-{version}-{}", self.triple)
    }

    fn tarball(&self, version: &str) -> String {
        format!("{}.tar.gz", self.folder(version))
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    out: Option<PathBuf>,
    /// Targets, that of this machine first: its binary also writes the manual pages of the others.
    targets: Vec<&'static Target>,
    /// Root folders of bare systems.
    systems: Vec<PathBuf>,
    again: bool,
}

impl Wanted {
    /// Reads the words after `dist`.
    ///
    /// # Errors
    /// What is wrong with them, or with this machine.
    fn read(words: &[&str]) -> Result<Self, String> {
        let own = Target::own().ok_or("no target is that of this machine, so that no file could be tried")?;
        let others = TARGETS.iter().filter(|target| *target != own);
        let targets = std::iter::once(own).chain(others).collect();
        let mut wanted = Self { out: None, targets, systems: Vec::new(), again: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut folder = || words.next().map(PathBuf::from).ok_or_else(|| format!("`{word}` needs a folder"));
            match *word {
                "--out" => wanted.out = Some(folder()?),
                "--system" => wanted.systems.push(folder()?),
                "--own" => wanted.targets.truncate(1),
                "--again" => wanted.again = true,
                _ => {
                    let valid = "--out DIR, --system DIR, --own, --again, or --crates alone";
                    return Err(format!("unknown option `{word}`; valid options: {valid}"));
                }
            }
        }
        Ok(wanted)
    }
}

/// Makes, tries and lists all files. False where one could not be made, or does not work.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    if *words == ["--crates"] {
        return Ok(printed(crates::check(root)));
    }
    let wanted = Wanted::read(words)?;
    let target = std::path::absolute(crate::test::target(root)).map_err(|error| error.to_string())?;
    let lines = Dist::new(root, &target, &wanted).and_then(|dist| dist.all(&wanted));
    Ok(printed(lines.map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())))
}

/// One run: where things are.
struct Dist<'a> {
    root: &'a Path,
    /// Absolute.
    target: &'a Path,
    /// Absolute, and there.
    out: PathBuf,
    /// Absolute; emptied at the beginning.
    work: PathBuf,
    /// The programs of the tools.
    tools: PathBuf,
    version: String,
    /// Seconds since 1970: the time of everything that is packed.
    epoch: String,
    /// Targets, that of this machine first.
    targets: Vec<&'static Target>,
}

impl<'a> Dist<'a> {
    /// Finds or installs the tools, and makes the folders.
    fn new(root: &'a Path, target: &'a Path, wanted: &Wanted) -> Result<Self, String> {
        let (place, work) = (target.join("xtask/dist"), target.join("xtask/dist-work"));
        wheels::environment(&place, &TOOLS, true, wheels::plain)?;
        // What an earlier run left must not get into a tarball.
        let _ = std::fs::remove_dir_all(&work);
        // Not in the target folder: cargo's folder of the profile `dist` is there.
        let out = wanted.out.clone().unwrap_or_else(|| root.join("dist"));
        let out = std::path::absolute(out).map_err(|error| error.to_string())?;
        for folder in [&out, &work] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        // Of this program: all crates of the workspace have one version.
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let targets = wanted.targets.clone();
        Ok(Self { root, target, out, work, tools: place.join("bin"), version, epoch: epoch(root), targets })
    }

    /// Everything, and a line for each file and for each system that it was tried on.
    fn all(&self, wanted: &Wanted) -> Result<Vec<String>, String> {
        let unpacked = self.files()?;
        let own = self.targets[0];
        self.try_wheel(own)?;
        self.try_program(&unpacked.join("rankmark"))?;
        self.try_report(&unpacked, &self.work.join("record"))?;
        let mut lines = vec![format!("{}:", self.out.display())];
        for target in &self.targets {
            let tried = if *target == own { "installed and run on this machine" } else { "cross-built, never run" };
            for name in [target.wheel(&self.version), target.tarball(&self.version)] {
                lines.push(line(&self.out.join(name), tried)?);
            }
        }
        lines.push(self.list_crates()?);
        lines.push(line(&self.out.join(NOTICES), "licences of what is built in")?);
        lines.push(self.sum()?);
        lines.push(first_row::measure(self.target, &self.out.join(own.wheel(&self.version)), &self.work)?);
        if wanted.again {
            lines.push(again::check(self)?);
        }
        // Last: without a system of the oldest glibc the run fails, and the lines above are still wanted.
        match systems::try_all(self.target, &unpacked, &self.work, &wanted.systems) {
            Ok(tried) => lines.extend(tried),
            Err(why) => return Err(format!("{why}\n\n{}", lines.join("\n"))),
        }
        Ok(lines)
    }

    /// Wheels and tarballs of all targets; the folder to which the tarball of this machine unpacks.
    fn files(&self) -> Result<PathBuf, String> {
        let own = self.targets[0];
        let mut unpacked = Vec::new();
        for target in &self.targets {
            self.wheel(target)?;
            self.unpack(target)?;
            self.tarball(target, own)?;
            unpacked.push(self.unpack_tarball(target)?);
        }
        Ok(unpacked.swap_remove(0))
    }

    /// Writes the list of all crates.
    fn list_crates(&self) -> Result<String, String> {
        let path = self.out.join(format!("rankmark-{}.cdx.json", self.version));
        let document = sbom::document(self.root, &TARGETS.map(|target| target.triple), &self.epoch)?;
        std::fs::write(&path, document).map_err(|error| format!("{}: {error}", path.display()))?;
        line(&path, "crates, licences and checksums of sources: CycloneDX 1.5")
    }

    /// Writes the checksums of the files of this version, as `sha256sum --check` reads them.
    fn sum(&self) -> Result<String, String> {
        let path = self.out.join("SHA256SUMS");
        let text = sums(&self.out, &names(&self.version, &self.targets))?;
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        line(&path, "`sha256sum --check SHA256SUMS`")
    }

    /// A program of the tools, which finds the others.
    fn tool(&self, name: &str) -> Command {
        let others = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.tools.clone()).chain(std::env::split_paths(&others));
        let mut command = Command::new(self.tools.join(name));
        command.current_dir(self.root).env("SOURCE_DATE_EPOCH", &self.epoch);
        // A folder with a colon in its name is found by nobody, this program included.
        command.env("PATH", std::env::join_paths(folders).unwrap_or(others));
        command
    }
}

/// The files of a version, but for their checksums.
fn names(version: &str, targets: &[&Target]) -> Vec<String> {
    let packed = targets.iter().flat_map(|target| [target.wheel(version), target.tarball(version)]);
    packed.chain([format!("rankmark-{version}.cdx.json"), NOTICES.to_owned()]).collect()
}

/// Checksums of these files, by coreutils.
fn sums(folder: &Path, names: &[String]) -> Result<String, String> {
    let mut sum = Command::new("sha256sum");
    let ended = sum.current_dir(folder).arg("--").args(names).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("sha256sum: {error}"))?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("sha256sum: {}", String::from_utf8_lossy(&ended.stderr).trim())),
    }
}

/// Runs a command to its end.
///
/// # Errors
/// That it could not run, or how it ended.
fn done(command: &mut Command) -> Result<(), String> {
    println!("    {}", shown(command));
    let status = command.stdin(Stdio::null()).status();
    match status.map_err(|error| format!("{}: {error}", shown(command)))? {
        status if status.success() => Ok(()),
        status => Err(format!("{}: {status}", shown(command))),
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The time of the commit, unless the caller gives another; without git, the first that zip archives can hold.
fn epoch(root: &Path) -> String {
    let of_commit = || {
        let git =
            Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).stdin(Stdio::null()).output();
        let said = git.ok().filter(|output| output.status.success())?.stdout;
        Some(String::from_utf8_lossy(&said).trim().to_owned()).filter(|time| !time.is_empty())
    };
    std::env::var("SOURCE_DATE_EPOCH").ok().or_else(of_commit).unwrap_or_else(|| "315532800".to_owned())
}

fn cargo_home() -> PathBuf {
    let home = || std::env::home_dir().unwrap_or_default().join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// A file in the list: its size, its name, and what was tried.
fn line(path: &Path, tried: &str) -> Result<String, String> {
    let bytes = std::fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(format!("{:>8.1} MB  {name}  ({tried})", bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_pip_and_people_look_for_them() {
        let [x86, arm] = &TARGETS;
        assert_eq!(x86.wheel("0.1.0"), "rankmark-0.1.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl");
        assert_eq!(arm.wheel("1.2.3"), "rankmark-1.2.3-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl");
        assert_eq!(arm.tarball("0.1.0"), "rankmark-0.1.0-aarch64-unknown-linux-gnu.tar.gz");
    }

    #[test]
    fn citation_and_packages_are_of_this_version() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let read =
            |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(read("CITATION.cff").contains(&format!("\nversion: {version}\n")));
        // EasyBuild wants the version in the file's name, too.
        let easyconfig = read(&format!("packaging/easybuild/rankmark-{version}.eb"));
        assert!(easyconfig.contains(&format!("\nversion = '{version}'\n")), "{easyconfig}");
        let source = "rankmark-%%(version)s-%s-unknown-linux-gnu.tar.gz";
        assert!(easyconfig.contains(source), "{easyconfig}");
        for target in &TARGETS {
            let name = source.replace("%%(version)s", version).replace("%s", target.arch);
            assert_eq!(name, target.tarball(version));
        }
        let manifest = read("Cargo.toml");
        let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
        assert!(
            read("packaging/spack/rankmark/package.py").contains(&format!("depends_on(\"rust@{rust}:\"")),
            "{rust}"
        );
    }

    #[test]
    fn targets_are_those_that_licences_are_checked_for() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let deny = std::fs::read_to_string(root.join("deny.toml")).unwrap();
        let list = TARGETS.iter().map(|target| format!("\"{}\"", target.triple)).collect::<Vec<_>>().join(", ");
        assert!(deny.contains(&format!("targets = [{list}]")), "{list}");
        assert!(TARGETS.iter().all(|target| target.triple.starts_with(target.arch)));
    }

    #[test]
    fn what_is_packed_is_there_and_described() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for text in TEXTS {
            assert!(root.join(text).is_file(), "{text}");
        }
        let project = std::fs::read_to_string(root.join("pyproject.toml")).unwrap();
        let crates = std::fs::read_to_string(root.join("crates/rankmark/Cargo.toml")).unwrap();
        let described = crates.lines().find(|line| line.starts_with("description = ")).unwrap();
        assert!(project.lines().any(|line| line == described), "one description: {described}");
    }

    #[test]
    fn checksums_are_of_all_files_and_are_checked() {
        let folder = std::env::temp_dir().join(format!("xtask-sums-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = names("0.1.0", &TARGETS.each_ref());
        assert_eq!(names.len(), 6);
        for name in &names {
            std::fs::write(folder.join(name), name).unwrap();
        }
        std::fs::write(folder.join("SHA256SUMS"), sums(&folder, &names).unwrap()).unwrap();
        let checks =
            || Command::new("sha256sum").current_dir(&folder).args(["--check", "--strict", "SHA256SUMS"]).output();
        assert!(checks().unwrap().status.success());
        std::fs::write(folder.join(&names[0]), "changed").unwrap();
        assert!(!checks().unwrap().status.success());
        std::fs::remove_file(folder.join(&names[1])).unwrap();
        assert!(sums(&folder, &names).unwrap_err().contains("No such file"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_command_that_fails_stops_the_run() {
        assert_eq!(done(Command::new("sh").args(["-c", "exit 3"])), Err("sh -c exit 3: exit status: 3".to_owned()));
        assert!(line(Path::new("/no/such/wheel"), "").is_err());
    }

    #[test]
    fn options_are_read() {
        let own = Target::own().unwrap();
        let wanted = Wanted::read(&[]).unwrap();
        assert!(wanted.targets.len() == TARGETS.len() && wanted.targets[0] == own && !wanted.again);
        let wanted = Wanted::read(&["--own", "--system", "a", "--again", "--system", "b", "--out", "c"]).unwrap();
        assert_eq!(wanted.targets, [own]);
        assert_eq!(wanted.systems, [PathBuf::from("a"), PathBuf::from("b")]);
        assert!(wanted.again && wanted.out == Some("c".into()));
        assert!(Wanted::read(&["--system"]).is_err() && Wanted::read(&["--crates", "--own"]).is_err());
    }
}
