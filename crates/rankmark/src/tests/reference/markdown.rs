//! Markdown of texts that were written for a terminal.

/// A table of Markdown. Cells are Markdown on one line.
pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    text += &line(&vec!["---".to_owned(); head.len()]).replace(' ', "");
    rows.into_iter().for_each(|row| text += &line(&row));
    text
}

/// A text of the terminal as the content of a cell: what Markdown and HTML would take for theirs is escaped, and pages
/// that it names become links from the folder that lies `depth` below docs.
pub(super) fn cell(text: &str, depth: usize) -> String {
    plain(&text.split_whitespace().collect::<Vec<_>>().join(" "), depth).replace('|', "\\|")
}

/// A text of the terminal as a paragraph: what Markdown and HTML would take for theirs is escaped, and pages that it names become
/// links from the folder that lies `depth` below docs.
pub(super) fn plain(text: &str, depth: usize) -> String {
    // What stands in back-ticks is code, and stays as it is.
    let parts = text.split('`').enumerate().map(|(index, part)| match index % 2 {
        0 => linked(&escaped(part), depth),
        _ => format!("`{part}`"),
    });
    parts.collect()
}

fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('*', "\\*")
}

/// `docs/how-to/mpi.md` as a link with the title of that page.
fn linked(text: &str, depth: usize) -> String {
    let mut made = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("docs/") {
        let Some((page, behind)) = after.split_once(".md") else { break };
        made += &format!("{before}[{}]({}{page}.md)", title(page), "../".repeat(depth));
        rest = behind;
    }
    made + rest
}

/// The first line of a page that a text of the program names.
fn title(page: &str) -> String {
    let path = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("help names docs/{page}.md: {error}"));
    text.lines().next().unwrap_or_default().trim_start_matches('#').trim().to_owned()
}

/// Code in a cell: GitHub and mdBook take `\|` there for a bar.
pub(super) fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[test]
fn texts_of_the_terminal_are_escaped_and_linked() {
    assert_eq!(cell("a | b <C>\n d_e", 1), "a \\| b &lt;C> d_e");
    assert_eq!(cell("how (docs/how-to/mpi.md), `a_b`", 2), "how ([MPI](../../how-to/mpi.md)), `a_b`");
    assert_eq!(table(&["a", "b"], [vec!["1".to_owned(), "2".to_owned()]]), "| a | b |\n|---|---|\n| 1 | 2 |\n");
}
