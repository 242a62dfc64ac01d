//! The commands of the documentation: `sh` blocks of the README and of docs, the words of the commands in them, and
//! what commands print (`console` blocks).
//!
//! A comment above a block says why it is not run: `<!-- not run: needs two hosts -->`. Its commands are parsed all the
//! same. Above what a command printed, one says on which machine: `<!-- output: eight H100 -->`.

use std::path::{Path, PathBuf};

/// A fenced block of commands.
#[derive(Debug)]
pub(crate) struct Block {
    /// The page, from the repository's root, and the line of the fence, from 1: `docs/how-to/mpi.md:6`.
    pub(crate) place: String,
    /// What kind of text it is: `sh`, `console`, `yaml`.
    pub(crate) language: String,
    /// Why it is not run, or on which machine it was.
    pub(crate) comment: Option<String>,
    pub(crate) text: String,
}

impl Block {
    /// Why it is not run.
    pub(crate) fn not_run(&self) -> Option<&str> {
        self.comment.as_deref()?.strip_prefix("not run: ")
    }
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages with commands, from the repository's root: README.md, CONTRIBUTING.md, and all of docs but those that are made of the
/// program's help.
pub(crate) fn pages() -> Vec<String> {
    let mut found = vec!["CONTRIBUTING.md".to_owned(), "README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap().flatten() {
            let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            match path.as_str() {
                "docs/reference/commands" => {}
                _ if entry.path().is_dir() => folders.push(path),
                _ if path.ends_with(".md") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The `sh` blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    all_blocks(page).into_iter().filter(|block| block.language == "sh").collect()
}

/// All blocks of a page.
pub(crate) fn all_blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    blocks_of(page, &text)
}

fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let (mut open, mut comment) = (None::<Block>, None);
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => found.extend(open.take()),
            (Some(block), _) => block.text += &format!("{line}\n"),
            (None, Some(language)) => {
                let place = format!("{page}:{}", index + 1);
                let language = language.to_owned();
                open = Some(Block { place, language, comment: comment.take(), text: String::new() });
            }
            (None, None) => {
                let said = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                comment = said.map(str::to_owned).or(comment.filter(|_| line.is_empty()));
            }
        }
    }
    found
}

/// The simple commands of a script as words, without comments and redirections. What a here-document holds is left out.
pub(crate) fn commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let mut found = Vec::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if let Some((_, end)) = line.split_once("<<'") {
            let end = end.trim_end_matches('\'');
            lines.by_ref().find(|line| *line == end);
        }
        found.extend(split(line));
    }
    found
}

/// The simple commands of a line.
fn split(line: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ' | ';' | '|' | '&') => {
                found.last_mut().expect("it has one").extend(word.take());
                if letter != ' ' {
                    found.push(Vec::new());
                }
            }
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    found.last_mut().expect("it has one").extend(word);
    found.into_iter().map(without_redirections).filter(|words| !words.is_empty()).collect()
}

fn without_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            ">" | "2>" | "<" => drop(words.next()),
            _ if word.starts_with("<<") => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// From the program's name on: behind a launcher, a tool that traces, or `cargo run --release --`.
pub(crate) fn of_the_program(words: &[String]) -> Option<Vec<String>> {
    let named = words.iter().position(|word| word == "rankmark");
    if let Some(at) = named {
        return Some(words[at..].to_vec());
    }
    let is_ours = words.len() > 2 && words[..2] == ["cargo", "run"] && !words.iter().any(|word| word == "-p");
    let at = words.iter().position(|word| word == "--").filter(|_| is_ours)?;
    Some(std::iter::once("rankmark".to_owned()).chain(words[at + 1..].iter().cloned()).collect())
}

/// Texts of a page between back-ticks that begin so, as simple commands, with page and line.
pub(crate) fn in_text(page: &str, begin: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let text = std::fs::read_to_string(root().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            let spans = line.split('`').skip(1).step_by(2).filter(|span| span.starts_with(begin));
            found.extend(spans.map(|span| (format!("{page}:{}", index + 1), split(span))));
        }
    }
    found
}

#[test]
fn blocks_and_their_comments_are_read() {
    let page =
        "a\n<!-- not run: needs a GPU -->\n\n```sh\nx 1\n```\n```sh\ny\n```\n<!-- output: b -->\n```console\nz\n```\n";
    let found = blocks_of("p.md", page);
    let read: Vec<_> =
        found.iter().map(|one| (&one.place[..], one.not_run(), &one.language[..], &one.text[..])).collect();
    let expected = [
        ("p.md:4", Some("needs a GPU"), "sh", "x 1\n"),
        ("p.md:7", None, "sh", "y\n"),
        ("p.md:11", None, "console", "z\n"),
    ];
    assert_eq!(read, expected);
    assert_eq!(found[2].comment.as_deref(), Some("output: b"));
}

#[test]
fn commands_are_split_into_words() {
    let words = |script: &str| commands(script).into_iter().map(|words| words.join(",")).collect::<Vec<_>>();
    assert_eq!(words("a 'b c' \"d\" # e\nf > g && h | i; j"), ["a,b c,d", "f", "h", "i", "j"]);
    assert_eq!(words("a \\\n  b\n# c\n"), ["a,b"]);
    assert_eq!(words("python3 - <<'END'\nx y\nEND\nb"), ["python3,-", "b"]);
    assert_eq!(words("a --to=#1 'x>=1'"), ["a,--to=#1,x>=1"]);
    let ours = |line: &str| of_the_program(&split(line)[0]).map(|words| words.join(","));
    assert_eq!(ours("mpirun -n 2 rankmark comm"), Some("rankmark,comm".to_owned()));
    assert_eq!(ours("cargo run --release -- run"), Some("rankmark,run".to_owned()));
    assert_eq!(ours("cargo run --release -p diagnose --example x -- 1"), None);
}
