//! The pages as mdBook gets them: those of docs, with links out of that folder as links to the repository.

use std::path::{Path, PathBuf};

use crate::tidy::links::{outside_code, resolved};

/// Copies docs into `folder/pages`, and the settings of the site into `folder`.
///
/// # Errors
/// What could not be read or written.
pub(super) fn stage(root: &Path, folder: &Path) -> Result<(), String> {
    let repository = repository(&read(&root.join("Cargo.toml"))?)?;
    for name in ["book.toml", "site.css"] {
        write(&folder.join(name), read(&root.join("xtask/site").join(name))?.as_bytes())?;
    }
    let docs = root.join("docs");
    for file in files(&docs)? {
        let below = file.strip_prefix(&docs).map_err(|error| error.to_string())?;
        let to = folder.join("pages").join(below);
        if below.extension().is_some_and(|extension| extension == "md") {
            let path = format!("docs/{}", below.display());
            write(&to, linked(&read(&file)?, &path, &repository).as_bytes())?;
        } else {
            let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            write(&to, &bytes)?;
        }
    }
    Ok(())
}

/// Pages of docs that the table of contents does not name.
///
/// # Errors
/// What could not be read.
pub(super) fn not_in_summary(docs: &Path) -> Result<Vec<String>, String> {
    let summary = read(&docs.join("SUMMARY.md"))?;
    let names = files(docs)?.into_iter().filter_map(|file| Some(file.strip_prefix(docs).ok()?.display().to_string()));
    let pages = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
    let mut missing: Vec<String> = pages.filter(|name| !summary.contains(&format!("]({name})"))).collect();
    missing.sort();
    Ok(missing)
}

/// The repository of the workspace: `https://github.com/rankmark/rankmark`.
fn repository(manifest: &str) -> Result<String, String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned).ok_or("Cargo.toml names no repository".to_owned())
}

/// The page at `path` with its links out of docs as links to the repository.
fn linked(text: &str, path: &str, repository: &str) -> String {
    let outside: Vec<usize> = outside_code(text).map(|(number, _)| number).collect();
    let mut made = String::new();
    for (index, line) in text.lines().enumerate() {
        match outside.binary_search(&(index + 1)) {
            Ok(_) => made += &with_links(line, path, repository),
            Err(_) => made += line,
        }
        made.push('\n');
    }
    made
}

fn with_links(line: &str, path: &str, repository: &str) -> String {
    // What stands in back-ticks is not a link.
    let parts = line.split('`').enumerate().map(|(index, part)| {
        if index % 2 == 1 {
            return part.to_owned();
        }
        let mut pieces = part.split("](");
        let mut made = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (target, rest) = piece.split_once(')').unwrap_or((piece, ""));
            made += &format!("]({}){rest}", away(target, path, repository));
        }
        made
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The target of a link, of the repository where it is outside of docs.
fn away(target: &str, path: &str, repository: &str) -> String {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return target.to_owned();
    }
    let wanted = resolved(path, file);
    if wanted.starts_with("docs/") {
        return target.to_owned();
    }
    let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
    format!("{repository}/blob/main/{wanted}{anchor}")
}

/// All files below a folder.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(path, bytes));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_folder_lead_to_the_repository() {
        let made = |text: &str| linked(text, "docs/how-to/a.md", "https://example.org/r");
        assert_eq!(made("[a](b.md#c), [x](../images/x.png), [d](#d)"), "[a](b.md#c), [x](../images/x.png), [d](#d)\n");
        assert_eq!(
            made("[`e`](../../examples/), `[f](../../f)`"),
            "[`e`](https://example.org/r/blob/main/examples), `[f](../../f)`\n"
        );
        assert_eq!(made("```\n[a](../../a)\n```"), "```\n[a](../../a)\n```\n");
        assert_eq!(made("[s](../../SECURITY.md#how)"), "[s](https://example.org/r/blob/main/SECURITY.md#how)\n");
    }

    #[test]
    fn a_page_that_the_contents_do_not_name_is_found() {
        let docs = std::env::temp_dir().join(format!("xtask-site-docs-{}", std::process::id()));
        write(&docs.join("SUMMARY.md"), b"[A](a.md)\n- [B](how-to/b.md)\n").unwrap();
        for page in ["a.md", "how-to/b.md", "how-to/c.md"] {
            write(&docs.join(page), b"# Page\n").unwrap();
        }
        assert_eq!(not_in_summary(&docs), Ok(vec!["how-to/c.md".to_owned()]));
        std::fs::remove_dir_all(&docs).unwrap();
    }

    #[test]
    fn the_repository_is_that_of_the_manifest() {
        assert_eq!(repository("[package]\nrepository = \"https://a.b/c\"\n"), Ok("https://a.b/c".to_owned()));
        assert!(repository("").is_err());
    }
}
