//! Text as a tree in which every key and value knows its place: YAML, and JSON, which is YAML 1.2.
//!
//! Built from the parser's events rather than through serde: a serde visitor loses the place of scalars inside enums,
//! cannot tell `"2"` from `2`, and stops at the first duplicate key. Knows nothing of what the text is for.
//!
//! Hostile text is bounded in depth, number of nodes and length of a scalar; anchors, aliases and tags are refused, so that
//! nothing can expand. Depth is bounded while building, so that neither building nor dropping the tree can exhaust the stack.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span};
use terms::outside;

/// A value and its place.
#[derive(Debug)]
pub struct Node<P> {
    /// Where it was written.
    pub at: P,
    /// What it is.
    pub tree: Tree<P>,
}

/// A key as written and its place.
#[derive(Debug)]
pub struct Key<P> {
    /// Where it was written.
    pub at: P,
    /// The key.
    pub text: String,
}

/// What a value is.
#[derive(Debug)]
pub enum Tree<P> {
    /// Nothing, or `null`.
    Null,
    /// A number, a word, a text.
    Scalar {
        /// The text as written, without quotes.
        text: String,
        /// Tells `"2"` from `2`.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node<P>>),
    /// A mapping, in the order of the text.
    Map(Vec<(Key<P>, Node<P>)>),
}

/// How much a text may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Levels of nesting.
    pub depth: usize,
    /// Keys and values.
    pub nodes: usize,
    /// Bytes of one scalar.
    pub scalar: usize,
}

impl<P> Node<P> {
    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.tree {
            Tree::Null => "nothing",
            Tree::Scalar { .. } => "a single value",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a mapping",
        }
    }
}

/// Why there is no tree. The reader of the text words it: it knows what the text is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The text is neither YAML nor JSON; the parser's own words, and whether a tab is at fault.
    Syntax {
        /// What the parser says.
        message: String,
        /// A tab stands where spaces must.
        is_tab: bool,
    },
    /// Nested too deep.
    TooDeep,
    /// More keys and values than allowed.
    TooMany,
    /// A scalar of so many bytes.
    TooLong(usize),
    /// An anchor, an alias or a merge key.
    Alias,
    /// A tag.
    Tag,
    /// A list or a mapping as a key.
    NotAName,
    /// A second document begins.
    Second,
}

/// How a text is read into places of its reader.
pub trait Places<P> {
    /// The place of a stretch of the text, in bytes.
    fn place(&self, range: Range<usize>) -> P;

    /// What makes two keys the same.
    fn name(&self, key: &str) -> String;

    /// A key that its mapping has twice; only the first is kept.
    fn twice(&mut self, key: &str, at: P, first: P);
}

/// The tree of a text; None where it has no value.
///
/// # Errors
/// What leaves no tree, and where it stands.
pub fn parse<P: Copy>(text: &str, limits: Limits, places: &mut impl Places<P>) -> Result<Option<Node<P>>, (P, Fault)> {
    let options = granit_parser::options! {
        disallow_directives: true,
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    let mut builder = Builder { places, limits, stack: Vec::new(), root: None, nodes: 0 };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => builder.event(event, &span)?,
            Err(error) => {
                let start = error.marker().byte_offset().unwrap_or(text.len());
                return Err((builder.places.place(start..start + 1), syntax(&error)));
            }
        }
    }
    Ok(builder.root)
}

fn syntax(error: &ScanError) -> Fault {
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => Fault::TooDeep,
        ErrorKind::UnknownAnchor => Fault::Alias,
        kind => Fault::Syntax {
            message: outside::text(&error.info()).into_owned(),
            is_tab: matches!(
                kind,
                ErrorKind::TabInBlockIndentation
                    | ErrorKind::TabInIndentation
                    | ErrorKind::TabInPlainScalar
                    | ErrorKind::TabNotAllowed
            ),
        },
    }
}

enum YamlFrame<P> {
    List {
        at: P,
        items: Vec<Node<P>>,
    },
    /// `key` is the key of the next value, and whether it is the first of its name.
    Map {
        at: P,
        entries: Vec<(Key<P>, Node<P>)>,
        key: Option<(Key<P>, bool)>,
        seen: HashMap<String, P>,
    },
}

struct Builder<'p, P, R> {
    places: &'p mut R,
    limits: Limits,
    stack: Vec<YamlFrame<P>>,
    root: Option<Node<P>>,
    nodes: usize,
}

type ReadStep<P> = Result<(), (P, Fault)>;

impl<P: Copy, R: Places<P>> Builder<'_, P, R> {
    fn event(&mut self, event: Event<'_>, span: &Span) -> ReadStep<P> {
        let at = self.places.place(span.byte_range().unwrap_or(0..0));
        if event.anchor_id().is_some_and(|id| id != 0) || event.is_alias() {
            return Err((at, Fault::Alias));
        }
        if event.tag().is_some() {
            return Err((at, Fault::Tag));
        }
        match event {
            Event::Scalar(text, style, ..) => self.scalar(&outside::text(&text), style, at),
            Event::SequenceStart(..) => self.open(YamlFrame::List { at, items: Vec::new() }, at),
            Event::MappingStart(..) => {
                self.open(YamlFrame::Map { at, entries: Vec::new(), key: None, seen: HashMap::new() }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.close();
                Ok(())
            }
            Event::DocumentStart(..) if self.root.is_some() => Err((at, Fault::Second)),
            _ => Ok(()),
        }
    }

    fn open(&mut self, frame: YamlFrame<P>, at: P) -> ReadStep<P> {
        if self.stack.len() >= self.limits.depth {
            return Err((at, Fault::TooDeep));
        }
        self.count(at)?;
        if let Some(YamlFrame::Map { key: None, .. }) = self.stack.last() {
            return Err((at, Fault::NotAName));
        }
        self.stack.push(frame);
        Ok(())
    }

    fn close(&mut self) {
        match self.stack.pop() {
            Some(YamlFrame::List { at, items }) => self.put(Node { at, tree: Tree::List(items) }),
            Some(YamlFrame::Map { at, entries, .. }) => self.put(Node { at, tree: Tree::Map(entries) }),
            None => {}
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, at: P) -> ReadStep<P> {
        self.count(at)?;
        if text.len() > self.limits.scalar {
            return Err((at, Fault::TooLong(text.len())));
        }
        let plain = style == ScalarStyle::Plain;
        if let Some(YamlFrame::Map { key: key @ None, seen, .. }) = self.stack.last_mut() {
            if plain && text == "<<" {
                return Err((at, Fault::Alias));
            }
            let first = match seen.entry(self.places.name(text)) {
                Entry::Occupied(first) => Some(*first.get()),
                Entry::Vacant(free) => {
                    free.insert(at);
                    None
                }
            };
            *key = Some((Key { at, text: text.to_owned() }, first.is_none()));
            if let Some(first) = first {
                self.places.twice(text, at, first);
            }
            return Ok(());
        }
        let tree = match text {
            "" | "~" | "null" | "Null" | "NULL" if plain => Tree::Null,
            _ => Tree::Scalar { text: text.to_owned(), quoted: !plain },
        };
        self.put(Node { at, tree });
        Ok(())
    }

    fn put(&mut self, node: Node<P>) {
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(YamlFrame::List { items, .. }) => items.push(node),
            Some(YamlFrame::Map { entries, key, .. }) => {
                if let Some((key, true)) = key.take() {
                    entries.push((key, node));
                }
            }
        }
    }

    fn count(&mut self, at: P) -> ReadStep<P> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes { Err((at, Fault::TooMany)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { depth: 8, nodes: 20, scalar: 10 };

    /// Places are first bytes; keys are the same where they are equal.
    #[derive(Default)]
    struct Bytes(Vec<(String, usize, usize)>);

    impl Places<usize> for Bytes {
        fn place(&self, range: Range<usize>) -> usize {
            range.start
        }

        fn name(&self, key: &str) -> String {
            key.to_owned()
        }

        fn twice(&mut self, key: &str, at: usize, first: usize) {
            self.0.push((key.to_owned(), at, first));
        }
    }

    #[test]
    fn faults_have_a_kind_and_a_place() {
        let fault = |text: &str| parse(text, LIMITS, &mut Bytes::default()).unwrap_err();
        for (text, wanted) in [
            ("a: &x 1", (6, Fault::Alias)),
            ("a: {<<: b}", (4, Fault::Alias)),
            ("a: !!str 1", (9, Fault::Tag)),
            ("{[1]: 2}", (1, Fault::NotAName)),
            ("a: 12345678901", (3, Fault::TooLong(11))),
        ] {
            assert_eq!(fault(text), wanted, "{text}");
        }
        assert_eq!(fault(&"- ".repeat(100)).1, Fault::TooDeep);
        assert_eq!(fault(&"[".repeat(100)).1, Fault::TooDeep);
        assert_eq!(fault(&format!("[{}]", "1,".repeat(30))).1, Fault::TooMany);
        assert_eq!(fault("a: 1\n---\nb: 2\n").1, Fault::Second);
        assert!(matches!(fault("a:\n\t- 1").1, Fault::Syntax { is_tab: true, .. }));
        assert!(matches!(fault("{\"a\": [1,").1, Fault::Syntax { is_tab: false, .. }));
    }

    #[test]
    fn of_two_equal_keys_the_first_is_kept() {
        let mut places = Bytes::default();
        let root = parse("{a: 1, b: ~, a: '2'}", LIMITS, &mut places).unwrap().unwrap();
        let Tree::Map(entries) = root.tree else { panic!("{root:?}") };
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
        assert_eq!((keys, &places.0), (vec!["a", "b"], &vec![("a".to_owned(), 13, 1)]));
        assert!(matches!(&entries[0].1.tree, Tree::Scalar { text, quoted: false } if text == "1"));
        assert!(matches!(entries[1].1.tree, Tree::Null));
        assert!(parse("", LIMITS, &mut places).unwrap().is_none());
    }
}
