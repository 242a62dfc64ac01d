//! The fields of a configuration: each is taken by name and kind, and what nobody takes is an error.

use terms::Error;

use crate::Source;
use crate::tree::{Tree, ValueNode, kind, shown};

/// The fields of one mapping of a file.
pub(crate) struct MappedFields<'n> {
    pub(crate) source: &'n Source,
    /// Which mapping, for messages: `benchmark`.
    of: String,
    /// Where it begins.
    pub(crate) line: usize,
    entries: Vec<(&'n str, usize, &'n ValueNode, bool)>,
}

impl<'n> MappedFields<'n> {
    /// The fields of a mapping.
    pub(crate) fn of_mapping(source: &'n Source, of: &str, node: &'n ValueNode) -> Result<Self, Error> {
        let Tree::Map(entries) = &node.tree else {
            return Err(source.error(node.at, format!("`{of}` must be a mapping, not {}", kind(node))));
        };
        let entries = entries.iter().map(|(key, node)| (key.text.as_str(), key.at, node, false)).collect();
        Ok(Self { source, of: of.to_owned(), line: node.at, entries })
    }

    /// Takes a field; one without a value is not there.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'n ValueNode> {
        let found = self.entries.iter_mut().find(|(key, ..)| terms::normalize(key) == terms::normalize(name))?;
        found.3 = true;
        let node = found.2;
        (!matches!(node.tree, Tree::Null)).then_some(node)
    }

    /// Takes a field that must be there.
    pub(crate) fn needed(&mut self, name: &str) -> Result<&'n ValueNode, Error> {
        self.take(name).ok_or_else(|| self.source.error(self.line, format!("`{}` has no `{name}`", self.of)))
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(self, names: &[&str]) -> Result<(), Error> {
        let Some((key, line, ..)) = self.entries.iter().find(|(.., taken)| !taken) else { return Ok(()) };
        let hint = terms::suggestion(key, names.iter().copied());
        Err(self.source.error(*line, format!("`{}` has no field `{}`", self.of, shown(key))).hint(hint))
    }

    /// Takes every field that is left, in the order of the file.
    pub(crate) fn rest(&mut self) -> Vec<(&'n str, &'n ValueNode)> {
        let left = self.entries.iter_mut().filter(|(.., taken)| !taken);
        left.map(|entry| {
            entry.3 = true;
            (entry.0, entry.2)
        })
        .collect()
    }
}

/// The values of a field that may be a list.
pub(crate) fn items<'n>(source: &Source, name: &str, node: &'n ValueNode) -> Result<&'n [ValueNode], Error> {
    match &node.tree {
        Tree::List(items) if items.is_empty() => Err(source.error(node.at, format!("`{name}` is an empty list"))),
        Tree::List(items) => Ok(items),
        _ => Ok(std::slice::from_ref(node)),
    }
}

/// A text.
pub(crate) fn text<'n>(source: &Source, name: &str, node: &'n ValueNode) -> Result<&'n str, Error> {
    match &node.tree {
        Tree::Scalar { text, .. } => Ok(text),
        _ => Err(source.error(node.at, format!("`{name}` must be a text, not {}", kind(node)))),
    }
}

/// A whole number in a range. A text in quotes is none.
pub(crate) fn whole(source: &Source, name: &str, node: &ValueNode, low: u64, high: u64) -> Result<u64, Error> {
    let number = match &node.tree {
        Tree::Scalar { text, quoted: false } => text.parse::<u64>().ok().filter(|number| (low..=high).contains(number)),
        _ => None,
    };
    number.ok_or_else(|| {
        let what = format!("`{name}` must be a whole number from {low} to {high}, not {}", kind(node));
        source.error(node.at, what)
    })
}

/// Whole numbers of a field that may be a list.
pub(crate) fn wholes(source: &Source, name: &str, node: &ValueNode, low: u64, high: u64) -> Result<Vec<u64>, Error> {
    items(source, name, node)?.iter().map(|item| whole(source, name, item, low, high)).collect()
}

/// A number above zero, and no larger than any of the field could be.
pub(crate) fn positive_number(source: &Source, name: &str, node: &ValueNode, high: f64) -> Result<f64, Error> {
    let number = match &node.tree {
        Tree::Scalar { text, quoted: false } => {
            text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= high)
        }
        _ => None,
    };
    number.ok_or_else(|| {
        let what = format!("`{name}` must be a number above 0 and up to {high}, not {}", kind(node));
        source.error(node.at, what)
    })
}

/// `true` or `false`.
pub(crate) fn flag(source: &Source, name: &str, node: &ValueNode) -> Result<bool, Error> {
    match &node.tree {
        Tree::Scalar { text, quoted: false } if matches!(text.as_str(), "true" | "True") => Ok(true),
        Tree::Scalar { text, quoted: false } if matches!(text.as_str(), "false" | "False") => Ok(false),
        _ => Err(source.error(node.at, format!("`{name}` must be true or false, not {}", kind(node)))),
    }
}

/// One of these words; case, hyphens and underscores are the same.
pub(crate) fn word<'w>(source: &Source, name: &str, node: &ValueNode, words: &[&'w str]) -> Result<&'w str, Error> {
    let given = text(source, name, node)?;
    one_of(source, name, given, node.at, words)
}

/// As [`word`], of a text that is a part of a value.
pub(crate) fn one_of<'w>(
    source: &Source,
    name: &str,
    given: &str,
    line: usize,
    words: &[&'w str],
) -> Result<&'w str, Error> {
    let wanted = terms::normalize(given.trim());
    let found = words.iter().find(|word| terms::normalize(word) == wanted).copied();
    found.ok_or_else(|| {
        let hint = terms::suggestion(given, words.iter().copied());
        source.error(line, format!("`{name}` does not take `{}`", shown(given))).hint(hint)
    })
}
