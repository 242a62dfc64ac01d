//! Commands of cargo that the documentation shows: packages, examples, benches and chores that they name are in the repository, and chores
//! have the options. None is run: they build, or measure for minutes.

use std::fs;

use crate::blocks;

#[test]
fn what_cargo_is_to_run_is_in_the_repository() {
    let usage = usage();
    let mut count = 0;
    let mut problems = Vec::new();
    for page in blocks::pages() {
        let in_blocks =
            blocks::blocks(&page).into_iter().map(|block| (block.place.clone(), blocks::commands(&block.text)));
        for (place, commands) in in_blocks.chain(blocks::in_text(&page, "cargo ")) {
            for words in commands.iter().filter(|words| words.len() > 1 && words[0] == "cargo") {
                count += 1;
                let problem = problem(&words.iter().map(String::as_str).collect::<Vec<_>>(), &usage);
                problems.extend(problem.map(|problem| format!("{place}: {}: {problem}", words.join(" "))));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 50, "{count} commands");
}

#[test]
fn what_is_not_there_is_found() {
    let found = |line: &str| problem(&line.split(' ').collect::<Vec<_>>(), &usage());
    assert_eq!(found("cargo xtask job-rates --python p"), None);
    assert_eq!(found("cargo xtask sight"), Some("no chore `sight`".to_owned()));
    assert_eq!(found("cargo xtask job-rates --pythons p"), Some("no option `--pythons`".to_owned()));
    assert_eq!(found("cargo test -p nothing"), Some("no package `nothing`".to_owned()));
    assert_eq!(
        found("cargo run -p rankmark-diagnose --example rate"),
        Some("no examples/rate.rs in its package".to_owned())
    );
    assert_eq!(found("cargo bench -p rankmark-import --bench log"), None);
    assert_eq!(found("cargo instal"), Some("no command `instal`".to_owned()));
}

/// What `cargo xtask help` and `cargo xtask experiments` say.
fn usage() -> String {
    ["xtask/src/lib.rs", "xtask/experiments/src/main.rs"]
        .map(|file| fs::read_to_string(blocks::root().join(file)).unwrap())
        .concat()
}

/// Why cargo could not do what these words say.
fn problem(words: &[&str], usage: &str) -> Option<String> {
    let after = |option: &str| words.iter().position(|word| *word == option).and_then(|at| words.get(at + 1)).copied();
    let known = ["bench", "build", "fmt", "install", "nextest", "publish", "run", "test", "xtask"];
    if !known.contains(&words[1]) {
        return Some(format!("no command `{}`", words[1]));
    }
    let package = after("-p").or(after("--package")).filter(|name| *name != "NAME");
    // Chores take names of folders.
    let folder = package
        .map(|name| folder_of(name).or_else(|| folder_of(&format!("rankmark-{name}")).filter(|_| words[1] == "xtask")));
    if let (Some(None), Some(name)) = (&folder, package) {
        return Some(format!("no package `{name}`"));
    }
    for (option, kind) in [("--example", "examples"), ("--bench", "benches")] {
        let file = after(option).map(|name| format!("{kind}/{name}.rs"));
        let is_there =
            |file: &String| folder.iter().flatten().any(|folder| blocks::root().join(folder).join(file).is_file());
        if let Some(file) = file.filter(|file| !is_there(file)) {
            return Some(format!("no {file} in its package"));
        }
    }
    if let Some(path) = after("--path").filter(|path| !blocks::root().join(path).join("Cargo.toml").is_file()) {
        return Some(format!("no package in {path}"));
    }
    if words[1] == "xtask" { chore(words, usage) } else { None }
}

/// Why a chore could not do what these words say.
fn chore(words: &[&str], usage: &str) -> Option<String> {
    let name = words.get(2)?;
    let mut lines = usage.split("\n  ").filter(|part| part.split_whitespace().next() == Some(name)).peekable();
    if lines.peek().is_none() {
        return Some(format!("no chore `{name}`"));
    }
    let line: String = lines.collect();
    let unknown = words.iter().find(|word| word.starts_with("--") && !line.contains(**word));
    unknown.map(|option| format!("no option `{option}`"))
}

/// The folder of a package of the workspace.
fn folder_of(package: &str) -> Option<String> {
    let crates = fs::read_dir(blocks::root().join("crates")).unwrap().flatten();
    let folders =
        crates.map(|entry| format!("crates/{}", entry.file_name().to_string_lossy())).chain(["xtask".to_owned()]);
    let named = format!("name = \"{package}\"");
    folders.into_iter().find(|folder| {
        let manifest = fs::read_to_string(blocks::root().join(folder).join("Cargo.toml")).unwrap_or_default();
        manifest.lines().find(|line| line.starts_with("name = ")) == Some(&named)
    })
}
