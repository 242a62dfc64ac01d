//! What no tracked text may hold: marks of unfinished work, paths of one machine, words that are not about the project.
//!
//! What is looked for is written in pieces, or in ROT13, so that this file passes its own checks.

use super::Finding;
use super::tree::{File, Tree};

const UNFINISHED: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];

/// Marks of unfinished work: an issue is the place for what is to come.
pub(crate) fn unfinished(tree: &Tree) -> Vec<Finding> {
    lines(tree, |line| {
        let mark = UNFINISHED.iter().find(|mark| stands_alone(line, mark))?;
        Some(format!("`{mark}`: unfinished work belongs in an issue"))
    })
}

const HOMES: [&str; 4] = [concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Absolute paths that exist on the machine of their author. A URL may hold anything.
pub(crate) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    lines(tree, |line| {
        let path = HOMES.iter().find(|home| line.match_indices(*home).any(|(at, _)| begins_a_path(&line[..at])))?;
        Some(format!("`{path}...` is a path of one machine"))
    })
}

/// Whether an absolute path begins after this text: not in the middle of a relative one, nor of a URL.
fn begins_a_path(before: &str) -> bool {
    let last = before.chars().next_back();
    !last.is_some_and(|last| last.is_alphanumeric() || matches!(last, '_' | '-' | '.' | '~' | '}'))
}

/// In ROT13. The text is about the project, not about what it was typed with; and no canned text.
const WORDS: [&str; 6] = ["pynhqr", "naguebcvp", "pungtcg", "pbcvybg", "yberz vcfhz", "nf na nv"];

/// Words that are not about the project.
pub(crate) fn words(tree: &Tree) -> Vec<Finding> {
    let words = WORDS.map(rot13);
    lines(tree, |line| {
        let line = line.to_lowercase();
        words.iter().find(|word| stands_alone(&line, word)).map(|word| format!("`{word}` is not about the project"))
    })
}

fn rot13(text: &str) -> String {
    let turn = |letter: u8| if letter.is_ascii_lowercase() { (letter - b'a' + 13) % 26 + b'a' } else { letter };
    text.bytes().map(|letter| char::from(turn(letter))).collect()
}

/// One finding for each line that `find` refuses. Cargo.lock is not ours to word.
fn lines(tree: &Tree, find: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let ours = |file: &&File| file.path != "Cargo.lock" && !file.path.contains("/vendor/");
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(ours) {
        for (number, line) in file.text.lines().enumerate() {
            findings.extend(find(line).map(|what| Finding::error(&file.path, number + 1, what)));
        }
    }
    findings
}

fn stands_alone(line: &str, word: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && (word.ends_with('(') || !after.is_some_and(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    type Check = fn(&Tree) -> Vec<Finding>;

    fn count(check: Check, line: &str) -> usize {
        check(&of_files(&[("docs/a.md", line)])).len()
    }

    #[test]
    fn unfinished_work_is_found() {
        for mark in UNFINISHED {
            assert_eq!(count(unfinished, &format!("    {mark}\"later\")")), 1, "{mark}");
        }
        assert_eq!(count(unfinished, "nothing to do here; MAXXXED; mktemp a.XXXXXX"), 0);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for home in HOMES {
            assert_eq!(count(machine_paths, &format!("see `{home}someone/file`")), 1, "{home}");
            assert_eq!(count(machine_paths, &format!("https://example.org{home}page")), 0, "{home}");
            assert_eq!(count(machine_paths, &format!("{{dir}}{home}a and ../frame{home}b")), 0, "{home}");
        }
        assert_eq!(count(machine_paths, "/proc/self/status and /tmp/x and work/results"), 0);
    }

    #[test]
    fn words_that_are_not_about_the_project_are_found() {
        for word in WORDS.map(rot13) {
            assert_eq!(count(words, &format!("Written with {}.", word.to_uppercase())), 1);
            assert_eq!(count(words, &format!("x{word}x")), 0);
        }
    }

    #[test]
    fn the_lock_file_is_not_ours_to_word() {
        let tree = of_files(&[("Cargo.lock", HOMES[0]), ("crates/report/vendor/a.js", HOMES[0])]);
        assert_eq!(machine_paths(&tree), []);
    }
}
