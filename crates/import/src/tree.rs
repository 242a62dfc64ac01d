//! A configuration's text as a tree in which every key and value knows its line; YAML, and JSON with comments.
//!
//! JSON is read by the same parser, after comments outside of texts have become spaces: commented-out lines are how DDLB's
//! users choose backends. Hostile text is bounded: see [`record::yaml`].

use std::ops::Range;

use record::yaml::{self, Fault, Limits, Places};
use terms::Error;

use crate::Source;

/// The largest configuration.
const BYTES: usize = 1 << 20;
const LIMITS: Limits = Limits { depth: 32, nodes: 20_000, scalar: 4096 };

/// A value and its line, from 1.
pub(crate) type ValueNode = yaml::Node<usize>;
/// What a value is.
pub(crate) type Tree = yaml::Tree<usize>;

/// What a value is, for messages: a single one is quoted.
pub(crate) fn kind(node: &ValueNode) -> String {
    match &node.tree {
        Tree::Scalar { text, .. } => format!("`{}`", shown(text)),
        _ => node.kind().to_owned(),
    }
}

/// A word of a file, fit for a message or a comment: one line, printable, at most 64 characters.
pub(crate) fn shown(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut short: String = text.trim().chars().take(64).map(|c| if hidden(c) { ' ' } else { c }).collect();
    if text.trim().chars().nth(64).is_some() {
        short.push('…');
    }
    short
}

/// A text of the caller as a part of one line.
pub(crate) fn one_line(text: &str) -> String {
    text.trim().chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether a text is JSON and not YAML, by its first character that is not a comment.
pub(crate) fn is_json(text: &str) -> bool {
    let is_comment = |line: &&str| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('#') || line.starts_with("//") || line.starts_with("/*")
    };
    let first = text.lines().take(100).find(|line| !is_comment(line));
    first.is_some_and(|line| line.trim_start().starts_with(['{', '[']))
}

/// Whether the file is JSON, and these words are keys in its beginning: how a format knows its own without reading it whole.
pub(crate) fn json_with(source: &Source, keys: &[&str]) -> bool {
    let head = beginning(source);
    is_json(head) && keys.iter().all(|key| head.contains(&format!("\"{key}\"")))
}

/// The first part of a file.
pub(crate) fn beginning(source: &Source) -> &str {
    let text = source.text();
    let mut end = text.len().min(1 << 16);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads lines; remembers the first key that is written twice.
struct LineReader {
    begins: Vec<usize>,
    twice: Option<(String, usize, usize)>,
}

impl Places<usize> for LineReader {
    fn place(&self, range: Range<usize>) -> usize {
        self.begins.partition_point(|begin| *begin <= range.start).max(1)
    }

    fn name(&self, key: &str) -> String {
        key.to_owned()
    }

    fn twice(&mut self, key: &str, at: usize, first: usize) {
        self.twice.get_or_insert_with(|| (key.to_owned(), at, first));
    }
}

/// The tree of a configuration.
pub(crate) fn parse(source: &Source) -> Result<ValueNode, Error> {
    let text = source.text();
    if text.len() > BYTES {
        let what = format!("{} is larger than {} KiB, which no configuration is", source.name(), BYTES >> 10);
        return Err(Error::new(what));
    }
    let text = if is_json(text) { without_comments(text) } else { text.to_owned() };
    let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let mut lines = LineReader { begins, twice: None };
    let root = yaml::parse(&text, LIMITS, &mut lines);
    if let Some((key, line, first)) = lines.twice {
        return Err(source.error(line, format!("`{}` is given twice, first in line {first}", shown(&key))));
    }
    match root {
        Ok(Some(root)) => Ok(root),
        Ok(None) => Err(Error::new(format!("{} is empty", source.name()))),
        Err((line, fault)) => Err(source.error(line, what(&fault))),
    }
}

/// A fault in the words of somebody who has a configuration of another tool.
fn what(fault: &Fault) -> String {
    match fault {
        Fault::Syntax { message, .. } => format!("not valid YAML or JSON: {message}"),
        Fault::TooDeep => format!("nested more than {} levels deep", LIMITS.depth),
        Fault::TooMany => format!("more than {} keys and values", LIMITS.nodes),
        Fault::TooLong(bytes) => format!("a text of {bytes} bytes; at most {}", LIMITS.scalar),
        Fault::Alias | Fault::Tag => "anchors, aliases and tags are not supported: write the values out".to_owned(),
        Fault::NotAName => "a key must be a name, not a list or a mapping".to_owned(),
        Fault::Second => "a second document begins here, but a file holds only one configuration".to_owned(),
    }
}

/// JSON with comments and tabs as spaces, so that lines stay where they are.
pub(crate) fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let (mut at, mut in_text) = (0, false);
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', _) if in_text => {
                at += 2;
                continue;
            }
            (b'"', _) => {
                in_text = !in_text;
                at + 1
            }
            (b'/', Some(b'/')) if !in_text => blank(&mut bytes, at, b"\n"),
            (b'#', _) if !in_text => blank(&mut bytes, at, b"\n"),
            (b'/', Some(b'*')) if !in_text => blank(&mut bytes, at, b"*/"),
            (b'\t', _) if !in_text => {
                bytes[at] = b' ';
                at + 1
            }
            _ => at + 1,
        };
        at = end;
    }
    // Whole comments became spaces, so what is left is text.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Blanks from `at` to the end of a comment; where what follows it begins.
fn blank(bytes: &mut [u8], at: usize, until: &[u8]) -> usize {
    let rest = &bytes[at..];
    let found = rest.windows(until.len()).position(|window| window == until);
    let keeps = if until == b"\n" { 0 } else { until.len() };
    let end = found.map_or(bytes.len(), |place| at + place + keeps);
    bytes[at..end].iter_mut().filter(|byte| !matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    end.max(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ValueNode, String> {
        parse(&Source::new("x.json", text.as_bytes().to_vec()).unwrap()).map_err(|error| error.to_string())
    }

    fn flat(node: &ValueNode) -> String {
        match &node.tree {
            Tree::Null => "null".to_owned(),
            Tree::Scalar { text, quoted } => format!("{text}{}@{}", if *quoted { "'" } else { "" }, node.at),
            Tree::List(items) => format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(" ")),
            Tree::Map(entries) => {
                let entry =
                    |(key, node): &(yaml::Key<usize>, ValueNode)| format!("{}@{}={}", key.text, key.at, flat(node));
                format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn commented_out_lines_of_json_are_no_values_and_keep_their_lines() {
        let text =
            "// ddlb\n{\n\t\"a\": [\"x//y\", // \"b\",\n # \"c\"\n \"d\\\"#\", /* \"e\",\n ß */ 1,\n], \"f\": null}\n";
        assert_eq!(flat(&parsed(text).unwrap()), "{a@3=[x//y'@3 d\"#'@5 1@6] f@7=null}");
    }

    #[test]
    fn what_is_damaged_is_named_with_its_line() {
        for (text, what) in [
            ("", "x.json is empty"),
            ("{\n\"a\": [1,\n", "x.json, line "),
            ("{\"a\": 1,\n\"a\": 2}", "x.json, line 2: `a` is given twice, first in line 1"),
            ("a: &x 1\n", "line 1: anchors, aliases and tags"),
            ("a: 1\n---\nb: 2\n", "a second document"),
            ("{[1]: 2}", "line 1: a key must be a name"),
        ] {
            let why = parsed(text).err().unwrap_or_default();
            assert!(why.contains(what), "{text}: {why}");
        }
        assert!(parsed(&"[".repeat(1000)).is_err() && parsed(&"- ".repeat(1000)).is_err());
        assert!(parsed(&format!("a: {}", "x".repeat(5000))).err().unwrap().contains("a text of 5000 bytes"));
        assert!(parsed(&format!("[{}]", "1,".repeat(30_000))).err().unwrap().contains("more than 20000"));
        assert!(parsed(&format!("#{}", "x".repeat(2 << 20))).err().unwrap().contains("larger than"));
        assert_eq!(shown("a\u{202e}b\nc"), "a b c");
    }
}
