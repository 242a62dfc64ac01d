//! The pages of docs/reference that are made of the tables of the program, so that they cannot differ from it.
//!
//! `UPDATE_EXPECT=1 cargo test -p rankmark --lib reference` writes them. A page of a command is made whole. Other pages
//! have generated parts between marks, and text around them that people write.

mod commands;
mod markdown;
mod members;
mod tables;

use std::path::PathBuf;

use expect_test::expect_file;

/// A part of a page: the name in its mark, and its text.
type Part = (&'static str, String);

/// Pages with generated parts, below docs/reference.
fn parted() -> Vec<(&'static str, Vec<Part>)> {
    vec![
        ("commands.md", vec![("commands", commands::index())]),
        ("fields.md", vec![("fields", tables::fields())]),
        ("metrics.md", vec![("metrics", tables::metrics())]),
        ("caveats.md", vec![("caveats", tables::listed("caveats"))]),
        ("formats.md", ["formats", "layouts", "imports"].map(|kind| (kind, tables::listed(kind))).into()),
        ("names.md", tables::NAMES.map(|kind| (kind, tables::listed(kind))).into()),
        ("backends.md", vec![("backends", tables::listed("backends"))]),
        ("record-members.md", members::parts()),
        ("exit-codes.md", vec![("exit-codes", tables::exit_codes())]),
    ]
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

/// The page with these parts between their marks.
fn with_parts(page: &str, parts: &[Part]) -> Result<String, String> {
    let mut text = page.to_owned();
    for (name, part) in parts {
        let (begin, end) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
        let (before, rest) = text.split_once(&begin).ok_or_else(|| format!("no mark `{}`", begin.trim_end()))?;
        let (_, after) = rest.split_once(&end).ok_or_else(|| format!("no mark `{end}`"))?;
        text = format!("{before}{begin}\n{}\n\n{end}{after}", part.trim());
    }
    let (marks, parts) = (text.matches("<!-- generated: ").count(), parts.len());
    if marks == parts { Ok(text) } else { Err(format!("{marks} generated parts, and {parts} known")) }
}

#[test]
fn generated_parts_are_those_of_the_program() {
    for (name, parts) in parted() {
        let path = folder().join(name);
        let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let made = with_parts(&page, &parts).unwrap_or_else(|problem| panic!("docs/reference/{name}: {problem}"));
        expect_file![path].assert_eq(&made);
    }
}

#[test]
fn each_command_has_its_page_and_no_other_is_there() {
    let pages = commands::pages();
    let folder = folder().join("commands");
    for (name, page) in &pages {
        expect_file![folder.join(name)].assert_eq(page);
    }
    let there = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others: Vec<String> = there.filter(|name| pages.iter().all(|(known, _)| known != name)).collect();
    assert!(others.is_empty(), "pages of commands that do not exist: {others:?}");
}

#[test]
fn a_part_without_its_marks_is_refused() {
    let page = "# A\n<!-- generated: a -->\nold\n<!-- end: a -->\nafter\n";
    let made = with_parts(page, &[("a", "new".to_owned())]).unwrap();
    assert_eq!(made, "# A\n<!-- generated: a -->\n\nnew\n\n<!-- end: a -->\nafter\n");
    assert_eq!(with_parts(&made, &[("a", "new".to_owned())]), Ok(made.clone()));
    assert!(with_parts(page, &[("b", String::new())]).unwrap_err().contains("no mark"));
    assert!(with_parts(page, &[]).unwrap_err().contains("1 generated parts"));
}
