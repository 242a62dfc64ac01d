//! What a step should take on a GPU that is not here: an example of the crate that makes programs computes it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::runs::build;
use crate::test::target;

/// The example `crates/parallel/examples/gpu_model/main.rs`, which is built.
///
/// # Errors
/// It cannot be built.
pub(crate) fn program(root: &Path) -> Result<PathBuf, String> {
    build(root, &["--package", "rankmark-parallel", "--example", "gpu_model"])?;
    Ok(target(root).join("release/examples/gpu_model"))
}

/// Prints the example's table. It reads the options.
///
/// # Errors
/// The example cannot be built, or cannot start.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let program = program(root)?;
    let ended = Command::new(&program).args(words).status();
    ended.map(|status| status.success()).map_err(|error| format!("{}: {error}", program.display()))
}

/// Milliseconds of a step by kind of kernel, on a device of this name, and what they rest on.
///
/// # Errors
/// What the example says.
pub(crate) fn times(program: &Path, gpu: &str, words: &str) -> Result<Value, String> {
    let mut command = Command::new(program);
    command.args(["--gpu", gpu, "--format", "json"]).args(words.split_whitespace()).stdin(Stdio::null());
    let ended = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    match ended.status.success() {
        true => serde_json::from_slice(&ended.stdout).map_err(|error| format!("{}: {error}", program.display())),
        false => Err(String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
    }
}
