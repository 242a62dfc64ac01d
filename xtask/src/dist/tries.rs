//! The files of this machine's processor, tried on this machine: the wheel in a fresh environment, and the tarball.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Dist, Target, done};

impl Dist<'_> {
    /// Runs `rankmark version`, which must say the version that is packed.
    pub(super) fn try_program(&self, program: &Path) -> Result<(), String> {
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

    /// Makes the PDF of a record with the program of an unpacked tarball.
    pub(super) fn try_report(&self, unpacked: &Path, record: &Path) -> Result<(), String> {
        let mut report = Command::new(unpacked.join("rankmark"));
        done(report.arg("report").arg(record).args(["--format", "pdf"]).stdout(Stdio::null()))
    }

    /// Installs the wheel into an environment of its own and runs it: no Rust, no network.
    pub(super) fn try_wheel(&self, target: &Target) -> Result<(), String> {
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
}
