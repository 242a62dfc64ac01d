//! Fields of a case are read by typed functions: a benchmark's own by its declared struct, those that benchmarks share by the
//! functions of `record/src/shared_fields.rs`. A look-up by name gives nothing, and no error, where the name is misspelled.

use super::Finding;
use super::mask::product_code;
use super::tree::Tree;

const FUNCTIONS: [&str; 7] = ["text", "texts", "word", "whole", "number", "flag", "value"];
/// The only place for such look-ups.
const HERE: &str = "crates/record/src/shared_fields.rs";

/// Crates that know no benchmark: they take no field from the map of parameters either. Views and reports read lines of records,
/// whose benchmark may be unknown.
const BLIND: [&str; 6] =
    ["crates/comm/", "crates/control/", "crates/launch/", "crates/measure/", "crates/process/", "crates/runner/"];
/// The map of a case's fields.
const MAP: &str = "parameters.get(";
/// Metrics of a line: a `Key` of their declaration reads and writes them.
const METRICS: [&str; 3] = ["metrics.get(", ".metric(", "metrics.insert("];
/// The files of other tools' reports have the names that those tools give.
const LAYOUTS: &str = "crates/report/src/formats/layouts/";

/// Look-ups of a case's fields by a name in quotes.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.is_product() && file.path != HERE) {
        let code = product_code(&file.text);
        let after = |at: usize, word: &str| (&code[at + word.len()..], &file.text[at + word.len()..]);
        let functions = code.match_indices("case.").filter_map(|(at, word)| {
            let (code, text) = after(at, word);
            Some((at, looked_up(code, text)?))
        });
        let is_blind = BLIND.iter().any(|blind| file.path.starts_with(blind));
        let maps = code.match_indices(MAP).filter(|_| is_blind);
        let is_layout = file.path.starts_with(LAYOUTS);
        let metrics = METRICS.iter().flat_map(|word| code.match_indices(word)).filter(|_| !is_layout);
        let maps = maps.chain(metrics).filter_map(|(at, word)| Some((at, quoted(after(at, word).1)?)));
        for (at, name) in functions.chain(maps) {
            let line = 1 + code[..at].matches('\n').count();
            let what = format!(
                "`{name}` is looked up by its name: use a function of {HERE}, the declared struct, or the `Key` of a metric"
            );
            findings.push(Finding::error(&file.path, line, what));
        }
    }
    findings
}

/// The text in quotes that begins here.
fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split('"').next()
}

/// The name in quotes that a function of a case is called with; `text` is the source of the code, which has no names.
fn looked_up<'t>(code: &str, text: &'t str) -> Option<&'t str> {
    let function = code.split(|other: char| !other.is_alphanumeric() && other != '_').next()?;
    let rest = code.get(function.len()..).filter(|_| FUNCTIONS.contains(&function))?;
    // The type may be named: `word::<Mode>(`.
    let opened = rest.find('(').filter(|opened| *opened == 0 || rest.starts_with("::<"))?;
    quoted(text.get(function.len() + opened + 1..)?)
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        check(&of_files(&[(path, &format!("//! Doc.\nfn f() {{\n{line}\n}}\n"))])).len()
    }

    #[test]
    fn look_ups_by_name_are_found() {
        let map = "case.parameters.get(\"ranks\")";
        assert_eq!((found("crates/launch/src/job.rs", map), found("crates/report/src/run.rs", map)), (1, 0));
        for line in ["line.metrics.get(\"levels\")", "line.metric(\"gbs\")", "line.metrics.insert(\"gbs\".into(), v)"] {
            assert_eq!(found("crates/view/src/cell.rs", line), 1, "{line}");
            assert_eq!(found("crates/report/src/formats/layouts/candle.rs", line), 0, "{line}");
        }
        for line in ["case.text(\"backend\")", "run.case.word::<Mode>(\"mode\")", "self.case.flag(\"quick\")", map] {
            assert_eq!(found("crates/runner/src/run.rs", line), 1, "{line}");
        }
    }

    #[test]
    fn typed_reads_tests_and_other_things_are_left_alone() {
        for line in [
            "case.backend()",
            "case.text(field.name)",
            "case.context(\"a\")",
            "// case.text(\"a\")",
            "line.text(\"a\")",
        ] {
            assert_eq!(found("crates/runner/src/run.rs", line), 0, "{line}");
        }
        assert_eq!(found(HERE, "case.text(\"backend\")"), 0);
        assert_eq!(found("crates/runner/src/run.rs", "#[cfg(test)]\nmod tests { fn a() { case.text(\"a\"); } }"), 0);
    }
}
