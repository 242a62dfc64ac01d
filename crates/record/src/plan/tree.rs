//! Text to a generic tree in which every key and value knows its place; YAML and JSON alike (JSON is YAML 1.2).
//!
//! Built from the parser's events rather than through serde: a serde visitor loses the place of scalars inside enums,
//! cannot tell `"2"` from `2`, and stops at the first duplicate key. Knows nothing of fields.
//!
//! Hostile text is bounded in size, depth, number of nodes and length of a scalar; anchors, aliases and tags are
//! refused, so that nothing can expand. Depth is bounded while building, so that neither building nor dropping the
//! tree can exhaust the stack.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span};
use terms::Error;

use super::error::Diagnostics;
use super::limits;
use super::source::{At, shown};

/// The smallest plan, for hints.
pub(crate) const SHAPE: &str = "a plan holds `experiment: NAME` and `cases:` with `- benchmark: NAME` items";

/// A value and its place.
pub(crate) struct Node {
    pub(crate) at: At,
    pub(crate) tree: Tree,
}

/// A key as written and its place.
pub(crate) struct Key {
    pub(crate) at: At,
    pub(crate) text: String,
}

/// What a value is.
pub(crate) enum Tree {
    Null,
    /// `quoted` tells `"2"` from `2`.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

impl Node {
    /// What it is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.tree {
            Tree::Null => "nothing",
            Tree::Scalar { .. } => "a single value",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a mapping",
        }
    }
}

enum Frame {
    List {
        at: At,
        items: Vec<Node>,
    },
    /// `key` is the key of the next value, and whether it is the first of its name.
    Map {
        at: At,
        entries: Vec<(Key, Node)>,
        key: Option<(Key, bool)>,
        seen: HashMap<String, At>,
    },
}

struct Builder<'d> {
    source: u32,
    stack: Vec<Frame>,
    root: Option<Node>,
    nodes: usize,
    errors: &'d mut Diagnostics,
}

/// The tree of a text, or None after an error that leaves no tree. Duplicate keys are reported and the first is kept.
pub(crate) fn parse(source: u32, text: &str, errors: &mut Diagnostics) -> Option<Node> {
    let end = At { source, start: text.len() as u32, end: text.len() as u32 };
    let options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: limits::DEPTH,
        block_nesting_limit: limits::DEPTH,
    };
    let mut builder = Builder { source, stack: Vec::new(), root: None, nodes: 0, errors };
    for event in Parser::new_from_str_with_options(text, options) {
        let outcome = match event {
            Ok((event, span)) => builder.event(event, &span),
            Err(error) => Err((builder.marker(error.marker().byte_offset(), text.len()), syntax(&error))),
        };
        if let Err((at, fault)) = outcome {
            builder.errors.add(at, fault);
            return None;
        }
    }
    let root = builder.root.take();
    if root.is_none() {
        errors.add(end, Error::new("the plan is empty").hint(SHAPE));
    }
    root
}

/// The parser's own message, and what to do about the ones that users meet.
fn syntax(error: &granit_parser::ScanError) -> Error {
    use granit_parser::ErrorKind;
    let fault = Error::new(format!("not valid YAML or JSON: {}", error.info()));
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        ErrorKind::UnknownAnchor => no_aliases(),
        ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabNotAllowed => fault.hint("indent with spaces"),
        _ => fault,
    }
}

fn too_deep() -> Error {
    Error::new(format!("nested more than {} levels deep", limits::DEPTH)).hint("a plan needs about five")
}

fn no_aliases() -> Error {
    Error::new("anchors, aliases and merge keys are not part of a plan")
        .hint("write the values out, or put what all cases share under `defaults`")
}

type Step = Result<(), (At, Error)>;

impl Builder<'_> {
    fn at(&self, span: &Span) -> At {
        let range = span.byte_range().unwrap_or(0..0);
        At { source: self.source, start: range.start as u32, end: range.end as u32 }
    }

    fn marker(&self, byte: Option<usize>, length: usize) -> At {
        let start = byte.unwrap_or(length) as u32;
        At { source: self.source, start, end: start + 1 }
    }

    fn event(&mut self, event: Event<'_>, span: &Span) -> Step {
        let at = self.at(span);
        if event.anchor_id().is_some_and(|id| id != 0) || event.is_alias() {
            return Err((at, no_aliases()));
        }
        if event.tag().is_some() {
            return Err((at, Error::new("tags are not part of a plan").hint("write the value alone")));
        }
        match event {
            Event::Scalar(text, style, ..) => self.scalar(&text, style, at),
            Event::SequenceStart(..) => self.open(Frame::List { at, items: Vec::new() }, at),
            Event::MappingStart(..) => {
                self.open(Frame::Map { at, entries: Vec::new(), key: None, seen: HashMap::new() }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::DocumentStart(..) if self.root.is_some() => {
                Err((at, Error::new("a second document begins here").hint("one file holds one plan")))
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, frame: Frame, at: At) -> Step {
        if self.stack.len() >= limits::DEPTH {
            return Err((at, too_deep()));
        }
        self.count(at)?;
        if let Some(Frame::Map { key: None, .. }) = self.stack.last() {
            return Err((at, Error::new("a key must be a name, not a list or a mapping")));
        }
        self.stack.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Step {
        match self.stack.pop() {
            Some(Frame::List { at, items }) => self.put(Node { at, tree: Tree::List(items) }),
            Some(Frame::Map { at, entries, .. }) => self.put(Node { at, tree: Tree::Map(entries) }),
            None => {}
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, at: At) -> Step {
        self.count(at)?;
        if text.len() > limits::SCALAR {
            return Err((at, Error::new(format!("a text of {} bytes; at most {}", text.len(), limits::SCALAR))));
        }
        if let Some(Frame::Map { key: key @ None, seen, .. }) = self.stack.last_mut() {
            if text == "<<" && style == ScalarStyle::Plain {
                return Err((at, no_aliases()));
            }
            let name = terms::normalize(text);
            let first = seen.get(&name).copied();
            match first {
                Some(first) => {
                    let line = self.errors.sources.place(first).position.map_or(0, |(line, _)| line);
                    let fault = Error::new(format!("key `{}` is given twice, first in line {line}", shown(text)));
                    self.errors.add(at, fault);
                }
                None => drop(seen.insert(name, at)),
            }
            *key = Some((Key { at, text: text.to_owned() }, first.is_none()));
            return Ok(());
        }
        let plain = style == ScalarStyle::Plain;
        let tree = match text {
            "" | "~" | "null" | "Null" | "NULL" if plain => Tree::Null,
            _ => Tree::Scalar { text: text.to_owned(), quoted: !plain },
        };
        self.put(Node { at, tree });
        Ok(())
    }

    fn put(&mut self, node: Node) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key, .. }) => {
                if let Some((key, true)) = key.take() {
                    entries.push((key, node));
                }
            }
        }
    }

    fn count(&mut self, at: At) -> Step {
        self.nodes += 1;
        if self.nodes > limits::NODES {
            let fault = Error::new(format!("more than {} keys and values", limits::NODES));
            return Err((at, fault.hint("use ranges (`8..1GiB*2`) and lists, or several plans")));
        }
        Ok(())
    }
}
