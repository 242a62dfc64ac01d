//! `cargo xtask dist`: the wheels and tarballs that are handed out, for each target. Built by maturin with zig's linker, which
//! makes binaries for an old glibc and for other processors. Beside them lie a list of all crates in them (CycloneDX) and the
//! checksums of all files. Nothing is uploaded here.
//!
//! Two runs on the same commit and tools make the same files: times come from SOURCE_DATE_EPOCH, names of this machine's
//! folders are left out.

mod sbom;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::experiments::{Given, printed};
use crate::wheels;

/// The tools, in the versions that this step was written with.
const TOOLS: [&str; 3] = ["maturin==1.16.0", "ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The glibc of the oldest systems that the binaries run on.
const GLIBC: (u32, u32) = (2, 17);

/// Files that are packed with the binary, from the root of the repository.
const TEXTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Shells that have a completion script, and the name that each shell looks for.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "rankmark.bash"), ("fish", "rankmark.fish"), ("zsh", "_rankmark")];

/// A processor that files are made for.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// As Rust and the platform tags of wheels both call it.
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
    /// Of this machine; None where nothing is made for it.
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

/// Makes and lists all files. False where one could not be made, or does not work.
///
/// # Errors
/// What is wrong with the options.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    // Not in the target folder: cargo's folder of the profile `dist` is there.
    let out = Given::read(words, "--out DIR")?.path("--out").unwrap_or_else(|| root.join("dist"));
    let target = crate::test::target(root);
    let lines = Dist::new(root, &target, &out).and_then(|dist| dist.all());
    Ok(printed(lines.map(|lines| lines.iter().map(|line| format!("{line}\n")).collect())))
}

/// One run: where things are.
struct Dist<'a> {
    root: &'a Path,
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
}

impl<'a> Dist<'a> {
    /// Finds or installs the tools, and makes the folders.
    fn new(root: &'a Path, target: &'a Path, out: &Path) -> Result<Self, String> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(|error| error.to_string());
        let (place, work) = (absolute(&target.join("xtask/dist"))?, absolute(&target.join("xtask/dist-work"))?);
        wheels::environment(&place, &TOOLS, true, wheels::plain)?;
        // What an earlier run left must not get into a tarball.
        let _ = std::fs::remove_dir_all(&work);
        let out = absolute(out)?;
        for folder in [&out, &work] {
            std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        // Of this program: all crates of the workspace have one version.
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { root, target, out, work, tools: place.join("bin"), version, epoch: epoch(root) })
    }

    /// Everything for every target, and a line for each file.
    fn all(&self) -> Result<Vec<String>, String> {
        let own = Target::own().ok_or("no target is that of this machine, so that no file could be tried")?;
        let mut lines = vec![format!("{}:", self.out.display())];
        // Its binary also writes the manual pages of the others.
        let first = std::iter::once(own);
        for target in first.chain(TARGETS.iter().filter(|target| *target != own)) {
            self.wheel(target)?;
            self.unpack(target)?;
            self.tarball(target, own)?;
            let unpacked = self.unpack_tarball(target)?;
            let tried = if target == own {
                self.try_wheel(target)?;
                self.try_program(&unpacked.join("rankmark"))?;
                self.try_report(&unpacked, &self.work.join("record"))?;
                "installed and run on this machine"
            } else {
                "cross-built, never run"
            };
            for name in [target.wheel(&self.version), target.tarball(&self.version)] {
                lines.push(line(&self.out.join(name), tried)?);
            }
        }
        lines.push(self.list_crates()?);
        lines.push(self.sum()?);
        Ok(lines)
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
        let text = sums(&self.out, &names(&self.version))?;
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        line(&path, "`sha256sum --check SHA256SUMS`")
    }

    /// Builds the wheel. Maturin refuses a binary that needs a newer glibc.
    fn wheel(&self, target: &Target) -> Result<(), String> {
        // Without rustup: the toolchain has the target or cargo says that it does not.
        let _ = Command::new("rustup").current_dir(self.root).args(["target", "add", target.triple]).status();
        let (major, minor) = GLIBC;
        let mut maturin = self.tool("maturin");
        maturin.args(["build", "--locked", "--profile", "dist", "--zig", "--target", target.triple]);
        maturin.args(["--compatibility", &format!("manylinux_{major}_{minor}"), "--out"]).arg(&self.out);
        // Panics would name folders of the user who built it.
        let sources = cargo_home().join("registry/src");
        maturin.env("RUSTFLAGS", format!("--remap-path-prefix={}=registry", sources.display()));
        // A caller's CARGO_INCREMENTAL=1 excludes link-time optimization.
        maturin.env("CARGO_TARGET_DIR", self.target).env("CARGO_INCREMENTAL", "0");
        done(&mut maturin)
    }

    /// Puts the binary of the wheel into the folder that the tarball is made of: both have the same one.
    fn unpack(&self, target: &Target) -> Result<(), String> {
        let wheel = self.out.join(target.wheel(&self.version));
        let unpacked = self.work.join(target.arch);
        done(self.tool("python").args(["-m", "zipfile", "--extract"]).args([&wheel, &unpacked]))?;
        let script = unpacked.join(format!("rankmark-{}.data/scripts/rankmark", self.version));
        let folder = self.work.join(target.folder(&self.version));
        let binary = folder.join("rankmark");
        let moved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::rename(script, &binary));
        moved.map_err(|error| format!("{}: {error}", binary.display()))?;
        done(Command::new("chmod").arg("755").arg(&binary))
    }

    /// Makes the PDF of a record with the program of an unpacked tarball.
    fn try_report(&self, unpacked: &Path, record: &Path) -> Result<(), String> {
        let mut report = Command::new(unpacked.join("rankmark"));
        done(report.arg("report").arg(record).args(["--format", "pdf"]).stdout(Stdio::null()))
    }

    /// Installs the wheel into an environment of its own and runs it: no Rust, no network.
    fn try_wheel(&self, target: &Target) -> Result<(), String> {
        let place = self.work.join("tried");
        done(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        let mut pip = Command::new(place.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index"]);
        done(pip.arg(self.out.join(target.wheel(&self.version))))?;
        let rankmark = place.join("bin/rankmark");
        self.try_program(&rankmark)?;
        let words = ["comm", "all_reduce", "--ranks", "2", "--quick", "--output-dir"];
        done(Command::new(&rankmark).args(words).arg(self.work.join("record")))
    }

    /// Binary, texts, manual pages and completions, in one folder.
    fn tarball(&self, target: &Target, own: &Target) -> Result<(), String> {
        let name = target.folder(&self.version);
        let folder = self.work.join(&name);
        let writes = self.work.join(own.folder(&self.version)).join("rankmark");
        for text in TEXTS {
            let copied = std::fs::copy(self.root.join(text), folder.join(text));
            copied.map_err(|error| format!("{text}: {error}"))?;
        }
        done(Command::new(&writes).arg("man").arg(folder.join("man")).stdout(Stdio::null()))?;
        let completions = folder.join("completions");
        std::fs::create_dir(&completions).map_err(|error| format!("{}: {error}", completions.display()))?;
        for (shell, file) in COMPLETIONS {
            let script = Command::new(&writes).args(["completions", shell]).output();
            let script = script.map_err(|error| format!("{}: {error}", writes.display()))?;
            if !script.status.success() {
                return Err(format!("rankmark completions {shell}: {}", script.status));
            }
            std::fs::write(completions.join(file), script.stdout).map_err(|error| format!("{file}: {error}"))?;
        }
        pack(&self.work, &name, &self.epoch, &self.out.join(target.tarball(&self.version)))
    }

    /// Unpacks the tarball as a user would, and looks for what must be in it.
    fn unpack_tarball(&self, target: &Target) -> Result<PathBuf, String> {
        let place = self.work.join("unpacked");
        std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let tarball = self.out.join(target.tarball(&self.version));
        done(Command::new("tar").arg("--extract").arg("--file").arg(&tarball).arg("--directory").arg(&place))?;
        let folder = place.join(target.folder(&self.version));
        let missing = missing(&folder);
        if !missing.is_empty() {
            return Err(format!("{} lacks {}", tarball.display(), missing.join(", ")));
        }
        let binary = folder.join("rankmark");
        let machine = machine(&binary).map_err(|error| format!("{}: {error}", binary.display()))?;
        if machine != Some(target.machine) {
            return Err(format!("{} is not a program for {}", binary.display(), target.arch));
        }
        Ok(folder)
    }

    /// Runs `rankmark version`, which must say the version that is packed.
    fn try_program(&self, program: &Path) -> Result<(), String> {
        println!("    {} version", program.display());
        let output = Command::new(program).arg("version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let first: Vec<&str> = said.lines().next().unwrap_or_default().split_whitespace().collect();
        if output.status.success() && first == ["rankmark", self.version.as_str()] {
            return Ok(());
        }
        Err(format!("{} version: {}, and says {}", program.display(), output.status, first.join(" ")))
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

/// Packs the folder `name` of `work`. The same content gives the same file: it has one order, one owner and one time.
fn pack(work: &Path, name: &str, epoch: &str, tarball: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    // Without -n, gzip would note the time.
    tar.args([format!("--mtime=@{epoch}"), "--use-compress-program=gzip -n -9".to_owned()]);
    done(tar.arg("--file").arg(tarball).arg("--directory").args([work, Path::new(name)]))
}

/// The files of a version, but for their checksums.
fn names(version: &str) -> Vec<String> {
    let packed = TARGETS.iter().flat_map(|target| [target.wheel(version), target.tarball(version)]);
    packed.chain([format!("rankmark-{version}.cdx.json")]).collect()
}

/// Their checksums, by coreutils.
fn sums(folder: &Path, names: &[String]) -> Result<String, String> {
    let mut sum = Command::new("sha256sum");
    let ended = sum.current_dir(folder).arg("--").args(names).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("sha256sum: {error}"))?;
    match ended.status.success() {
        true => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        false => Err(format!("sha256sum: {}", String::from_utf8_lossy(&ended.stderr).trim())),
    }
}

/// Files that an unpacked tarball should have, and that are missing or empty.
fn missing(folder: &Path) -> Vec<String> {
    let completions = COMPLETIONS.iter().map(|(_, file)| format!("completions/{file}"));
    let texts = TEXTS.iter().map(|text| (*text).to_owned());
    let names = ["rankmark", "man/rankmark.1"].map(str::to_owned).into_iter().chain(texts).chain(completions);
    let is_there =
        |name: &String| std::fs::metadata(folder.join(name)).is_ok_and(|file| file.is_file() && file.len() > 0);
    names.filter(|name| !is_there(name)).collect()
}

/// The processor that an ELF file is for (`e_machine`, little-endian); None: it is not an ELF file.
fn machine(file: &Path) -> std::io::Result<Option<u16>> {
    let mut header = [0; 20];
    std::fs::File::open(file)?.read_exact(&mut header)?;
    Ok(header.starts_with(b"\x7fELF").then(|| u16::from_le_bytes([header[18], header[19]])))
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
    fn a_tarball_is_complete_and_always_the_same() {
        let work = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let folder = work.join("rankmark-0");
        let names = ["rankmark", "man/rankmark.1", "README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
        for name in names.iter().chain(&["completions/rankmark.bash", "completions/rankmark.fish"]) {
            std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            std::fs::write(folder.join(name), name).unwrap();
        }
        // An empty file is what a failed command leaves.
        std::fs::write(folder.join("completions/_rankmark"), "").unwrap();
        std::fs::remove_file(folder.join("man/rankmark.1")).unwrap();
        assert_eq!(missing(&folder), ["man/rankmark.1", "completions/_rankmark"]);
        std::fs::write(folder.join("man/rankmark.1"), "page").unwrap();
        std::fs::write(folder.join("completions/_rankmark"), "script").unwrap();
        assert_eq!(missing(&folder), Vec::<String>::new());
        pack(&work, "rankmark-0", "1000000000", &work.join("a.tar.gz")).unwrap();
        // The same content at another time.
        std::fs::write(folder.join("man/rankmark.1"), "page").unwrap();
        pack(&work, "rankmark-0", "1000000000", &work.join("b.tar.gz")).unwrap();
        let bytes = |name: &str| std::fs::read(work.join(name)).unwrap();
        assert!(bytes("a.tar.gz") == bytes("b.tar.gz"));
        done(Command::new("tar").current_dir(&work).args(["--extract", "--file=a.tar.gz", "--one-top-level=b"]))
            .unwrap();
        assert_eq!(missing(&work.join("b/rankmark-0")), Vec::<String>::new());
        std::fs::remove_dir_all(&work).unwrap();
    }

    #[test]
    fn checksums_are_of_all_files_and_are_checked() {
        let folder = std::env::temp_dir().join(format!("xtask-sums-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = names("0.1.0");
        assert_eq!(names.len(), 5);
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
    fn programs_are_for_a_processor() {
        let own = machine(&std::env::current_exe().unwrap()).unwrap();
        assert!(Target::own().is_none_or(|target| own == Some(target.machine)), "{own:?}");
        assert_eq!(machine(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap(), None);
    }

    #[test]
    fn a_command_that_fails_stops_the_run() {
        assert_eq!(done(Command::new("sh").args(["-c", "exit 3"])), Err("sh -c exit 3: exit status: 3".to_owned()));
        assert!(line(Path::new("/no/such/wheel"), "").is_err());
    }
}
