//! The environment that this program was started with.

use std::ffi::OsString;
use std::path::PathBuf;

use record::Tool;

/// This program, as records name it.
pub(crate) fn tool() -> Tool {
    Tool { name: "rankmark".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// A variable.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// All variables as text; those that are not text are left out: a record may not keep them.
pub(crate) fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The words that this program was started with, fit for a record: without secrets, and as text where they are none.
pub(crate) fn command_line() -> Vec<String> {
    record::command_line(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}

/// What libraries of GPUs are looked for and used with. NVIDIA's wheels lie out of the loader's sight; PyTorch opens them by path.
pub(crate) fn of_gpus() -> comm::Surroundings {
    let toolkit = variable("CUDA_HOME").map(|home| PathBuf::from(home).join("lib64"));
    let python = search_path().into_iter().map(|folder| folder.join("python3")).find(|path| path.is_file());
    let wheels = python.iter().flat_map(|python| comm::library::wheels(python));
    comm::Surroundings {
        folders: toolkit.into_iter().chain(wheels).collect(),
        path: search_path(),
        shares_gpus: variable("NCCL_MULTI_RANK_GPU_ENABLE").is_some_and(|value| value == "1"),
        kernels: cache().map(|folder| folder.join("rankmark/kernels")),
    }
}

/// Where this user's programs keep what they can make again: XDG_CACHE_HOME, or `.cache` in HOME.
fn cache() -> Option<PathBuf> {
    let absolute = |name| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

/// The folders of the path.
pub(crate) fn search_path() -> Vec<PathBuf> {
    std::env::split_paths(&variable("PATH").unwrap_or_default()).collect()
}
