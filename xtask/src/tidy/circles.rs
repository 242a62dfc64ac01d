//! Circles of modules: files of one crate that use each other, directly or by way of others, cannot be understood, tested
//! or moved one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::mask::product_code;
use super::paths::{Named, named};
use super::tree::{File, Tree};

/// A type and what makes it, or a table and an entry, may know each other; more files are a knot.
const MOST: usize = 3;

/// A larger circle: its first file, how many files it has, and the reason. The number is exact, so that it only shrinks.
type Exception = (&'static str, usize, &'static str);

static EXCEPTIONS: &[Exception] = &[
    ("crates/comm/src/backend.rs", 4, "a backend may compute its times: what it must do names a call and its options"),
    ("crates/engine/src/kernels/dense.rs", 15, "kernels call each other by way of the file that chooses between them"),
    ("crates/engine/src/kernels/rows.rs", 9, "the file that chooses a kernel also has the size of their pieces"),
    ("crates/engine/src/kernels/spatial.rs", 5, "the file that chooses a kernel also has what they share"),
];

/// A module of a crate, by its path from the root, which is empty.
type Module = Vec<String>;

/// Larger circles without an exception, and exceptions that nothing needs.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    judge(tree, EXCEPTIONS)
}

fn judge(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in tree.rust().filter(|file| file.is_product()) {
        if let Some(name) = file.package() {
            crates.entry(name).or_default().insert(module(&file.path), file);
        }
    }
    let (mut findings, mut needed) = (Vec::new(), BTreeSet::new());
    for files in crates.values() {
        for circle in circles(&edges(files)).into_iter().filter(|circle| circle.len() > MOST) {
            let paths: Vec<&str> = circle.iter().map(|module| files[module].path.as_str()).collect();
            let most = exceptions.iter().find(|(first, ..)| *first == paths[0]).map_or(MOST, |(_, number, _)| *number);
            needed.insert(paths[0]);
            if paths.len() == most {
                continue;
            }
            let rest = paths[1..].join(", ");
            let allowed = if most == MOST { "at most" } else { "its exception says" };
            let what =
                format!("one of {} files that use each other in a circle ({allowed} {most}): {rest}", paths.len());
            findings.push(Finding::error(paths[0], 0, what));
        }
    }
    let unneeded = exceptions.iter().filter(|(first, ..)| !needed.contains(first));
    findings.extend(unneeded.map(|(first, ..)| {
        let what = format!("needs no exception: no circle of more than {MOST} files (xtask/src/tidy/circles.rs)");
        Finding::error(first, 0, what)
    }));
    findings
}

/// `[a, b]` for `crates/x/src/a/b.rs` and `crates/x/src/a/b/mod.rs`.
fn module(path: &str) -> Module {
    let inside = path.split('/').skip(3).map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let mut module: Module = inside.map(str::to_owned).collect();
    if module.last().is_some_and(|last| matches!(last.as_str(), "lib" | "main" | "mod")) {
        module.pop();
    }
    module
}

/// What the files of one crate name.
struct Names {
    paths: BTreeMap<Module, Vec<Named>>,
    /// By module, what its `use` brings in.
    brought_in: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

/// Which modules each module uses, other than itself. What a parent declares (`mod`) or passes on (`pub use`) is not a use.
fn edges(files: &BTreeMap<Module, &File>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut names = Names { paths: BTreeMap::new(), brought_in: BTreeMap::new() };
    for (module, file) in files {
        let paths = named(&product_code(&file.text));
        let brought_in = paths.iter().filter_map(|path| Some((path.brought_in_as.clone()?, path.segments.clone())));
        names.brought_in.insert(module.clone(), brought_in.collect());
        names.paths.insert(module.clone(), paths);
    }
    files.keys().map(|module| (module.clone(), names.used_by(module))).collect()
}

/// Names that are passed on from module to module more often are given up: they go round.
const DEEPEST: usize = 8;

impl Names {
    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        // A module that uses what is passed on uses where it comes from.
        let paths = self.paths[module].iter().filter(|path| !path.passed_on);
        let ends = paths.filter_map(|path| self.end(module, &path.segments, !path.in_use, DEEPEST));
        ends.filter(|end| end != module).collect()
    }

    /// The module in which a path that stands in `from` ends; None for a path into another crate, or to a name of its own.
    /// `to_item`: its last word is not a module, though one may have the same name (a function, most likely).
    fn end(&self, from: &Module, path: &[String], to_item: bool, depth: usize) -> Option<Module> {
        let (mut at, mut rest) = self.beginning(from, path)?;
        while let Some((word, behind)) = rest.split_first() {
            if let Some(below) = self.child(&at, word).filter(|_| !(to_item && behind.is_empty())) {
                (at, rest) = (below, behind);
                continue;
            }
            let source = self.brought_in.get(&at).and_then(|names| names.get(word));
            let Some(source) = source.filter(|_| depth > 0) else { break };
            let source: Vec<String> = source.iter().chain(behind).cloned().collect();
            // From another crate it belongs to where it was found.
            return Some(self.end(&at, &source, to_item, depth - 1).unwrap_or(at));
        }
        self.paths.contains_key(&at).then_some(at)
    }

    /// The module in which a path begins, and the rest of it.
    fn beginning<'a>(&self, from: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let (mut at, mut rest) = (from.clone(), path);
        match path.first()?.as_str() {
            "crate" => return Some((Module::new(), &path[1..])),
            "super" | "self" => {}
            child => return self.child(from, child).map(|_| (at, rest)),
        }
        while let Some((word, behind)) = rest.split_first() {
            match word.as_str() {
                "super" => at.pop().map(drop)?,
                "self" => {}
                _ => break,
            }
            rest = behind;
        }
        Some((at, rest))
    }

    fn child(&self, of: &Module, name: &str) -> Option<Module> {
        let child: Module = of.iter().map(String::as_str).chain([name]).map(str::to_owned).collect();
        self.paths.contains_key(&child).then_some(child)
    }
}

/// Modules that reach each other, as far as they are several.
fn circles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = edges.keys().map(|from| (from, reach(edges, from))).collect();
    let mut found: Vec<BTreeSet<Module>> = Vec::new();
    for (from, targets) in &reached {
        let back = |to: &&&Module| reached.get(**to).is_some_and(|reached| reached.contains(*from));
        let circle: BTreeSet<Module> = targets.iter().filter(back).map(|module| (*module).clone()).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

fn reach<'a>(edges: &'a BTreeMap<Module, BTreeSet<Module>>, from: &Module) -> BTreeSet<&'a Module> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for to in edges.get(next).into_iter().flatten() {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::of_files;
    use super::*;

    /// Four files of one crate, `a`, `b`, `c` and `d`, each with this text.
    fn four(texts: [&str; 4]) -> Tree {
        let paths = ["a", "b", "c", "d"].map(|name| format!("crates/x/src/{name}.rs"));
        let files: Vec<(&str, &str)> = paths.iter().map(String::as_str).zip(texts).collect();
        let mut tree = of_files(&files);
        tree.files.extend(of_files(&[("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;")]).files);
        tree
    }

    fn found(tree: &Tree) -> Vec<String> {
        judge(tree, &[]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_four_files_is_found_however_it_is_written() {
        let texts =
            ["use crate::b::B;", "fn f(c: super::c::C) {}", "use super::{d, d::D};", "fn g() { crate::a::f() }"];
        let expected = "error: crates/x/src/a.rs: one of 4 files that use each other in a circle (at most 3): \
                        crates/x/src/b.rs, crates/x/src/c.rs, crates/x/src/d.rs";
        assert_eq!(found(&four(texts)), [expected]);
    }

    #[test]
    fn three_files_lines_and_tests_are_no_knot() {
        let open = ["use crate::b::B;", "use crate::c::C;", "use crate::d::D;", ""];
        let small = ["use crate::b::B;", "use crate::c::C;", "use crate::a::A;", "use crate::a::A;"];
        let tests =
            ["use crate::b::B;", "use crate::c::C;", "use crate::d::D;", "#[cfg(test)] mod tests { use crate::a::A; }"];
        for texts in [open, small, tests] {
            assert_eq!(found(&four(texts)), Vec::<String>::new(), "{texts:?}");
        }
    }

    /// `crates/x/src/a`: a parent with this text, and three children, each with this text.
    fn parent_and_children(parent: &'static str, child: &'static str) -> Tree {
        of_files(&[
            ("crates/x/src/a/mod.rs", parent),
            ("crates/x/src/a/b.rs", child),
            ("crates/x/src/a/c.rs", child),
            ("crates/x/src/a/d.rs", child),
        ])
    }

    #[test]
    fn a_parent_and_its_children_are_a_circle() {
        let parents = [
            "mod b; mod c; mod d; use b::B; use self::c::C; use crate::a::d::D; pub struct A;",
            "mod b; mod c; mod d; pub struct A; fn f() { b::f(); self::c::f(); super::a::d::f() }",
        ];
        for parent in parents {
            for child in ["use super::A;", "fn f() -> crate::a::A {}"] {
                assert_eq!(found(&parent_and_children(parent, child)).len(), 1, "{parent} {child}");
            }
        }
    }

    #[test]
    fn a_parent_that_declares_and_passes_on_uses_nothing() {
        let passing = "pub mod b; mod c; mod d; pub use b::B; pub(crate) use c::C; pub use d::*; pub struct A;";
        let alone = "mod b; mod c; mod d; use b::B; use c::C; fn f() { d::f() }";
        for (parent, child) in [(passing, "use super::A;"), (alone, "use std::fmt;")] {
            assert_eq!(found(&parent_and_children(parent, child)), Vec::<String>::new(), "{parent} {child}");
        }
    }

    #[test]
    fn a_module_inside_a_file_uses_the_file() {
        let child = "mod x86 { use super::A; fn f() { super::g() } } pub struct A; fn g() {}";
        let tree = parent_and_children("mod b; mod c; mod d; use b::B; use c::C; use d::D; pub struct A;", child);
        assert_eq!(found(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_passed_on_leads_to_where_it_comes_from() {
        let files = |last: &'static str| {
            of_files(&[
                ("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d; pub use b::e::E;"),
                ("crates/x/src/a.rs", "use crate::E;"),
                ("crates/x/src/b.rs", "mod e; pub use e::E as F;"),
                ("crates/x/src/b/e.rs", "use crate::c::C;"),
                ("crates/x/src/c.rs", "use crate::d::D;"),
                ("crates/x/src/d.rs", last),
            ])
        };
        assert_eq!(found(&files("use crate::a::A;")).len(), 1, "a, b::e, c, d");
        assert_eq!(found(&files("use crate::b::F;")), Vec::<String>::new(), "b::e, c, d");
    }

    #[test]
    fn a_function_is_not_the_module_of_its_name() {
        let files = |call: &'static str| {
            of_files(&[
                ("crates/x/src/lib.rs", "mod a; mod b; mod c; mod d;"),
                ("crates/x/src/a.rs", call),
                ("crates/x/src/b.rs", "mod run; pub fn run() {}"),
                ("crates/x/src/b/run.rs", "use crate::c::C;"),
                ("crates/x/src/c.rs", "use crate::d::D;"),
                ("crates/x/src/d.rs", "use crate::a::A;"),
            ])
        };
        assert_eq!(found(&files("fn f() { crate::b::run() }")), Vec::<String>::new());
        assert_eq!(found(&files("fn f() { crate::b::run::run() }")).len(), 1);
    }

    #[test]
    fn exceptions_are_exact() {
        let knot = four(["use crate::b::B;", "use crate::c::C;", "use crate::d::D;", "use crate::a::A;"]);
        let [a, b] = ["crates/x/src/a.rs", "crates/y/src/b.rs"];
        assert_eq!(judge(&knot, &[(a, 4, "why")]), []);
        for other in [3, 5] {
            assert_eq!(judge(&knot, &[(a, other, "why")]).len(), 1, "{other}");
        }
        let both = judge(&knot, &[(a, 4, "why"), (b, 4, "gone")]);
        assert_eq!(both.len(), 1);
        assert!(both[0].to_string().starts_with("error: crates/y/src/b.rs: needs no exception"), "{both:?}");
        let untied = four(["", "", "", ""]);
        assert_eq!(judge(&untied, &[(a, 4, "why")]).len(), 1);
    }
}
