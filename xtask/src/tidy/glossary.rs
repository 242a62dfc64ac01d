//! Words that this repository does not write: coined ones, and ordinary ones with a private meaning.
//!
//! Each row says where it applies. A word that has an ordinary meaning in one place is refused in the others only.

use std::collections::BTreeSet;

use super::Finding;
use super::mask::code;
use super::tree::{File, Tree};

/// The kind of text in which a word is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Markdown, outside of code spans and code blocks.
    Docs,
    /// Comments and string literals of Rust, and all text of Python.
    Text,
    /// Identifiers of Rust, by their parts: `own_harness`, `OwnHarness`.
    Identifiers,
}

use Scope::{Docs, Identifiers, Text};

/// A word or phrase in lower case, what to write instead, and where it is refused.
struct Word {
    word: &'static str,
    instead: &'static str,
    places: &'static [Scope],
}

const fn refused(word: &'static str, instead: &'static str, places: &'static [Scope]) -> Word {
    Word { word, instead, places }
}

/// The table. A word that is still in use in a place is not refused there yet.
static WORDS: &[Word] = &[
    refused("mend", "fix", &[Docs, Text, Identifiers]),
    refused("mends", "how to fix it", &[Docs, Text, Identifiers]),
    refused("mended", "fixed", &[Docs, Text, Identifiers]),
    refused("anew", "again", &[Docs, Text, Identifiers]),
    refused("harness", "measurement overhead", &[Docs, Text, Identifiers]),
    refused("redop", "op", &[Docs, Text, Identifiers]),
    refused("imprecise", "CI above target", &[Docs, Text, Identifiers]),
    refused("unsteady", "warm-up not converged", &[Docs, Text, Identifiers]),
    refused("companion", "baseline", &[Docs, Text, Identifiers]),
    refused("companions", "baselines", &[Docs, Text, Identifiers]),
    refused("parked", "idle", &[Docs, Text, Identifiers]),
    refused("rival", "competing implementation", &[Docs, Text, Identifiers]),
    refused("rivals", "competing implementations", &[Docs, Text, Identifiers]),
    refused("lobby", "coordinator", &[Docs, Text, Identifiers]),
    refused("adopted", "external", &[Docs, Text, Identifiers]),
    refused("adopter", "external launcher", &[Docs, Text, Identifiers]),
    refused("fate", "exit", &[Docs, Text, Identifiers]),
    refused("doubt", "caveat", &[Docs, Text, Identifiers]),
    refused("doubts", "caveats", &[Docs, Text, Identifiers]),
    refused("known:", "valid values:", &[Docs, Text]),
    refused("held against", "compared with", &[Docs, Text]),
    refused("in turns", "interleaved", &[Docs, Text]),
    refused("is gone round", "is worked around", &[Docs, Text]),
    refused("whoever", "the caller, the rank, the user", &[Docs, Text, Identifiers]),
    refused("is gone on with", "is resumed", &[Docs, Text]),
    refused("ever after", "from then on", &[Docs, Text]),
    refused("house words", "conventions", &[Docs, Text]),
    refused("neighbours", "other tenants", &[Docs]),
    refused("is of f32", "applies to f32, supports f32, has type f32", &[Docs, Text]),
    refused("make no groups", "do not support groups", &[Docs, Text]),
    refused("makes no groups", "does not support groups", &[Docs, Text]),
    refused("knows no interference", "does not model interference", &[Docs, Text]),
    refused("take no threads", "do not use threads", &[Docs, Text]),
    refused("takes no threads", "does not use threads", &[Docs, Text]),
    refused("memory of hosts", "host memory", &[Docs, Text]),
    refused("beside itself", "concurrently with itself", &[Docs, Text]),
    refused("is none itself", "is not one itself", &[Docs, Text]),
    refused("to be had", "available", &[Docs, Text]),
    refused("reads no file", "does not read a file", &[Docs, Text]),
    refused("multiplies no", "does not multiply", &[Docs, Text]),
    refused("go on with it", "continue it", &[Docs, Text]),
    refused("goes on with it", "continues it", &[Docs, Text]),
    refused("is of no use", "is not needed, cannot be used", &[Docs, Text]),
];

/// Words that are refused where they stand.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_ours(file)).flat_map(of_file).collect()
}

/// Vendored text and this table are not checked.
fn is_ours(file: &File) -> bool {
    !file.path.contains("/vendor/") && file.path != "xtask/src/tidy/glossary.rs"
}

fn of_file(file: &File) -> Vec<Finding> {
    let path = file.path.as_str();
    if path.ends_with(".md") {
        return findings(path, &prose(&file.text), Docs);
    }
    if path.ends_with(".py") {
        return findings(path, &file.text, Text);
    }
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let code = code(&file.text);
    let mut found = findings(path, &text(&file.text, &code), Text);
    found.extend(findings(path, &parts(&code), Identifiers));
    found
}

/// One finding for each word and line.
fn findings(path: &str, text: &str, place: Scope) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for Word { word, instead, places } in WORDS {
            if places.contains(&place) && holds(&line, word) {
                found.push(refusal(path, number + 1, word, instead));
            }
        }
        if place != Identifiers
            && let Some(words) = denied_noun(&line)
        {
            found.push(refusal(path, number + 1, &words, "is not a ..."));
        }
    }
    found
}

fn refusal(path: &str, line: usize, word: &str, instead: &str) -> Finding {
    Finding::error(path, line, format!("`{word}`: write `{instead}` (CONTRIBUTING.md, How we write)"))
}

/// "x is no number": in plain English "x is not a number". "There is no number", "is no longer" and "is no larger than" are
/// plain English.
fn denied_noun(line: &str) -> Option<String> {
    const PLAIN: &[&str] = &[
        "longer", "more", "less", "fewer", "one", "other", "better", "worse", "need", "point", "reason", "later",
        "larger", "smaller", "lower", "higher", "slower", "faster", "farther", "shorter", "wider",
    ];
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_denied = |four: &&[&str]| {
        let [before, verb, no, noun] = four else { return false };
        let plain = noun.trim_matches(|character: char| !character.is_alphanumeric());
        let is_noun = plain.starts_with(char::is_alphabetic) && !PLAIN.contains(&plain);
        matches!(*verb, "is" | "are" | "was" | "were") && *no == "no" && is_noun && !before.ends_with("there")
    };
    words.windows(4).find(is_denied).map(|four| four[1..].join(" "))
}

/// Whether the word stands alone in this line.
fn holds(line: &str, word: &str) -> bool {
    // A slash is part of a path.
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '/');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !before.is_some_and(is_word) && (word.ends_with(':') || !after.is_some_and(is_word))
    })
}

/// Markdown without code: names of fields and files are what they are.
fn prose(markdown: &str) -> String {
    let mut is_block = false;
    let lines = markdown.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        if is_block || is_fence { String::new() } else { without_spans(line) }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line without its code spans and without the targets of its links.
fn without_spans(line: &str) -> String {
    let outside = line.split('`').enumerate().map(|(number, part)| if number % 2 == 0 { part } else { "" });
    let line: String = outside.collect::<Vec<_>>().join("`");
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "]" + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Comments and literals: what the mask took away.
fn text(source: &str, code: &str) -> String {
    let pairs = source.bytes().zip(code.bytes());
    let kept = pairs.map(|(byte, masked)| if byte == b'\n' || masked == b' ' { byte } else { b' ' });
    String::from_utf8_lossy(&kept.collect::<Vec<_>>()).into_owned()
}

/// The parts of identifiers, each line's once: `HarnessCost` and `harness_cost` are `harness cost`.
fn parts(code: &str) -> String {
    let lines = code.lines().map(|line| {
        let names = line.split(|character: char| !(character.is_alphanumeric() || character == '_'));
        let parts: BTreeSet<String> = names.flat_map(parts_of).collect();
        parts.into_iter().collect::<Vec<_>>().join(" , ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn parts_of(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        if character == '_' || (was_lower && character.is_uppercase()) {
            parts.push(String::new());
        }
        was_lower = character.is_lowercase();
        if let (Some(part), true) = (parts.last_mut(), character != '_') {
            part.extend(character.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&of_files(&[(path, text)])).len()
    }

    #[test]
    fn words_are_refused_in_prose_and_not_in_code() {
        for Word { word, places, .. } in WORDS {
            assert_eq!(count("docs/a.md", &format!("A {word} b.")), usize::from(places.contains(&Docs)), "{word}");
            assert_eq!(count("docs/a.md", &format!("`{word}`")), 0, "{word}");
            assert_eq!(count("docs/a.md", &format!("```\n{word}\n```")), 0, "{word}");
        }
        assert_eq!(count("docs/a.md", "a [page](adopted/of.md), [adopted/of.rs](b) and amended text"), 0);
        assert_eq!(count("docs/a.md", "Whoever waits, waits."), 1);
    }

    #[test]
    fn words_are_refused_in_comments_and_literals() {
        for source in ["// a rival\n", "/// A rival.\n", "let a = \"rival\";\n", "let a = r#\"a rival\"#;\n"] {
            assert_eq!(count("crates/a/src/lib.rs", source), 1, "{source}");
        }
        assert_eq!(count("crates/a/src/vendor/lib.rs", "// a rival\n"), 0);
        assert_eq!(count("crates/a/src/lib.rs", "/// Known to whoever waits.\nlet waits = 1;\n"), 1);
        assert_eq!(count("crates/a/src/lib.rs", "// Two ranks, of which one waits, and whose turn it is.\n"), 0);
        assert_eq!(count("python/a.py", "# Known to whoever waits.\n"), 1);
    }

    #[test]
    fn nouns_are_denied_with_not() {
        for denied in ["`{word}` is no number", "Such rows are no trials of a case.", "this was no rank"] {
            assert_eq!(count("crates/a/src/lib.rs", &format!("let a = \"{denied}\";\n")), 1, "{denied}");
            assert_eq!(count("docs/a.md", denied), 1, "{denied}");
        }
        for plain in [
            "There is no rank 3",
            "if there are no ranks",
            "it is no longer there",
            "is no larger than",
            "it is not a rank",
        ] {
            assert_eq!(count("docs/a.md", plain), 0, "{plain}");
        }
    }

    #[test]
    fn words_are_refused_in_parts_of_identifiers() {
        for source in ["fn rival() {}", "let best_rival = 1;", "struct BestRival;", "const RIVAL: u8 = 1;"] {
            assert_eq!(count("crates/a/src/lib.rs", source), 1, "{source}");
        }
        assert_eq!(count("crates/a/src/lib.rs", "let arrival = 1; struct Arrival;"), 0);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let found = check(&of_files(&[("crates/a/src/lib.rs", "//! A.\n\nfn a() {\n    b(\"é\"); // rival\n}\n")]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [4]);
    }
}
