//! How a test says that it leaves something out: what is missing is listed by `cargo xtask test`, never silent.
//!
//! The one file that the crates' tests share. In `crates/NAME/tests/all/main.rs`:
//! `#[path = "../../../../tests/skip.rs"] mod skip;`. Not a crate, because nothing but tests may need it, and because
//! only tests and the binary may read the environment.

#![allow(dead_code, reason = "each crate's tests use what they need of it")]
#![allow(clippy::print_stdout, reason = "what a test prints is its own output")]
#![allow(clippy::disallowed_methods, reason = "variables say what is tested and where skips are listed")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// Says that the part `name` of a test did not run, because of `reason`. The test then returns, and passes.
///
/// Runners hide what passing tests print, so the line also goes to the file that RANKMARK_SKIP_LOG names, where
/// `cargo xtask test` finds it. One write to a file opened for appending: lines of concurrent tests do not mix.
pub(crate) fn skip(name: &str, reason: &str) {
    say(name, reason, std::env::var_os("RANKMARK_SKIP_LOG").map(PathBuf::from).as_deref());
}

/// [`skip`] with the log named.
pub(crate) fn say(name: &str, reason: &str, log: Option<&Path>) {
    let line = format!("skipped: {name}: {}\n", reason.lines().collect::<Vec<_>>().join(" "));
    print!("{line}");
    let Some(log) = log else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    // A part that is left out and cannot be listed would be left out in silence: that is a failure.
    written.unwrap_or_else(|error| panic!("RANKMARK_SKIP_LOG={}: {error}", log.display()));
}

/// Whether heavy tests are wanted (`cargo xtask test --full`); if not, `name` is listed as skipped.
pub(crate) fn heavy(name: &str) -> bool {
    let wanted = std::env::var_os("RANKMARK_TEST_FULL").is_some();
    if !wanted {
        skip(name, "heavy (hint: --full)");
    }
    wanted
}
