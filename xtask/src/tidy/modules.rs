//! What every source file must be: documented at its top, small, named for what it holds.

use super::Finding;
use super::tree::Tree;

/// A file past this is usually two things.
const LONG: usize = 500;
/// A file past this is refused.
const TOO_LONG: usize = 800;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["common", "helper", "helpers", "manager", "misc", "util", "utils"];

/// `//!` is the first thing in every Rust file, tests included: what belongs here and what does not.
pub(crate) fn documented(tree: &Tree) -> Vec<Finding> {
    let begins_with_docs = |text: &str| {
        let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!"));
        first.is_none_or(|line| line.strip_prefix("//!").is_some_and(|words| !words.trim().is_empty()))
    };
    tree.rust()
        .filter(|file| !begins_with_docs(&file.text))
        .map(|file| Finding::error(&file.path, 1, "does not begin with `//!` and what belongs in it"))
        .collect()
}

/// Lengths of source files.
pub(crate) fn small(tree: &Tree) -> Vec<Finding> {
    let is_source = |path: &str| [".rs", ".py", ".js"].iter().any(|ending| path.ends_with(ending));
    let sources = tree.files.iter().filter(|file| is_source(&file.path) && !file.path.contains("/vendor/"));
    let finding = |file: &super::tree::File| match file.text.lines().count() {
        lines @ ..=LONG => (lines, None),
        lines @ ..=TOO_LONG => {
            (lines, Some(Finding::warning(&file.path, 0, format!("{lines} lines: usually two things"))))
        }
        lines => (lines, Some(Finding::error(&file.path, 0, format!("{lines} lines, more than {TOO_LONG}")))),
    };
    sources.filter_map(|file| finding(file).1).collect()
}

/// Names of files and folders of source files.
pub(crate) fn named(tree: &Tree) -> Vec<Finding> {
    let empty = |path: &str| {
        let parts = path.trim_end_matches(".rs").split('/');
        parts.into_iter().find(|part| EMPTY_NAMES.contains(part)).map(str::to_owned)
    };
    tree.rust()
        .filter_map(|file| Some((file, empty(&file.path)?)))
        .map(|(file, name)| Finding::error(&file.path, 0, format!("`{name}` says nothing about what is inside")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    #[test]
    fn a_module_without_docs_is_found() {
        let check = |text: &str| documented(&of_files(&[("crates/a/src/lib.rs", text)])).len();
        assert_eq!(check("//! What belongs here.\n"), 0);
        assert_eq!(check("#![allow(x)]\n\n//! What belongs here.\n"), 0);
        assert_eq!(check(""), 0);
        assert_eq!(check("use a;\n//! Late.\n"), 1);
        assert_eq!(check("//!\nuse a;\n"), 1);
        assert_eq!(check("// Not a doc comment.\n"), 1);
    }

    #[test]
    fn long_files_are_warned_about_and_longer_ones_refused() {
        let check = |lines: usize, path: &str| {
            let findings = small(&of_files(&[(path, &"x\n".repeat(lines))]));
            findings.first().map(|finding| finding.warning)
        };
        assert_eq!(check(500, "a.rs"), None);
        assert_eq!(check(501, "a.rs"), Some(true));
        assert_eq!(check(800, "a.py"), Some(true));
        assert_eq!(check(801, "a.rs"), Some(false));
        assert_eq!(check(5000, "a.md"), None);
        assert_eq!(check(5000, "crates/report/vendor/a.js"), None);
    }

    #[test]
    fn names_that_say_nothing_are_found() {
        let check = |path: &str| named(&of_files(&[(path, "")])).len();
        assert_eq!(check("crates/a/src/utils.rs"), 1);
        assert_eq!(check("crates/a/src/helpers/arena.rs"), 1);
        assert_eq!(check("crates/a/src/arena.rs"), 0);
        assert_eq!(check("crates/a/src/utilisation.rs"), 0);
    }
}
