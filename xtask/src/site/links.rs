//! Links of HTML pages: those within the site lead to a file and to an anchor there, others are well-formed, and pages
//! load nothing from elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::pages::{files, read};

/// Attributes of a page that matter here.
struct Page {
    anchors: BTreeSet<String>,
    /// `href` of links.
    links: Vec<String>,
    /// What the page loads: `src`, and `href` of `<link>`.
    loads: Vec<String>,
}

/// What is wrong with the links of the pages in a folder, a line each.
///
/// # Errors
/// What could not be read, or that there is no page.
pub(super) fn problems(folder: &Path) -> Result<Vec<String>, String> {
    let mut pages = BTreeMap::new();
    let mut others = BTreeSet::new();
    for file in files(folder)? {
        if file.extension().is_some_and(|extension| extension == "html") {
            pages.insert(file.clone(), page(&read(&file)?));
        } else {
            others.insert(file);
        }
    }
    if pages.is_empty() {
        return Err(format!("{} has no page", folder.display()));
    }
    let mut found = Vec::new();
    for (file, page) in &pages {
        let shown = file.strip_prefix(folder).unwrap_or(file).display();
        for target in page.links.iter().chain(&page.loads) {
            if let Some(problem) = problem(target, file, &pages, &others) {
                found.push(format!("{shown}: `{target}` {problem}"));
            }
        }
        let elsewhere = page.loads.iter().filter(|target| target.contains("//"));
        found.extend(elsewhere.map(|target| format!("{shown}: loads `{target}` from elsewhere")));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn problem(
    target: &str,
    from: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    others: &BTreeSet<PathBuf>,
) -> Option<&'static str> {
    if target.contains("://") {
        return (!is_url(target)).then_some("is no URL");
    }
    if target.starts_with("mailto:") || target.starts_with("data:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { from.to_owned() } else { joined(from, path) };
    match pages.get(&file) {
        Some(page) if anchor.is_empty() || page.anchors.contains(anchor) => None,
        Some(_) => Some("has an anchor that is not there"),
        None if others.contains(&file) => None,
        None => Some("is not a file of the site"),
    }
}

/// `https://host.domain/path`, without blanks.
fn is_url(target: &str) -> bool {
    let rest = target.strip_prefix("https://").or_else(|| target.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    let is_host =
        host.contains('.') && host.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-:".contains(letter));
    is_host && !target.chars().any(|letter| letter.is_whitespace() || "<>\"".contains(letter))
}

/// A relative path in a page; a folder means its index.
fn joined(from: &Path, path: &str) -> PathBuf {
    let mut parts: Vec<Component<'_>> = from.parent().unwrap_or(from).components().collect();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    let file: PathBuf = parts.iter().collect();
    if path.ends_with('/') { file.join("index.html") } else { file }
}

/// The attributes of a page. mdBook quotes all of them.
fn page(text: &str) -> Page {
    let mut page = Page { anchors: BTreeSet::new(), links: Vec::new(), loads: Vec::new() };
    for tag in tags(text) {
        let name = tag.split(|letter: char| letter.is_whitespace()).next().unwrap_or_default();
        page.anchors.extend(attribute(tag, "id"));
        match name {
            "a" => page.links.extend(attribute(tag, "href")),
            "link" => page.loads.extend(attribute(tag, "href")),
            "script" | "img" | "iframe" => page.loads.extend(attribute(tag, "src")),
            _ => {}
        }
    }
    page
}

/// What stands between `<` and `>`, outside of comments and scripts.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once('<')?;
            if let Some(comment) = after.strip_prefix("!--") {
                rest = comment.split_once("-->")?.1;
                continue;
            }
            let (tag, behind) = after.split_once('>')?;
            let is_script = tag.starts_with("script");
            rest = if is_script { behind.split_once("</script>").map_or("", |(_, after)| after) } else { behind };
            return Some(tag);
        }
    })
}

/// The value of ` name="value"`.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&amp;", "&").replace("%20", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A site of these pages, and what is wrong with it.
    fn check(pages: &[(&str, &str)]) -> Vec<String> {
        static SITES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = SITES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("xtask-site-{}-{number}", std::process::id()));
        for (name, text) in pages {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = problems(&folder);
        let _ = std::fs::remove_dir_all(&folder);
        found.unwrap()
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let other = ("how-to/b.html", "<h1 id=\"top\">b</h1>");
        let with = |text: &str| check(&[("a.html", text), other, ("x.css", "")]).len();
        assert_eq!(with("<a href=\"how-to/b.html#top\">b</a> <link rel=\"stylesheet\" href=\"x.css\">"), 0);
        assert_eq!(with("<a href=\"how-to/c.html\">b</a>"), 1);
        assert_eq!(with("<a class=\"k\" href=\"how-to/b.html#bottom\">b</a>"), 1);
        assert_eq!(with("<a href=\"#here\">b</a>"), 1);
        assert_eq!(with("<a id=\"here\" href=\"#here\">b</a>"), 0);
        assert_eq!(with("<!-- <a href=\"gone.html\"> --><script>\"<a href='gone.html'>\"</script>"), 0);
        assert_eq!(
            check(&[("a.html", ""), ("how-to/b.html", "<a href=\"../a.html\">a</a> <a href=\"a.html\">")]).len(),
            1
        );
    }

    #[test]
    fn addresses_elsewhere_are_well_formed_and_nothing_is_loaded_from_there() {
        let with = |text: &str| check(&[("a.html", text)]).len();
        assert_eq!(with("<a href=\"https://example.org/x?y=1#z\">b</a>"), 0);
        assert_eq!(with("<a href=\"https://example\">b</a>"), 1);
        assert_eq!(with("<a href=\"https://exa mple.org\">b</a>"), 1);
        assert_eq!(with("<img src=\"https://example.org/x.png\">"), 1);
        assert_eq!(with("<script src=\"https://example.org/x.js\"></script>"), 1);
    }

    #[test]
    fn a_folder_without_pages_is_an_error() {
        let folder = std::env::temp_dir().join(format!("xtask-site-none-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(problems(&folder).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
