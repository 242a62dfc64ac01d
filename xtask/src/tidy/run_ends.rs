//! How a run ended is matched, with every way to end: a comparison with one of them hides a way that is added later.

use super::Finding;
use super::mask::product_code;
use super::tree::Tree;

const NAME: &str = "RunEnd::";

/// Comparisons and patterns that look at one way to end.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.is_product()) {
        let code = product_code(&file.text);
        for (number, line) in code.lines().enumerate().filter(|(_, line)| line.contains(NAME)) {
            let path = |text: &str| text.trim_end().trim_end_matches("record::").trim_end().to_owned();
            let is_compared = line.match_indices(NAME).any(|(at, _)| {
                let before = path(&line[..at]);
                let after = line[at + NAME.len()..].trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
                ["==", "!="].iter().any(|sign| before.ends_with(sign) || after.trim_start().starts_with(sign))
            });
            if is_compared || ["matches!(", "if let ", "while let "].iter().any(|word| line.contains(word)) {
                let what = "how a run ended is looked at one way: match on all of `RunEnd`";
                findings.push(Finding::error(&file.path, number + 1, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    #[test]
    fn one_way_alone_is_found() {
        let found = |line: &str| {
            let file = format!("//! Doc.\nfn f() {{\n{line}\n}}\n");
            check(&of_files(&[("crates/report/src/run.rs", &file)])).len()
        };
        for line in [
            "if end == RunEnd::Killed {}",
            "if record.end != record::RunEnd::Ended {}",
            "if RunEnd::Killed == end {}",
            "matches!(end, RunEnd::Killed | RunEnd::Running)",
            "if let RunEnd::Interrupted(by) = end {}",
        ] {
            assert_eq!(found(line), 1, "{line}");
        }
        for line in
            ["RunEnd::Killed => 0,", "let end = RunEnd::Ended;", "x == 1; let end = if y { RunEnd::Ended } else { e };"]
        {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
