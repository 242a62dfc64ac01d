//! Names of free functions say what they do: a call such as `number(text, key)` does not.

use super::Finding;
use super::mask::code;
use super::tree::{File, Tree};

/// Names that say something only after a type or a value: `Kind::of(op)`, `case.number("bytes")`.
const REFUSED: [&str; 3] = ["of", "number", "settle"];

/// Free functions with such a name, in tests too.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|file| !file.path.contains("/vendor/")).flat_map(of_file).collect()
}

fn of_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The indentation of the `impl` or `trait` block that is open.
    let mut block: Option<usize> = None;
    for (index, line) in code(&file.text).lines().enumerate() {
        let text = line.trim_start();
        let indentation = line.len() - text.len();
        if let Some(opened) = block {
            if indentation <= opened && text.starts_with('}') {
                block = None;
            }
        } else if has_methods(text) {
            block = Some(indentation);
        } else if let Some(name) = refused(text) {
            let what = format!("a free function is named `{name}`: say what it does, such as `parse_rank`");
            findings.push(Finding::error(&file.path, index + 1, what));
        }
    }
    findings
}

/// Whether a line begins a block of methods.
fn has_methods(line: &str) -> bool {
    let words = line.split(|other: char| !other.is_alphanumeric() && other != '_');
    let mut words = words.filter(|word| !matches!(*word, "" | "pub" | "crate" | "super" | "in" | "unsafe"));
    matches!(words.next(), Some("impl" | "trait")) && !line.contains('}')
}

/// The refused name that a line gives to a function.
fn refused(line: &str) -> Option<&'static str> {
    let (_, declared) = line.split_once("fn ")?;
    let is_name = |name: &&str| declared.strip_prefix(*name).is_some_and(|rest| rest.starts_with(['(', '<']));
    REFUSED.into_iter().find(is_name)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&of_files(&[("crates/comm/src/a.rs", text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn free_functions_whose_names_say_nothing_are_found() {
        for name in REFUSED {
            assert_eq!(lines(&format!("fn {name}() {{}}\n")), [1], "{name}");
            assert_eq!(lines(&format!("pub(super) unsafe fn {name}<'a>(a: &'a str) {{\n}}\n")), [1], "{name}");
            assert_eq!(lines(&format!("mod tests {{\n    fn {name}() {{}}\n}}\n")), [2], "{name}");
        }
        assert_eq!(lines("impl A {\n    fn of() {\n    }\n}\n\nfn of() {}\n"), [6]);
        assert_eq!(lines("impl A for B {}\nfn of() {}\n"), [2]);
    }

    #[test]
    fn methods_and_other_names_are_not_found() {
        for text in [
            "impl A {\n    fn of() {\n    }\n    pub fn number(&self) {}\n}\n",
            "unsafe impl<T> A for B<T>\nwhere\n    T: C,\n{\n    fn settle() {}\n}\n",
            "pub(crate) trait A: B {\n    fn of(value: f64) -> Self;\n}\n",
            "macro_rules! a {\n    ($b:ty) => {\n        impl $b {\n            fn of() {}\n        }\n    };\n}\n",
            "fn number_of() {}\nfn of_file() {}\nlet a: fn(of) = number(1);\n",
            "// fn of()\nconst A: &str = \"fn of()\";\n",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }
}
