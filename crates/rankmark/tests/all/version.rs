//! `rankmark version`: what a bug report needs.

use serde_json::Value;

use crate::place::Place;
use crate::skip;

#[test]
fn version_says_what_was_built_and_what_is_here() {
    let place = Place::new();
    let ended = place.run("version").exits(0);
    let value = |name: &str| -> String {
        let line = ended.out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {}", ended.out)).trim().to_owned()
    };
    assert_eq!(value("rankmark"), env!("CARGO_PKG_VERSION"));
    assert!(value("rustc").starts_with("rustc 1."), "{}", ended.out);
    assert!(value("target").contains("-linux-"), "{}", ended.out);
    assert!(["debug", "release"].contains(&value("profile").as_str()), "{}", ended.out);
    let features = if cfg!(feature = "nsys") { vec!["nsys"] } else { vec![] };
    assert_eq!(value("features"), if features.is_empty() { "none".to_owned() } else { features.join(",") });
    value("NCCL");
    assert_eq!(ended.err, "");
    let object: Value = serde_json::from_str(&place.run("version --json").exits(0).out).unwrap();
    assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
    let told: Vec<&str> = object["features"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((object["commit"].as_str(), told), (Some(&*value("commit")), features));
    let names: Vec<&str> =
        object["libraries"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"NCCL") && names.contains(&"Python"), "{names:?}");
    assert_eq!(place.run("--version").exits(0).out, format!("rankmark {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(place.names(), [""; 0], "asking makes nothing");
}

#[test]
fn the_commit_is_the_one_that_is_checked_out() {
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--show-prefix", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let said =
        git.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    let lines: Vec<&str> = said.iter().flat_map(|said| said.lines()).collect();
    let ["crates/rankmark/", head] = lines[..] else {
        return skip::skip("the commit of the build", "this is not a git repository");
    };
    let said = Place::new().run("version").exits(0).out;
    assert!(said.contains(&format!("\ncommit    {head}\n")), "{said}");
}
