//! The files on disk: whole, in one place, replaced, and errors that say what to do.

use std::path::Path;

use report::{FORMATS, format, write, write_formats};

use crate::data;

#[test]
fn a_report_is_written_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("new");
    let first = write(&data::study(), &dir).unwrap();
    let named = ["report.html", "report.md", "cases.csv"].map(|name| dir.join(name));
    assert_eq!(first[..3], named);
    let before = std::fs::read(&first[3]).unwrap();
    assert_eq!(write(&data::study(), &dir).unwrap(), first);
    assert_eq!(std::fs::read(&first[3]).unwrap(), before);
    // Every picture that the Markdown shows is there, and nothing is left over.
    let markdown = std::fs::read_to_string(&first[1]).unwrap();
    let shown: Vec<&str> = markdown.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(shown.len() >= 8);
    assert!(shown.iter().all(|path| dir.join(path).is_file()), "{shown:?}");
    let kept = |dir: &Path| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let all: Vec<_> = kept(&dir).into_iter().chain(kept(&dir.join("charts"))).filter(|path| path.is_file()).collect();
    assert_eq!(all.len(), first.len(), "{all:?}");
}

#[test]
fn a_file_in_the_way_is_an_error_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("charts"), "in the way").unwrap();
    let error = write(&data::study(), folder.path()).unwrap_err();
    assert!(error.to_string().contains("charts"), "{error}");
    assert!(error.cause.is_some() && error.hint.is_some());
    assert!(folder.path().join("report.md").is_file(), "what was written before stays");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
fn formats_have_names_and_words() {
    let mut names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
    assert!(FORMATS.iter().all(|format| !format.doc().is_empty()));
    assert!(names.iter().all(|name| format(name).unwrap().name() == *name));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len());
    let error = format("markdwon").err().unwrap();
    assert_eq!(error.what, "unknown report format `markdwon`, did you mean `markdown`?");
    let folder = tempfile::tempdir().unwrap();
    let written = write_formats(&data::study(), folder.path(), &[format("CSV").unwrap()]).unwrap().files;
    assert_eq!(written, [folder.path().join("cases.csv")]);
}

#[test]
fn nothing_is_written_through_a_link() {
    let picture = format("svg").unwrap().render(&data::study()).unwrap()[0].path.to_string();
    let part = format!(".report.md.{}.part", std::process::id());
    for name in ["report.html", "report.md", "cases.csv", "charts", &picture, &part] {
        let folder = tempfile::tempdir().unwrap();
        let (dir, outside) = (folder.path().join("record"), folder.path().join("outside"));
        std::fs::create_dir_all(dir.join("charts")).unwrap();
        // A file for a file, a folder for the folder.
        if name == "charts" {
            std::fs::remove_dir(dir.join("charts")).unwrap();
            std::fs::create_dir(&outside).unwrap();
        } else {
            std::fs::write(&outside, "mine").unwrap();
        }
        std::os::unix::fs::symlink(&outside, dir.join(name)).unwrap();
        let error = write(&data::study(), &dir).expect_err(name);
        let cause = error.cause.clone().unwrap();
        assert_eq!(cause, "it is a symbolic link, and links inside a record are not followed", "{name}");
        let named = if name == part { "report.md" } else { name };
        assert!(
            error.to_string().contains(named) && error.hint.as_ref().unwrap().contains("put a plain file"),
            "{error}"
        );
        if outside.is_file() {
            assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine", "{name}");
        } else {
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{name}");
        }
        assert!(dir.join(name).is_symlink(), "{name}: it is not ours to remove");
    }
}

/// A page in Markdown shows pictures that are files of their own.
#[test]
fn every_picture_of_a_markdown_page_is_written_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_formats(&data::study(), folder.path(), &[format("markdown").unwrap()]).unwrap().files;
    assert_eq!(written, [folder.path().join("report.md")], "what was asked for is told");
    let page = std::fs::read_to_string(&written[0]).unwrap();
    let linked: Vec<&str> = page.split(['(', ')']).filter(|part| part.starts_with("charts/")).collect();
    assert!(linked.len() >= 2, "{page}");
    assert!(linked.iter().all(|file| folder.path().join(file).is_file()), "{linked:?}");
    assert!(!folder.path().join("report.html").exists());
}
