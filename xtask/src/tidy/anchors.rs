//! Links in Markdown to a part of a page lead to a heading of that page.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::links;
use super::tree::Tree;

/// Every `#part` of a link to a Markdown file, or to the file itself, that is the anchor of no heading there.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| links::is_page(&file.path));
    let anchors: BTreeMap<String, BTreeSet<String>> =
        pages.clone().map(|file| (file.path.clone(), anchors(&file.text))).collect();
    let mut findings = Vec::new();
    for file in pages {
        for (line, target) in links::page_targets(&file.text) {
            let Some((path, anchor)) = target.split_once('#').filter(|(path, _)| !path.contains("://")) else {
                continue;
            };
            let page = if path.is_empty() { file.path.clone() } else { links::resolved(&file.path, path) };
            // A page that does not exist is a finding of `links`.
            if anchors.get(&page).is_some_and(|there| !there.contains(anchor)) {
                findings.push(Finding::error(&file.path, line, format!("`{page}` has no heading `#{anchor}`")));
            }
        }
    }
    findings
}

/// The anchors that GitHub gives the headings of a page. Equal headings are numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in links::outside_code(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let plain = anchor(heading);
            let numbered = (1..).map(|number| format!("{plain}-{number}"));
            let free = std::iter::once(plain.clone()).chain(numbered).find(|name| !found.contains(name));
            found.extend(free);
        }
    }
    found
}

/// Lower case, `-` for each blank, no other punctuation than `-` and `_`; of a link its text.
fn anchor(heading: &str) -> String {
    let mut words = String::new();
    let mut rest = heading.trim();
    while let Some((before, after)) = rest.split_once("](") {
        words.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    words.push_str(rest);
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    #[test]
    fn a_link_to_a_part_that_is_not_there_is_found() {
        let page =
            "# Method\n\n## `run`: A & B, in C\n## Twice\n## Twice\n## See [the map](map.md)\n```\n# code\n```\n";
        let check = |text: &str| check(&of_files(&[("README.md", text), ("docs/method.md", page)])).len();
        let to = |anchor: &str| check(&format!("# Here\n[a](docs/method.md#{anchor})\n"));
        for anchor in ["method", "run-a--b-in-c", "twice", "twice-1", "see-the-map"] {
            assert_eq!(to(anchor), 0, "{anchor}");
        }
        for anchor in ["run", "twice-2", "code", "Method"] {
            assert_eq!(to(anchor), 1, "{anchor}");
        }
        assert_eq!(check("# Here\n[a](#here), [b](#there)"), 1);
        assert_eq!(check("[web](https://example.org/x.md#part), [no page](gone.md#part), `[code](#x)`"), 0);
    }
}
