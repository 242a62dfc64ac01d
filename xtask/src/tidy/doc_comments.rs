//! Doc comments that stand alone: rustdoc shows each item by itself, and "The same" says nothing there.

use super::Finding;
use super::tree::{File, Tree};

/// Beginnings that refer to an item which rustdoc shows elsewhere.
const REFERRING: [&str; 4] = ["The same", "As above", "Its ", "Same as"];

/// Doc comments whose first words refer to another item.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|file| !file.path.contains("/vendor/")).flat_map(of_file).collect()
}

fn of_file(file: &File) -> Vec<Finding> {
    let (mut findings, mut before) = (Vec::new(), None);
    for (number, line) in file.text.lines().enumerate() {
        let found = doc_line(line);
        let marker = found.map(|(marker, _)| marker);
        if let Some((_, text)) = found.filter(|_| marker != before)
            && let Some(words) = REFERRING.iter().find(|words| text.starts_with(**words))
        {
            let words = words.trim();
            let what = format!("a doc comment begins with `{words}`: name its subject, because rustdoc shows it alone");
            findings.push(Finding::error(&file.path, number + 1, what));
        }
        before = marker;
    }
    findings
}

/// The marker and the text of a line of a doc comment.
fn doc_line(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let (marker, text) = ["///", "//!"].into_iter().find_map(|marker| Some((marker, line.strip_prefix(marker)?)))?;
    (!text.starts_with('/')).then(|| (marker, text.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&of_files(&[("crates/comm/src/a.rs", text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn comments_that_refer_to_another_item_are_found() {
        for words in REFERRING {
            assert_eq!(lines(&format!("    /// {words} name.\n    pub name: String,\n")), [1], "{words}");
            assert_eq!(lines(&format!("//! {words} name.\n\nuse x;\n")), [1], "{words}");
            assert_eq!(lines(&format!("//! A module.\n/// {words} name.\nfn f() {{}}\n")), [2], "{words}");
        }
        assert_eq!(lines("/// A name.\na: u8,\n/// Its unit.\nb: u8,\n///Its unit.\nc: u8,\n"), [3, 5]);
    }

    #[test]
    fn other_lines_are_not_found() {
        for text in [
            "/// Name of the metric.\n/// Its unit is below.\npub name: String,\n",
            "/// A call.\n///\n/// # Errors\n/// As above.\nfn f() {}\n",
            "// Its name.\nlet name = 0;\n",
            "//// Its name.\n",
            "let text = \"/// Its name.\";\n",
            "/// It is the same. Itself.\nfn f() {}\n",
        ] {
            assert_eq!(lines(text), [0; 0], "{text}");
        }
    }
}
