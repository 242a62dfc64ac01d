//! What stands below the verdicts in a terminal: the files, and what to type next.

use std::path::{Path, PathBuf};

use crate::screen;

/// The files.
pub(super) fn files(folder: &Path, written: &[(PathBuf, &'static str)]) -> String {
    let longest = written.iter().map(|(path, _)| path.display().to_string().chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (path, what) in written {
        out += &format!("{:<9}{:<longest$}   {what}\n", "list", path.display().to_string());
    }
    out + &format!("{:<9}{}\n", "page", folder.join(super::PAGE).display())
}

/// What to type next.
pub(super) fn next(folder: &Path) -> String {
    let file = folder.join("fleet.json").display().to_string();
    let words = ["rankmark", "fleet", "--criteria", &file, "results/NODE"];
    screen::next(&words, "judges one more node by this fleet")
}
