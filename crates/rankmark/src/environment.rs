//! The environment that this program was started with.

use std::ffi::OsString;
use std::path::PathBuf;

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

/// The folders of the path.
pub(crate) fn search_path() -> Vec<PathBuf> {
    std::env::split_paths(&variable("PATH").unwrap_or_default()).collect()
}
