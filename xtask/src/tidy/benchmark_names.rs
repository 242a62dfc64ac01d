//! Nothing above `benchmarks` names a benchmark: what it needs of one is declared. Translations of other tools' words are an
//! exception, because their words stand for benchmarks here.

use super::Finding;
use super::mask::product_code;
use super::tree::Tree;

/// Crates that know benchmarks by their declarations.
const ABOVE: [&str; 9] = ["measure", "runner", "view", "report", "diagnose", "launch", "plans", "job", "rankmark"];

/// Where a name may stand, and why.
const ALLOWED: [(&str, &str); 5] = [
    ("crates/report/src/formats/layouts/", "files of other tools, in their words"),
    ("crates/plans/src/only.rs", "words of other suites for a benchmark"),
    ("crates/plans/src/presets.rs", "names of presets"),
    ("crates/plans/src/known_answers.rs", "the known answer of each backend is an all_reduce"),
    ("crates/launch/src/pytorch.rs", "modules of the Python package"),
];

/// Names that mean nothing else, and names that are also a resource or a machine: these count next to `benchmark`.
const OWN: [&str; 4] = ["collective", "primitive", "training", "startup"];
const SHARED: [&str; 3] = ["memory", "hardware", "interference"];

/// Literals that name a benchmark.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let is_above = |path: &str| ABOVE.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
    let is_allowed = |path: &str| ALLOWED.iter().any(|(place, _)| path.starts_with(place));
    let files = tree.rust().filter(|file| file.is_product() && is_above(&file.path) && !is_allowed(&file.path));
    files.flat_map(|file| of_file(&file.path, &file.text)).collect()
}

fn of_file(path: &str, text: &str) -> Vec<Finding> {
    let code = product_code(text);
    let mut found = Vec::new();
    for (number, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        // Comments and tests are blank there.
        if code.trim().is_empty() {
            continue;
        }
        let named = |name: &&str| line.contains(&format!("\"{name}\""));
        let own = OWN.iter().find(|name| named(name));
        let shared = SHARED.iter().find(|name| named(name) && code.contains("benchmark"));
        if let Some(name) = own.or(shared) {
            let what =
                format!("`{name}` names a benchmark: declare in the benchmark what is needed of it (invariant 19)");
            found.push(Finding::error(path, number + 1, what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        check(&of_files(&[(path, &format!("//! Doc.\nfn f() {{\n{line}\n}}\n"))])).len()
    }

    #[test]
    fn benchmarks_are_named_by_no_one_above_them() {
        for line in
            ["if case.benchmark == \"training\" {}", "benchmark(\"collective\");", "case.benchmark == \"memory\";"]
        {
            assert_eq!(found("crates/report/src/tables.rs", line), 1, "{line}");
            assert_eq!(found("crates/report/src/formats/layouts/candle.rs", line), 0, "{line}");
            assert_eq!(found("crates/training/src/about.rs", line), 0, "{line}");
        }
        for line in ["case.metrics.get(\"memory\");", "// case.benchmark == \"training\"", "let a = \"trainings\";"] {
            assert_eq!(found("crates/report/src/tables.rs", line), 0, "{line}");
        }
    }
}
