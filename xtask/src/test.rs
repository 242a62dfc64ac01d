//! `cargo xtask test`: the steps, in order.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::ledger::{Ending, Ledger};
use crate::{browser, counts, deny, install, packages, ptx, python, scale, site, tidy, times, wheels};

/// Asks tests for their heavy parts.
const FULL: &str = "RANKMARK_TEST_FULL";
/// The file to which tests append what they leave out, a line each: `skipped: NAME: reason` (see CONTRIBUTING.md).
const SKIP_LOG: &str = "RANKMARK_SKIP_LOG";

/// How much is tested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// What a change must pass, in minutes, with what is installed.
    #[default]
    Change,
    /// What a change must pass on a machine that may install gigabytes: PyTorch and more MPI libraries.
    Gate,
    /// Everything: what is heavy, too.
    Full,
}

/// What the command line asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    level: Level,
    no_install: bool,
    /// Whether the crates that use the packages are tested, too.
    dependents: bool,
    /// Crates, by the names of their folders. Empty: the whole workspace.
    packages: Vec<String>,
    /// Parts of names of tests; empty: all.
    names: Vec<String>,
}

impl Options {
    /// Reads the words after `test`.
    ///
    /// # Errors
    /// An unknown option, a `--package` without a name, or names of tests without a package.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--full" => options.level = Level::Full,
                "--gate" => options.level = options.level.max(Level::Gate),
                "--no-install" => options.no_install = true,
                "--dependents" => options.dependents = true,
                "--package" | "-p" => {
                    let name = words.next().ok_or("`--package` needs a name")?;
                    options.packages.push((*name).to_owned());
                }
                other if other.starts_with('-') => return Err(format!("unknown option `{other}`")),
                name => options.names.push(name.to_owned()),
            }
        }
        if options.packages.is_empty() && (options.dependents || !options.names.is_empty()) {
            return Err("`--dependents` and names of tests need `--package NAME`".to_owned());
        }
        Ok(options)
    }

    /// Whether there is a library to test the documentation of: cargo refuses to look for doc tests where there is none.
    fn has_library(&self, root: &Path) -> bool {
        let library = |name: &String| root.join("crates").join(name).join("src/lib.rs").is_file();
        self.packages.is_empty() || self.packages.iter().any(library)
    }

    fn selection(&self) -> Vec<String> {
        if self.packages.is_empty() {
            return vec!["--workspace".to_owned()];
        }
        self.packages.iter().flat_map(|name| ["--package".to_owned(), packages::package_name(name)]).collect()
    }

    /// Whether a step that is about one package is wanted.
    fn includes(&self, name: &str) -> bool {
        self.packages.is_empty() || self.packages.iter().any(|package| package == name)
    }
}

/// Runs all steps and prints the summary. True when nothing failed.
///
/// # Errors
/// A package that the workspace does not have.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let mut options = Options::read(words)?;
    if std::env::var_os(FULL).is_some_and(|value| !value.is_empty() && value != "0") {
        options.level = Level::Full;
    }
    options.packages = packages::selected(root, &options.packages, options.dependents)?;
    let options = &options;
    let mut ledger = Ledger::shown();
    for missing in install::missing_parts(root, options.level == Level::Full, !options.no_install) {
        ledger.left_out(&missing);
    }
    ledger.check("format", &mut cargo(root, &["fmt", "--all", "--check"]));
    ledger.check("format of modules of macros", &mut unseen_format(root));
    ledger.step("tidy", || (if tidy::run(root) { Ending::Passed } else { Ending::Failed("see above".into()) }, None));
    lints(root, &mut ledger, options);
    if options.packages.is_empty() {
        python::check(root, &target(root), !options.no_install, &mut ledger);
    }
    tests(root, &mut ledger, options);
    if options.packages.is_empty() {
        deny::check(root, !options.no_install, &mut ledger);
        kernels(root, &mut ledger, options);
        documentation(root, &mut ledger, options);
        growth(root, &mut ledger, options);
    }
    loom(root, &mut ledger, options);
    loops(root, &mut ledger, options);
    pages(root, &mut ledger, options);
    println!("{}", ledger.summary());
    Ok(ledger.total().failed == 0)
}

/// Folders whose modules a macro declares: `cargo fmt` does not follow it.
const MODULES_OF_MACROS: [&str; 1] = ["crates/primitive/src/implementations"];

/// The check of the format of files that `cargo fmt` does not see.
fn unseen_format(root: &Path) -> Command {
    let mut command = Command::new("rustfmt");
    command.current_dir(root).args(["--check", "--edition", "2024"]);
    for folder in MODULES_OF_MACROS {
        let files = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.path());
        command.args(files.filter(|path| path.extension().is_some_and(|end| end == "rs")));
    }
    command
}

/// The text of the GPU kernels, against its source and by ptxas.
fn kernels(root: &Path, ledger: &mut Ledger, options: &Options) {
    match options.level {
        Level::Change => ledger.skip("kernels", "of the gate (hint: --gate)"),
        Level::Gate | Level::Full => ptx::check(root, !options.no_install, ledger),
    }
}

/// The documentation site, and its links.
fn documentation(root: &Path, ledger: &mut Ledger, options: &Options) {
    match options.level {
        Level::Change => ledger.skip("site", "of the gate (hint: --gate, or cargo xtask site)"),
        Level::Gate | Level::Full => site::build(root, !options.no_install, ledger),
    }
}

/// Whether commands stay within their memory, and near-linear, while their inputs grow.
fn growth(root: &Path, ledger: &mut Ledger, options: &Options) {
    match options.level {
        Level::Change => ledger.skip("scale", "of the gate (hint: --gate, or cargo xtask scale --small)"),
        Level::Gate | Level::Full => ledger.step("scale", || (scale::check(root), None)),
    }
}

/// What the compiler knows beyond errors, and whether the documentation has dead links.
fn lints(root: &Path, ledger: &mut Ledger, options: &Options) {
    // Of the whole workspace they check every dependency once more: minutes, in a new clone.
    if options.level == Level::Change && options.packages.is_empty() {
        return ["clippy", "docs"].iter().for_each(|name| ledger.skip(name, "of the gate (hint: --gate, or -p NAME)"));
    }
    let mut clippy = cargo(root, &["clippy", "--all-targets", "--no-deps"]);
    ledger.check("clippy", clippy.args(options.selection()).args(["--", "-D", "warnings"]));
    let mut docs = cargo(root, &["doc", "--no-deps"]);
    ledger.check("docs", docs.args(options.selection()).env("RUSTDOCFLAGS", "-D warnings"));
}

/// Unit, integration and doc tests; nextest does not run the last. Nextest is preferred because it runs every test in a
/// process of its own, ends those that hang, and names those that leave processes behind.
fn tests(root: &Path, ledger: &mut Ledger, options: &Options) {
    let target = target(root);
    let log = target.join("xtask/skipped.log");
    // Of an earlier run. If the folder cannot be made, neither can cargo's, and the steps below fail and say so.
    let _ = std::fs::remove_file(&log);
    let _ = log.parent().map(std::fs::create_dir_all);
    // Tests that lack what is missing say so themselves.
    let (wheels, lacking) = match options.level {
        Level::Change => Default::default(),
        Level::Gate | Level::Full => wheels::variables(&target, !options.no_install, options.level == Level::Full),
    };
    lacking.iter().for_each(|why| ledger.left_out(why));
    let command = |arguments: &[&str], selection: &[String]| {
        let mut command = cargo(root, arguments);
        command.args(selection).env(SKIP_LOG, &log).env_remove(FULL).envs(wheels.iter().cloned());
        if options.level == Level::Full {
            command.env(FULL, "1");
        }
        command
    };
    let selection = options.selection();
    let names: Vec<&str> = options.names.iter().map(String::as_str).collect();
    if deny::quietly(&mut cargo(root, &["nextest", "--version"])).is_ok() {
        let arguments = ["nextest", "run", "--no-fail-fast", "--status-level", "leak"];
        // Of an earlier run.
        let _ = std::fs::remove_file(times::junit(root));
        ledger.tests("tests", command(&arguments, &selection).args(&names), counts::of_nextest);
        budget(root, ledger, options, |filter| {
            command(&["nextest", "run", "--status-level", "fail", "-E", filter], &selection)
        });
        if options.has_library(root) && names.is_empty() {
            let arguments = ["test", "--doc", "--no-fail-fast", "--quiet"];
            ledger.tests("doc tests", &mut command(&arguments, &selection), counts::of_libtest);
        }
    } else {
        let arguments = ["test", "--no-fail-fast", "--quiet"];
        let filters: &[&str] = if names.is_empty() { &[] } else { &["--"] };
        ledger.tests("tests", command(&arguments, &selection).args(filters).args(&names), counts::of_libtest);
    }
    ledger.left_out(&std::fs::read_to_string(&log).unwrap_or_default());
}

/// Writes and prints how long tests took, and holds each to its limit unless heavy ones ran.
fn budget(root: &Path, ledger: &mut Ledger, options: &Options, again: impl Fn(&str) -> Command) {
    let tests = times::read(&std::fs::read_to_string(times::junit(root)).unwrap_or_default());
    if tests.is_empty() {
        return;
    }
    let path = target(root).join("xtask/times.tsv");
    if let Err(error) = std::fs::write(&path, times::file(&tests)) {
        ledger.skip("times", format!("{}: {error}", path.display()));
    }
    println!("\n{}", times::summary(&tests, &path));
    if options.level == Level::Full {
        return ledger.skip("budget", "heavy tests have none");
    }
    let late = times::over(&tests);
    let slowdown = if late.is_empty() { 1.0 } else { times::slowdown() };
    if slowdown > times::BUSY {
        let why = format!("a computation takes {slowdown:.1} times as long as alone, and times are not judged");
        return ledger.skip("budget", format!("{} tests took longer than their limit; {why}", late.len()));
    }
    ledger.step("budget", || {
        println!("    {} tests took longer than their limit, which is {} s for most", late.len(), times::BUDGET);
        let still: Vec<String> = late.iter().filter_map(|test| over_budget_alone(root, test, &again)).collect();
        still.iter().for_each(|line| println!("    {line}"));
        let what = || Ending::Failed(format!("over their limit even alone: {}", still.len()));
        (if still.is_empty() { Ending::Passed } else { what() }, None)
    });
}

/// Runs a test by itself; the line that says how long it took, if that was too long for this machine, as busy as it is.
fn over_budget_alone(root: &Path, test: &times::Timed, again: impl Fn(&str) -> Command) -> Option<String> {
    let before = times::slowdown();
    // If this run fails to start, no file of an earlier one is read; the first time counts then.
    let _ = std::fs::remove_file(times::junit(root));
    // Whether it passes was judged before.
    let _ = again(&times::filter(test)).stdin(Stdio::null()).output();
    let slowdown = before.max(times::slowdown());
    let alone = times::read(&std::fs::read_to_string(times::junit(root)).unwrap_or_default());
    let same = |other: &&times::Timed| other.binary == test.binary && other.name == test.name;
    let seconds = alone.iter().find(same).map_or(test.seconds, |alone| alone.seconds);
    let line = format!("{} {}: {:.1} s, alone {seconds:.1} s", test.binary, test.name, test.seconds);
    (seconds > times::limit(test) * times::MARGIN * slowdown).then_some(line)
}

/// The protocols of shared memory under every interleaving of their threads that loom can reach.
fn loom(root: &Path, ledger: &mut Ledger, options: &Options) {
    if !options.includes("comm") {
        return;
    }
    if options.level < Level::Full {
        ledger.skip("loom", "heavy (hint: --full)");
        return;
    }
    let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
    flags.push(" --cfg loom");
    // A target folder of its own: these flags would otherwise rebuild everything, twice a run.
    let mut command =
        cargo(root, &["test", "--package", "rankmark-comm", "--release", "--lib", "--quiet", "--", "models"]);
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target(root).join("loom"));
    // No model at all means that a filter or a name changed: that is a failure, not a success.
    let some = |text: &str| counts::of_libtest(text).filter(|counts| counts.passed + counts.failed > 0);
    ledger.tests("loom", &mut command, some);
}

/// Compares our times of MPI's collectives with those of plain loops in C, in few and short pairs. Even on a busy machine a
/// difference of 30% and 1 us is a bug. The real bounds need a quiet machine (docs/appendix/performance.md).
fn loops(root: &Path, ledger: &mut Ledger, options: &Options) {
    if !options.includes("rankmark") {
        return;
    }
    match () {
        () if options.level < Level::Full => ledger.skip("loops", "heavy (hint: --full)"),
        () if !install::has_mpi_headers() => {
            ledger.skip("loops", "no headers of an MPI library (hint: apt-get install libopenmpi-dev)");
        }
        () => {
            let bench = ["bench", "--package", "rankmark", "--bench", "loops", "--", "--only", "lib"];
            let few = ["--pairs", "11", "--seconds", "0.05", "--bytes", "1024,65536"];
            let wide = ["--require", "median", "--slack", "10"];
            ledger.check("loops", &mut cargo(root, &[&bench[..], &few, &wide].concat()));
        }
    }
}

/// HTML reports in a browser.
fn pages(root: &Path, ledger: &mut Ledger, options: &Options) {
    if !options.includes("report") {
        return;
    }
    if options.level == Level::Full {
        browser::look(root, !options.no_install, ledger);
    } else {
        ledger.skip("browser", "heavy (hint: --full, or cargo xtask browser)");
    }
}

/// The cargo that runs this program, in the repository.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        assert_eq!(Options::read(&[]), Ok(Options::default()));
        let options = Options::read(&["--full", "-p", "comm", "--no-install", "--package", "terms"]).unwrap();
        assert!(options.level == Level::Full && options.no_install);
        assert_eq!(options.selection(), ["--package", "rankmark-comm", "--package", "rankmark-terms"]);
        assert_eq!(Options::read(&["--full", "--gate"]).unwrap().level, Level::Full);
        let named = Options::read(&["-p", "comm", "--dependents", "rounds", "worlds"]).unwrap();
        assert!(named.dependents && named.names == ["rounds", "worlds"]);
        assert!(Options::read(&["rounds"]).is_err() && Options::read(&["--dependents"]).is_err());
        assert_eq!(Options::read(&["--fast"]), Err("unknown option `--fast`".to_owned()));
        assert!(Options::read(&["--package"]).is_err());
    }

    #[test]
    fn the_whole_workspace_is_the_default() {
        assert_eq!(Options::default().selection(), ["--workspace"]);
    }

    #[test]
    fn doc_tests_are_looked_for_where_there_is_a_library() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert!(Options::default().has_library(root));
        assert!(Options::read(&["-p", "xtask", "-p", "terms"]).unwrap().has_library(root));
        assert!(!Options::read(&["-p", "xtask"]).unwrap().has_library(root));
    }

    /// The two ends of the skip log: what `tests/skip.rs` writes, `Ledger::left_out` reads.
    #[test]
    fn what_a_test_leaves_out_is_listed() {
        let log = std::env::temp_dir().join(format!("rankmark-skip-{}", std::process::id()));
        for _ in 0..2 {
            crate::skip::say("terminal", "tmux is missing,\nor so it seems", Some(&log));
        }
        crate::skip::say("a thousand kills", "heavy (hint: --full)", Some(&log));
        let mut ledger = Ledger::default();
        ledger.left_out(&std::fs::read_to_string(&log).unwrap());
        std::fs::remove_file(&log).unwrap();
        let summary = ledger.summary();
        assert!(summary.contains("  terminal: tmux is missing, or so it seems\n"), "{summary}");
        assert!(summary.contains("  a thousand kills: heavy (hint: --full)\n"), "{summary}");
        assert_eq!(summary.lines().last(), Some("0 passed, 0 failed, 2 skipped"));
    }
}
