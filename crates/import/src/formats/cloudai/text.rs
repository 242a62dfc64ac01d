//! TOML as a tree in which every key and value knows its line.

use terms::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Source;
use crate::tree::{Tree, ValueNode, one_line};

/// The largest configuration.
const BYTES: usize = 1 << 20;
/// The most levels.
const DEPTH: usize = 32;

/// The tree of a file.
pub(super) fn parse(source: &Source) -> Result<ValueNode, Error> {
    let text = source.text();
    if text.len() > BYTES {
        let what = format!("{} is larger than {} KiB, which no test is", source.name(), BYTES >> 10);
        return Err(Error::new(what));
    }
    let lines =
        CloudaiLines { begins: std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect() };
    match DeTable::parse(text) {
        Ok(table) => lines.table(source, table.get_ref(), 1, 0),
        Err(error) => {
            let line = error.span().map_or(1, |span| lines.line_at(span.start));
            Err(source.error(line, format!("not valid TOML: {}", one_line(error.message()))))
        }
    }
}

struct CloudaiLines {
    begins: Vec<usize>,
}

impl CloudaiLines {
    /// The line of a place, from 1.
    fn line_at(&self, at: usize) -> usize {
        self.begins.partition_point(|begin| *begin <= at).max(1)
    }

    fn table(&self, source: &Source, table: &DeTable<'_>, line: usize, depth: usize) -> Result<ValueNode, Error> {
        if depth > DEPTH {
            return Err(source.error(line, format!("nested more than {DEPTH} levels deep")));
        }
        let mut entries: Vec<_> = table.iter().collect();
        // The order of the file.
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut tree = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let at = self.line_at(key.span().start);
            let key_of = record::yaml::Key { at, text: key.get_ref().to_string() };
            tree.push((key_of, self.value(source, value, at, depth)?));
        }
        Ok(ValueNode { at: line, tree: Tree::Map(tree) })
    }

    fn value(
        &self,
        source: &Source,
        value: &Spanned<DeValue<'_>>,
        key: usize,
        depth: usize,
    ) -> Result<ValueNode, Error> {
        // CloudAI takes numbers in quotes, too: what a text is, its field says.
        let scalar = |text: String| Tree::Scalar { text, quoted: false };
        let at = if value.span().is_empty() { key } else { self.line_at(value.span().start) };
        let tree = match value.get_ref() {
            DeValue::String(text) => scalar(text.to_string()),
            DeValue::Integer(number) if number.radix() == 10 => scalar(number.as_str().to_owned()),
            DeValue::Integer(number) => {
                let parsed = u64::from_str_radix(number.as_str(), number.radix());
                let what = || source.error(at, "a whole number that is too large");
                scalar(parsed.map_err(|_| what())?.to_string())
            }
            DeValue::Float(number) => scalar(number.as_str().to_owned()),
            DeValue::Boolean(is_true) => scalar(is_true.to_string()),
            DeValue::Datetime(time) => scalar(time.to_string()),
            DeValue::Array(items) => {
                let items = items.iter().map(|item| self.value(source, item, at, depth + 1));
                Tree::List(items.collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => return self.table(source, table, key, depth + 1),
        };
        Ok(ValueNode { at, tree })
    }
}
