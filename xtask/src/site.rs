//! `cargo xtask site`: the documentation site. mdBook makes it from a copy of docs, in which links out of that folder
//! lead to the repository. Then every link of the pages is followed.

mod links;
mod pages;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::deny::quietly;
use crate::install;
use crate::ledger::{Ending, Ledger};
use crate::test::{cargo, target};

/// In the version that the pages were looked at with.
const VERSION: &str = "0.5.4";

/// Builds the site. True when nothing failed.
pub(crate) fn run(root: &Path, may_install: bool) -> bool {
    let mut ledger = Ledger::shown();
    build(root, may_install, &mut ledger);
    println!("the site is {}", folder(root).join("html/index.html").display());
    println!("{}", ledger.summary());
    ledger.total().failed == 0
}

/// Builds the site as a step of the tests.
pub(crate) fn build(root: &Path, may_install: bool, ledger: &mut Ledger) {
    let mdbook = match mdbook(root, may_install) {
        Ok(mdbook) => mdbook,
        Err(why) => return ledger.skip("site", why),
    };
    ledger.step("site", || (made(root, &mdbook).map_or_else(Ending::Failed, |()| Ending::Passed), None));
}

/// Where the site and what it is made from lie.
fn folder(root: &Path) -> PathBuf {
    target(root).join("xtask/site")
}

/// The pages, written and checked.
fn made(root: &Path, mdbook: &Path) -> Result<(), String> {
    let folder = folder(root);
    // Of an earlier run: a page that is gone must not be found.
    let _ = std::fs::remove_dir_all(&folder);
    let missing = pages::not_in_summary(&root.join("docs"))?;
    if !missing.is_empty() {
        return Err(format!("pages that docs/SUMMARY.md does not name: {}", missing.join(", ")));
    }
    pages::stage(root, &folder)?;
    let output = Command::new(mdbook).arg("build").arg(&folder).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("mdbook: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    if !output.status.success() || !warnings.is_empty() {
        return Err(format!("mdbook: {}\n{said}", output.status));
    }
    let problems = links::problems(&folder.join("html"))?;
    problems.iter().for_each(|problem| println!("    {problem}"));
    if problems.is_empty() { Ok(()) } else { Err(format!("{} links lead nowhere", problems.len())) }
}

/// mdBook of this version: on the path, or built below the target folder, once.
///
/// # Errors
/// Why there is none, with a hint.
fn mdbook(root: &Path, may_install: bool) -> Result<PathBuf, String> {
    let place = std::path::absolute(target(root).join("xtask/mdbook")).map_err(|error| error.to_string())?;
    let own = place.join("bin/mdbook");
    let found =
        [Some(own.clone()), install::place_of("mdbook")].into_iter().flatten().find(|program| is_wanted(program));
    if let Some(program) = found {
        return Ok(program);
    }
    let hint = format!("(hint: cargo install mdbook --version ={VERSION} --locked)");
    if !may_install {
        return Err(format!("no mdBook {VERSION} (--no-install) {hint}"));
    }
    println!("    building mdBook {VERSION} (once)");
    let build = place.join("build");
    let exact = format!("={VERSION}");
    let words = ["install", "mdbook", "--version", &exact, "--locked", "--force", "--no-default-features"];
    let mut install = cargo(root, &words);
    install.args(["--features", "search", "--root"]).arg(&place).arg("--target-dir").arg(&build);
    // It runs for a second: what is built sooner is better.
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    let ended = quietly(&mut install);
    let _ = std::fs::remove_dir_all(&build);
    ended.map(|()| own).map_err(|why| format!("mdBook {VERSION} was not built: {why} {hint}"))
}

fn is_wanted(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}
