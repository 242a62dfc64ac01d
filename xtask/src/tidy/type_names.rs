//! Names of types say what they are: a name that many crates and modules give to something of their own (`Part`, `Kind`, `Row`)
//! leads a reader who searches for it to all the others.

use std::collections::BTreeMap;

use super::Finding;
use super::mask::product_code;
use super::tree::Tree;

/// Types of one name in all crates together: a word of the field may mean two or three things (`Device`, `Error`).
const MOST: usize = 3;
const KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Types whose name stands more often.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    let is_ours = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    for file in tree.rust().filter(|file| file.is_product() && is_ours(&file.path)) {
        for (number, line) in product_code(&file.text).lines().enumerate() {
            if let Some(name) = declared(line) {
                places.entry(name.to_owned()).or_default().push((&file.path, number + 1));
            }
        }
    }
    let common = places.iter().filter(|(_, places)| places.len() > MOST);
    let finding = |(name, places): (&String, &Vec<(&str, usize)>)| {
        let all: Vec<&str> = places.iter().map(|(path, _)| *path).collect();
        let what = format!(
            "`{name}` is the name of {} types (at most {MOST}): say what each is, such as `CsvTable` for a table of CSV: {}",
            all.len(),
            all.join(", ")
        );
        let (path, line) = places[0];
        Finding::error(path, line, what)
    };
    common.map(finding).collect()
}

/// The type that a line declares; not an associated type, which is indented and has the name that its trait gives.
fn declared(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let mut words = line.split(|other: char| other.is_whitespace() || other == '(' || other == ')');
    let is_before =
        |word: &&str| !matches!(*word, "" | "pub" | "super" | "in" | "unsafe") && !word.starts_with("crate");
    let keyword = words.by_ref().find(is_before)?;
    if !KEYWORDS.contains(&keyword) || (keyword == "type" && is_indented) {
        return None;
    }
    let name = words.next()?.split(|other: char| !other.is_alphanumeric() && other != '_').next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(lines: &[&str]) -> usize {
        let files: Vec<(String, String)> = lines
            .iter()
            .enumerate()
            .map(|(index, line)| (format!("crates/terms/src/m{index}.rs"), format!("//! Doc.\n{line}\n")))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        check(&of_files(&files)).len()
    }

    #[test]
    fn a_name_that_stands_four_times_is_found() {
        let all = [
            "struct Part;",
            "pub enum Part {}",
            "pub(super) trait Part {}",
            "    type_of();\npub(crate) type Part<T> = T;",
        ];
        assert_eq!(found(&all), 1);
        assert_eq!(found(&all[..3]), 0);
    }

    #[test]
    fn other_words_are_no_types() {
        let others = [
            "impl Iterator for A {\n    type Item = u8;\n}",
            "// struct Item;",
            "#[cfg(test)]\nmod tests {\n    struct Item;\n}",
            "const TEXT: &str = \"struct Item;\";",
            "fn item(structure: Item) {}",
            "struct Item;",
        ];
        assert_eq!(found(&others), 0);
    }

    #[test]
    fn a_declaration_is_told_from_its_words() {
        for line in [
            "struct A;",
            "pub struct A<T>(T);",
            "pub(in crate::b) enum A {",
            "    struct A {",
            "pub unsafe trait A: B {",
        ] {
            assert_eq!(declared(line), Some("A"), "{line}");
        }
        for line in ["    type A = B;", "impl A {", "let struct_a = 1;", ""] {
            assert_eq!(declared(line), None, "{line}");
        }
    }
}
