//! Nothing above `comm` names a backend: what it needs of one is asked of `comm::Backend`. Words of other tools and of PyTorch, and
//! tables of libraries, are exceptions, because their words stand for backends here.

use super::Finding;
use super::mask::product_code;
use super::tree::Tree;

/// Crates that know backends by `comm::Backend`.
const ABOVE: [&str; 15] = [
    "contract",
    "collective",
    "primitive",
    "training",
    "hardware",
    "benchmarks",
    "measure",
    "runner",
    "diagnose",
    "report",
    "view",
    "plans",
    "job",
    "rankmark",
    "launch",
];

/// Where a name may stand, and why.
const ALLOWED: [(&str, &str); 11] = [
    ("crates/contract/src/fields.rs", "the default, and PyTorch's backends"),
    ("crates/contract/src/runtime.rs", "PyTorch's backends, and the default of each runtime"),
    ("crates/hardware/src/torch.rs", "PyTorch's backends"),
    ("crates/report/src/formats/", "files of other tools, in their words"),
    ("crates/report/src/words/peers.rs", "the comparison of shared memory with other engines"),
    ("crates/rankmark/src/habits", "words of other tools"),
    ("crates/plans/src/known_answers.rs", "its known answer is by shared memory, and PyTorch's backends"),
    ("crates/rankmark/src/commands/gen_job.rs", "tables of launchers and job files"),
    ("crates/plans/src/job.rs", "tables of launchers and job files"),
    ("crates/launch/src/job/", "tables of launchers and job files"),
    ("crates/launch/src/starter.rs", "tables of launchers"),
];

const NAMES: [&str; 5] = ["shm", "mpi", "nccl", "sim", "reference"];

/// Literals that name a backend.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let is_above = |path: &str| ABOVE.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
    let is_allowed = |path: &str| ALLOWED.iter().any(|(place, _)| path.starts_with(place));
    let files = tree.rust().filter(|file| file.is_product() && is_above(&file.path) && !is_allowed(&file.path));
    files.flat_map(|file| of_file(&file.path, &file.text)).collect()
}

fn of_file(path: &str, text: &str) -> Vec<Finding> {
    let code = product_code(text);
    let lines = text.lines().zip(code.lines()).enumerate();
    // Comments and tests are blank there.
    let lines = lines.filter(|(_, (_, code))| !code.trim().is_empty());
    let named = |line: &str| NAMES.iter().find(|name| line.contains(&format!("\"{name}\"")));
    let found = lines.filter_map(|(number, (line, _))| Some((number, named(line)?)));
    let what = |name| format!("`{name}` names a backend: ask `comm::Backend` what is needed of it (invariant 20)");
    found.map(|(number, name)| Finding::error(path, number + 1, what(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        check(&of_files(&[(path, &format!("//! Doc.\nfn f() {{\n{line}\n}}\n"))])).len()
    }

    #[test]
    fn backends_are_named_by_no_one_above_them() {
        let line = "if fields.backend.as_deref() == Some(\"nccl\") {}";
        assert_eq!(found("crates/collective/src/about.rs", line), 1);
        assert_eq!(found("crates/comm/src/nccl.rs", line), 0);
        assert_eq!(found("crates/contract/src/runtime.rs", line), 0);
        for line in ["// shm: \"shm\"", "let a = \"simple\";"] {
            assert_eq!(found("crates/collective/src/about.rs", line), 0, "{line}");
        }
    }
}
