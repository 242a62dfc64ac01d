//! Each invariant of ARCHITECTURE.md has a row that says what checks it. That the file is there is a matter of links.

use super::Finding;
use super::tree::Tree;

const FILE: &str = "ARCHITECTURE.md";

/// Invariants without a row, and rows without an invariant.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().find(|file| file.path == FILE).map_or_else(Vec::new, |file| of_text(&file.text))
}

fn of_text(text: &str) -> Vec<Finding> {
    let Some(section) = text.split("\n## Invariants\n").nth(1) else {
        return vec![Finding::error(FILE, 0, "it has no section `Invariants`")];
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let stated: Vec<u32> = section.lines().filter_map(|line| number(line.split_once(". **")?.0)).collect();
    let row = |line: &str| -> Option<u32> {
        let (first, rest) = line.strip_prefix('|')?.split_once('|')?;
        number(first).filter(|_| rest.contains("]("))
    };
    let checked: Vec<u32> = section.lines().filter_map(row).collect();
    let unchecked = stated.iter().filter(|one| !checked.contains(one));
    let unstated = checked.iter().filter(|one| !stated.contains(one));
    let lacks = |one: &u32| Finding::error(FILE, 0, format!("invariant {one} has no row that says what checks it"));
    let strays =
        |one: &u32| Finding::error(FILE, 0, format!("a row says what checks invariant {one}, which is not stated"));
    unchecked.map(lacks).chain(unstated.map(strays)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invariant_has_what_checks_it() {
        let text =
            |rows: &str| format!("# A\n\n## Invariants\n\n1. **A.** B.\n2. **C.**\n\n{rows}\n## Next\n\n3. **D.**\n");
        let rows = |numbers: &[u32]| numbers.iter().map(|n| format!("| {n} | [a](b) |\n")).collect::<String>();
        assert_eq!(of_text(&text(&rows(&[1, 2]))), []);
        assert_eq!(of_text(&text(&rows(&[1]))).len(), 1);
        assert_eq!(of_text(&text(&rows(&[1, 2, 3]))).len(), 1);
        assert_eq!(of_text(&text("| 1 | soon |\n| 2 | [a](b) |\n")).len(), 1);
        assert_eq!(of_text("# A\n").len(), 1);
    }
}
