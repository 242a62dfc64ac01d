//! Links in Markdown to files of this repository lead to files of this repository.

use super::Finding;
use super::tree::Tree;

/// Every `[text](target)` outside code with a target that is neither a URL nor a place in the same file.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_page(&file.path)) {
        let is_broken = |(_, target): &(usize, &str)| !leads_somewhere(tree, &file.path, target);
        for (line, target) in page_targets(&file.text).filter(is_broken) {
            findings.push(Finding::error(&file.path, line, format!("`{target}` is not a file of this repository")));
        }
    }
    findings
}

/// Pages that files name in their text: help, errors, comments, plans, other pages. Each is a page of docs.
pub(crate) fn named(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    // The checks and the site have pages that are not there in their tests.
    let own = |path: &str| path.starts_with("xtask/src/tidy/") || path.starts_with("xtask/src/site/");
    for file in tree.files.iter().filter(|file| !own(&file.path)) {
        for (index, line) in file.text.lines().enumerate() {
            let missing = pages(line).filter(|page| tree.files.iter().all(|other| other.path != *page));
            let what = |page: String| Finding::error(&file.path, index + 1, format!("`{page}` is not a page"));
            findings.extend(missing.map(what));
        }
    }
    findings
}

/// `docs/how-to/mpi.md` in a line, and no longer path that ends so.
fn pages(line: &str) -> impl Iterator<Item = String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_/.".contains(letter);
    let words = line.split(move |letter| !is_part(letter));
    let ends = words.filter_map(|word| Some(word.rsplit_once(".md")?.0)).filter(|path| path.starts_with("docs/"));
    ends.map(|path| format!("{path}.md"))
}

/// Golden reports link to pictures that only a real report has next to it.
pub(crate) fn is_page(path: &str) -> bool {
    path.ends_with(".md") && !path.contains("/tests/golden/")
}

/// The targets of a page's links, with their lines from 1.
pub(crate) fn page_targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    outside_code(text).flat_map(|(number, line)| targets(line).map(move |target| (number, target)))
}

/// The lines of a page, from 1, without blocks of code.
pub(crate) fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((index + 1, line))
    })
}

/// The targets of a line's links; what stands in back-ticks is not a link.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let plain = line.split('`').step_by(2);
    plain.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| rest.split(')').next())
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let wanted = resolved(from, path);
    let folder = format!("{wanted}/");
    let texts = tree.files.iter().map(|file| &file.path);
    texts.chain(&tree.others).any(|path| *path == wanted || path.starts_with(&folder))
}

/// A relative path in a file, from the repository's root.
pub(crate) fn resolved(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    #[test]
    fn a_page_that_is_named_and_is_not_there_is_found() {
        let check = |text: &str| named(&of_files(&[("crates/a/src/b.rs", text), ("docs/how-to/mpi.md", "")])).len();
        assert_eq!(check("//! (docs/how-to/mpi.md), `docs/how-to/mpi.md`."), 0);
        assert_eq!(check("docs/mpi.md and docs/how-to/nccl.md"), 2);
        assert_eq!(check("https://example.org/docs/a.md, docs/images, format!(\"docs/{page}.md\")"), 0);
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let check =
            |text: &str| check(&of_files(&[("docs/method.md", text), ("README.md", ""), ("docs/a.md", "")])).len();
        assert_eq!(check("[a](a.md), [readme](../README.md), [folder](../docs/), [part](a.md#part), [here](#here)"), 0);
        assert_eq!(check("[web](https://example.org/x)"), 0);
        assert_eq!(check("[gone](b.md) and [up](../b.md)"), 2);
        assert_eq!(check("`[code](b.md)`\n```\n[code](b.md)\n```\n"), 0);
        assert_eq!(check("a `x` [gone](b.md)"), 1);
    }
}
