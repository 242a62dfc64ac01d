//! What a step should take on a GPU that is not here: an example of the crate that makes programs computes it.

use std::path::Path;
use std::process::Command;

/// Prints the table of `crates/parallel/examples/gpu_model.rs`, which reads the options.
///
/// # Errors
/// When cargo cannot be started.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--release", "--quiet", "--package", "rankmark-parallel"]);
    command.args(["--example", "gpu_model", "--"]).args(words);
    command.status().map(|status| status.success()).map_err(|error| format!("cargo: {error}"))
}
