//! `cargo xtask tidy`: the rules of this repository that no compiler checks. One module and one line a check.

mod anchors;
mod backend_names;
mod benchmark_names;
mod circles;
mod confined;
mod doc_comments;
mod edges;
mod function_names;
mod glossary;
mod invariants;
pub(crate) mod links;
mod lookups;
mod markup;
mod mask;
mod modules;
mod paths;
mod published;
mod run_ends;
mod text;
mod tree;
mod type_names;

use std::path::Path;

use tree::Tree;

/// Something that a rule does not allow, or (a warning) only frowns upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// From the repository's root.
    path: String,
    /// From 1; 0 is the file as a whole.
    line: usize,
    what: String,
    warning: bool,
}

impl Finding {
    fn error(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), warning: false }
    }

    fn warning(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { warning: true, ..Self::error(path, line, what) }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        let line = if self.line == 0 { String::new() } else { format!(":{}", self.line) };
        write!(f, "{kind}: {}{line}: {}", self.path, self.what)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

/// Every check, in the order in which findings are shown.
static CHECKS: &[(&str, Check)] = &[
    ("crates depend downwards only", edges::check),
    ("crates can be published", published::check),
    ("few files of a crate use each other in circles", circles::check),
    ("modules say what belongs in them", modules::documented),
    ("files are small", modules::small),
    ("names say what a module is", modules::named),
    ("few types have the same name", type_names::check),
    ("names of free functions say what they do", function_names::check),
    ("doc comments stand alone", doc_comments::check),
    ("unsafe, starting processes and writing files stay in their crates", confined::check),
    ("fields of a case are read by typed functions", lookups::check),
    ("tags of reports are written by types that escape", markup::check),
    ("how a run ended is matched and not compared", run_ends::check),
    ("nothing above benchmarks names one", benchmark_names::check),
    ("nothing above comm names a backend", backend_names::check),
    ("each invariant has a check", invariants::check),
    ("nothing is left unfinished", text::unfinished),
    ("no path of one machine", text::machine_paths),
    ("no word that is not about the project", text::words),
    ("no word that the glossary refuses", glossary::check),
    ("links in Markdown lead somewhere", links::check),
    ("pages that code names are there", links::named),
    ("links to a part of a page lead to a heading", anchors::check),
];

/// Runs every check and prints what it finds. True when nothing is forbidden; warnings are only printed.
pub(crate) fn run(root: &Path) -> bool {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(problem) => {
            println!("error: tidy cannot read the repository\ncause: {problem}");
            return false;
        }
    };
    let mut errors = 0;
    for (name, check) in CHECKS {
        let findings = check(&tree);
        if !findings.is_empty() {
            println!("{name}:");
        }
        for finding in &findings {
            println!("  {finding}");
        }
        errors += findings.iter().filter(|finding| !finding.warning).count();
    }
    println!("tidy: {} files, {} checks, {errors} errors", tree.files.len(), CHECKS.len());
    errors == 0
}
