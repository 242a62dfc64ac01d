//! Sentences about what this program does not do. Such a sentence becomes false on the day on which somebody builds it, and no
//! other test notices: each names a test that shows it.

use std::fs;
use std::path::Path;

/// Words that such sentences have.
const WORDS: [&str; 6] =
    ["not done", "not yet", "not implemented", "are those of PyTorch", "only PyTorch", "not possible yet"];

/// Words of such sentences in pages and plans. In code they stand where it refuses, and go with the refusal.
const WORDS_OF_PAGES: [&str; 2] = ["not supported", "not support "];

/// The end of a path, a part of a sentence there, and the test that shows it; `fact`: it is about something else.
const SHOWN: [(&str, &str, &str); 4] = [
    ("docs/appendix/promises.md", "a backend that is not supported", "fact"),
    ("docs/how-to/prometheus.md", "not yet with a Grafana server", "the_dashboard_has_what_grafana_needs_to_import_it"),
    ("examples/hardware/v100-nvlink.yaml", "BF16 is not supported", "fact"),
    ("docs/appendix/promises.md", "not done: a plan of that suite", "fact"),
];

/// What users read: pages and plans whole, and of source files what stands between quotation marks before the tests.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for name in ["README.md", "CHANGELOG.md", "docs", "examples", "crates"] {
        add(&root, &root.join(name), &mut found);
    }
    found
}

fn add(root: &Path, path: &Path, found: &mut Vec<(String, String)>) {
    let name = path.strip_prefix(root).unwrap().display().to_string();
    if path.is_dir() && !path.is_symlink() {
        let is_wanted =
            !name.starts_with("crates/") || !["tests", "benches", "examples"].iter().any(|end| name.ends_with(end));
        let entries = fs::read_dir(path).unwrap().filter(|_| is_wanted);
        entries.for_each(|entry| add(root, &entry.unwrap().path(), found));
    } else if let Some(text) = ["md", "yaml", "rs"].iter().find(|end| path.extension().is_some_and(|is| is == **end)) {
        let whole = fs::read_to_string(path).unwrap();
        let text = if *text == "rs" { quoted(&whole) } else { whole };
        found.push((name, text));
    }
}

/// The lines of a source file that have a string in them, without comments and tests.
fn quoted(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = before_tests.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains('"'));
    lines.collect::<Vec<_>>().join("\n")
}

/// Sentences without a test, and tests that are not there.
fn unshown(texts: &[(String, String)], shown: &[(&str, &str, &str)], tests: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in texts {
        let of_pages = if name.ends_with(".rs") { &[][..] } else { &WORDS_OF_PAGES };
        let has_words = |line: &&str| WORDS.iter().chain(of_pages).any(|word| line.contains(word));
        for line in text.lines().filter(has_words) {
            if !shown.iter().any(|(file, part, _)| name.ends_with(file) && line.contains(part)) {
                found.push(format!("{name}: {}", line.trim()));
            }
        }
    }
    for (file, part, test) in shown {
        if !texts.iter().any(|(name, text)| name.ends_with(file) && text.contains(part)) {
            found.push(format!("{file} no longer says `{part}`"));
        }
        if *test != "fact" && !tests.contains(&format!("fn {test}(")) {
            found.push(format!("there is no test `{test}` for `{part}`"));
        }
    }
    found
}

#[test]
fn a_sentence_about_what_is_not_done_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let tests: String = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    let found = unshown(&texts(), &SHOWN, &tests);
    assert!(
        found.is_empty(),
        "each needs a row of `SHOWN`, with a test that fails once it is done:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_sentence_without_a_test_is_found() {
    let page = |text: &str| vec![("pages/a.md".to_owned(), text.to_owned())];
    let shown = [("a.md", "groups are not supported", "groups_are_refused")];
    let says = |text: &str, tests: &str| unshown(&page(text), &shown, tests);
    assert_eq!(says("Here groups are not supported.", "fn groups_are_refused() {"), [""; 0]);
    assert_eq!(
        says("Here groups are not supported.", ""),
        ["there is no test `groups_are_refused` for `groups are not supported`"]
    );
    let other = "Here groups are not supported.\nRanks on GPUs are those of PyTorch.";
    assert_eq!(says(other, "fn groups_are_refused() {"), ["pages/a.md: Ranks on GPUs are those of PyTorch."]);
    assert_eq!(says("", "fn groups_are_refused() {"), ["a.md no longer says `groups are not supported`"]);
}
