//! The promises of the five documents that describe other suites: one test each, named in docs/appendix/promises.md. Sizes are reduced
//! to what any machine holds.

mod allreduce_study;
mod candle;
mod ddlb;
mod distributed_training;
mod torchscale;
mod word_for_word;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::place::Place;

/// A file of another tool, as its documentation has it.
fn sample(path: &str) -> String {
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../import/tests/samples", path].iter().collect();
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A place with such a file in it.
fn with(name: &str, path: &str) -> Place {
    let place = Place::new();
    place.write(name, sample(path));
    place
}

/// Options that make the training of a transformer small.
const TINY: &str = "--set layers=4 --set width=16 --set heads=2 --set vocabulary=64 --set sequence=8 --set batch=4 --steps 2 --trials 1";

/// Share of the cases of a record that are ok; every other one has its reason.
fn ok_share(place: &Place, record: &str) -> f64 {
    let cases = place.cases(record);
    let ok = cases.iter().filter(|case| case["status"] == "ok").count();
    for case in cases.iter().filter(|case| case["status"] != "ok") {
        assert_eq!(case["status"], "skipped", "{case}");
        assert!(!crate::place::reason(case).is_empty());
    }
    ok as f64 / cases.len() as f64
}

/// A row of docs/appendix/promises.md.
struct Promise<'t> {
    text: &'t str,
    command: &'t str,
    /// Tests of the promise, what it waits for, or why nothing is done for it.
    kept: &'t str,
}

fn promises(table: &str) -> Vec<Promise<'_>> {
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [text, command, kept] = cells[..] else { panic!("promise, command, test: {row}") };
        Promise { text, command, kept }
    })
    .collect()
}

/// What stands between back-ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the repository tests.
struct Tested {
    /// `hosts::NAME` and `candle::NAME` in this folder and above it, `CRATE::FILE::NAME` in other crates,
    /// `gpu-check::NAME` of `cargo xtask gpu-check`.
    names: BTreeSet<String>,
    /// Texts of tests of the binary and of `gpu-check`. Commands are among them.
    texts: Vec<String>,
}

impl Tested {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut tested = Self { names: BTreeSet::new(), texts: Vec::new() };
        for folder in fs::read_dir(root.join("crates")).unwrap() {
            let folder = folder.unwrap();
            let of = folder.file_name().into_string().unwrap();
            for part in ["src", "tests"] {
                tested.add(&of, &folder.path().join(part));
            }
        }
        let files = ["checks.rs", "checks/pytorch.rs"].map(|file| root.join("xtask/src/gpu_check").join(file));
        let checks = files.map(|file| fs::read_to_string(file).unwrap()).concat();
        let begun = checks.split("    check(\n").skip(1).filter_map(|check| check.split('"').nth(1));
        tested.names.extend(begun.map(|name| format!("gpu-check::{name}")));
        tested.texts.extend(checks.split('"').skip(1).step_by(2).map(str::to_owned));
        tested
    }

    /// All Rust files below a folder of a crate.
    fn add(&mut self, of: &str, folder: &Path) {
        let Ok(files) = fs::read_dir(folder) else { return };
        for file in files {
            let path = file.unwrap().path();
            if path.is_dir() {
                self.add(of, &path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.add_file(of, &path);
            }
        }
    }

    fn add_file(&mut self, of: &str, path: &Path) {
        let text = fs::read_to_string(path).unwrap();
        let file = path.file_stem().unwrap().to_str().unwrap();
        let own = of == "rankmark" && path.components().any(|part| part.as_os_str() == "all");
        let module = if own { file.to_owned() } else { format!("{of}::{file}") };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[test]" && pair[1].starts_with("fn ")) {
            let name = pair[1].trim_start_matches("fn ").split('(').next().unwrap();
            self.names.insert(format!("{module}::{name}"));
        }
        // This file's own commands are examples.
        if own && !path.ends_with("promises/mod.rs") {
            self.texts.extend(text.split('"').skip(1).map(str::to_owned));
        }
    }

    /// The text of a test that has this command: the subcommand, and the options that choose what runs.
    fn runs(&self, command: &str) -> Option<&str> {
        let wanted = deciding_words(command)?;
        let runs = |text: &&String| {
            let found: Vec<&str> = text.split_whitespace().collect();
            let at = found.iter().position(|word| *word == "rankmark").map_or(0, |at| at + 1);
            let rest = found.get(at..).unwrap_or_default();
            rest.first() == wanted.first()
                && wanted[1..].chunks(2).all(|option| rest.windows(option.len()).any(|words| words == option))
        };
        self.texts.iter().find(runs).map(String::as_str)
    }
}

/// Options that say on what a command runs, or by what. Sizes and counts are not among them.
const DECIDING: [&str; 7] = ["--backend", "--device", "--format", "--hardware", "--layout", "--runtime", "--tool"];

/// The subcommand of `rankmark ...`, and each deciding option with its value.
fn deciding_words(command: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = command.split_whitespace().skip_while(|word| *word != "rankmark").skip(1).collect();
    let mut found = vec![*words.first()?];
    for pair in words.windows(2).filter(|pair| DECIDING.contains(&pair[0])) {
        found.extend(pair);
    }
    Some(found)
}

/// What rows of the table say that is not so.
fn contradictions(table: &str, tested: &Tested) -> Vec<String> {
    let mut found = Vec::new();
    for Promise { text, command, kept } in promises(table) {
        let named: Vec<&str> = quoted(kept).filter(|name| name.contains("::")).collect();
        if kept.starts_with("not done: ") {
            continue;
        }
        for name in named.iter().filter(|name| !tested.names.contains(**name)) {
            found.push(format!("{text}: there is no test `{name}`"));
        }
        if !kept.contains("waits for ") {
            if named.is_empty() {
                found.push(format!("{text}: names no test"));
            }
            continue;
        }
        // Tests may be named without the file that they are in.
        let is_test = |word: &&str| tested.names.iter().any(|name| name.rsplit("::").next() == Some(word));
        if let Some(name) = named.first().copied().or_else(|| quoted(kept).find(is_test)) {
            found.push(format!("{text}: waits for something, and names the test `{name}`"));
        }
        let commands: Vec<&str> = quoted(command).filter(|part| part.starts_with("rankmark ")).collect();
        if commands.is_empty() {
            found.push(format!("{text}: waits for something, and has no command to look for in tests"));
        }
        for part in commands {
            if let Some(run) = tested.runs(part) {
                found.push(format!("{text}: waits for something, and a test runs `{run}`"));
            }
        }
    }
    found
}

fn table() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/appendix/promises.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn what_the_table_of_promises_says_of_tests_is_so() {
    let found = contradictions(&table(), &Tested::read());
    assert!(found.is_empty(), "docs/appendix/promises.md:\n{}", found.join("\n"));
}

#[test]
fn the_table_of_promises_names_every_test() {
    let table = table();
    let named: BTreeSet<&str> = promises(&table).iter().flat_map(|promise| quoted(promise.kept)).collect();
    let suites = ["allreduce_study::", "candle::", "ddlb::", "distributed_training::", "torchscale::"];
    let names = Tested::read().names;
    let tests: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| suites.iter().any(|suite| name.starts_with(suite))).collect();
    assert!(tests.len() > 20, "{tests:?}");
    let missing: Vec<&&str> = tests.iter().filter(|name| !named.contains(**name)).collect();
    assert!(missing.is_empty(), "tests that docs/appendix/promises.md lacks: {missing:?}");
}

#[test]
fn promises_that_contradict_tests_are_found() {
    let tested = Tested {
        names: BTreeSet::from(["candle::trains".to_owned(), "gpu-check::comm".to_owned()]),
        texts: vec!["rankmark comm all_reduce --device cuda --ranks 1".to_owned(), "train --quick".to_owned()],
    };
    let says = |command: &str, kept: &str| contradictions(&format!("| it | {command} | {kept} |"), &tested);
    for (command, kept) in [
        ("`rankmark train`", "`candle::trains`; not tested: several GPUs"),
        ("-", "`gpu-check::comm`"),
        ("-", "not done: without a description"),
        ("`rankmark comm --device metal`", "waits for Metal"),
        ("`rankmark profile`", "waits for a profiler"),
    ] {
        assert_eq!(says(command, kept), [""; 0], "{kept}");
    }
    for (command, kept, finding) in [
        ("`rankmark train`", "`candle::trained`", "there is no test `candle::trained`"),
        ("`rankmark train`", "some test", "names no test"),
        ("`rankmark merge A B`", "waits for GPUs: `trains` checks a part", "names the test `trains`"),
        ("`rankmark merge A B`", "waits for GPUs: `candle::trains`", "names the test `candle::trains`"),
        ("`rankmark comm --device cuda -b 8`", "waits for GPUs", "a test runs `rankmark comm all_reduce"),
        ("`rankmark train --ranks 8`", "waits for GPUs", "a test runs `train --quick`"),
        ("sensors", "waits for GPUs", "no command"),
    ] {
        let found = says(command, kept);
        assert!(found.len() == 1 && found[0].contains(finding), "{kept}: {found:?}");
    }
}
