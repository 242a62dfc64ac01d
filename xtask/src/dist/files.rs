//! The wheel and the tarball of a target: how they are made, and what must be in them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::again::{names_no_folder, remaps};
use super::{COMPLETIONS, Dist, GLIBC, NOTICES, TEXTS, Target, cargo_home, done, notices};

impl Dist<'_> {
    /// Builds the wheel. Maturin refuses a binary that needs a newer glibc.
    pub(super) fn wheel(&self, target: &Target) -> Result<(), String> {
        // Without rustup: the toolchain has the target or cargo says that it does not.
        let _ = Command::new("rustup").current_dir(self.root).args(["target", "add", target.triple]).status();
        let (major, minor) = GLIBC;
        let place = self.work.join(format!("wheel-{}", target.arch));
        let mut maturin = self.tool("maturin");
        maturin.args(["build", "--locked", "--profile", "dist", "--zig", "--target", target.triple]);
        maturin.args(["--compatibility", &format!("manylinux_{major}_{minor}"), "--out"]).arg(&place);
        // Cargo splits RUSTFLAGS at spaces, which names of folders may have; this variable at a separator.
        maturin.env("CARGO_ENCODED_RUSTFLAGS", remaps(self.root, self.target).join("\u{1f}"));
        // A caller's CARGO_INCREMENTAL=1 excludes link-time optimization.
        maturin.env("CARGO_TARGET_DIR", self.target).env("CARGO_INCREMENTAL", "0");
        done(&mut maturin)?;
        let unpacked = place.join("unpacked");
        self.extract(&place.join(target.wheel(&self.version)), &unpacked)?;
        let binary = unpacked.join(self.script());
        self.strip(&binary)?;
        done(Command::new("chmod").arg("755").arg(&binary))?;
        // Writes the list of files with their checksums again, too.
        done(self.tool("python").args(["-m", "wheel", "pack"]).arg(&unpacked).arg("--dest-dir").arg(&self.out))?;
        let wheel = self.out.join(target.wheel(&self.version));
        if wheel.is_file() { Ok(()) } else { Err(format!("{} was not made", wheel.display())) }
    }

    /// Where a wheel has the program.
    fn script(&self) -> String {
        format!("rankmark-{}.data/scripts/rankmark", self.version)
    }

    fn extract(&self, wheel: &Path, to: &Path) -> Result<(), String> {
        done(self.tool("python").args(["-m", "zipfile", "--extract"]).args([wheel, to]))
    }

    /// Removes debug information, and leaves the names of functions. The profile asks for this, but zig's linker does not do it:
    /// the rest is three quarters of the file, and names folders of this machine.
    fn strip(&self, binary: &Path) -> Result<(), String> {
        let sysroot = Command::new("rustc").current_dir(self.root).args(["--print", "sysroot"]).output();
        let sysroot = sysroot.map_err(|error| format!("rustc: {error}"))?.stdout;
        let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
        let own = self.targets[0].triple;
        // Of every processor, unlike the one of binutils.
        let mut objcopy = Command::new(sysroot.join("lib/rustlib").join(own).join("bin/rust-objcopy"));
        done(objcopy.env("LD_LIBRARY_PATH", sysroot.join("lib")).arg("--strip-debug").arg(binary))
    }

    /// Puts the binary of the wheel into the folder that the tarball is made of: both have the same one.
    pub(super) fn unpack(&self, target: &Target) -> Result<(), String> {
        let wheel = self.out.join(target.wheel(&self.version));
        let unpacked = self.work.join(target.arch);
        self.extract(&wheel, &unpacked)?;
        let script = unpacked.join(self.script());
        let folder = self.work.join(target.folder(&self.version));
        let binary = folder.join("rankmark");
        let moved = std::fs::create_dir_all(&folder).and_then(|()| std::fs::rename(script, &binary));
        moved.map_err(|error| format!("{}: {error}", binary.display()))?;
        done(Command::new("chmod").arg("755").arg(&binary))
    }

    /// Binary, texts, manual pages and completions, in one folder.
    pub(super) fn tarball(&self, target: &Target, own: &Target) -> Result<(), String> {
        let name = target.folder(&self.version);
        let folder = self.work.join(&name);
        let writes = self.work.join(own.folder(&self.version)).join("rankmark");
        for text in TEXTS {
            let copied = std::fs::copy(self.root.join(text), folder.join(text));
            copied.map_err(|error| format!("{text}: {error}"))?;
        }
        let triples: Vec<&str> = self.targets.iter().map(|target| target.triple).collect();
        let notices = notices::document(self.root, &triples)?;
        for place in [folder.join(NOTICES), self.out.join(NOTICES)] {
            std::fs::write(&place, &notices).map_err(|error| format!("{}: {error}", place.display()))?;
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
    pub(super) fn unpack_tarball(&self, target: &Target) -> Result<PathBuf, String> {
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
        let home = cargo_home();
        names_no_folder(&binary, &[self.root, self.target, &home])?;
        Ok(folder)
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

/// Files that an unpacked tarball should have, and that are missing or empty.
fn missing(folder: &Path) -> Vec<String> {
    let completions = COMPLETIONS.iter().map(|(_, file)| format!("completions/{file}"));
    let texts = TEXTS.iter().map(|text| (*text).to_owned());
    let names = ["rankmark", "man/rankmark.1", NOTICES].map(str::to_owned).into_iter().chain(texts).chain(completions);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tarball_is_complete_and_always_the_same() {
        let work = std::env::temp_dir().join(format!("xtask-dist-{}", std::process::id()));
        let folder = work.join("rankmark-0");
        let names = ["rankmark", "man/rankmark.1", "README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
        for name in names.iter().chain(&[NOTICES, "completions/rankmark.bash", "completions/rankmark.fish"]) {
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
    fn programs_are_for_a_processor() {
        let own = machine(&std::env::current_exe().unwrap()).unwrap();
        assert!(Target::own().is_none_or(|target| own == Some(target.machine)), "{own:?}");
        assert_eq!(machine(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))).unwrap(), None);
    }
}
