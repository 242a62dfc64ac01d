//! Values of a dump, in one flat table: what a pickle shares or nests without end costs no memory and no stack.

use serde_json::Value as Json;
use terms::Error;

/// Values that are kept: more than a ring of 100 000 entries has.
const MOST: usize = 8_000_000;

/// Pairs of an object in which a key is looked for. Objects with fixed keys have fewer.
const PAIRS: usize = 256;

/// The value of a JSON text that is not made to take memory: a value takes 16 times its shortest text.
pub(in crate::traces) fn json(bytes: &[u8]) -> Result<Json, Error> {
    if bytes.iter().filter(|byte| **byte == b',').count() > MOST {
        return Err(Error::new(format!("the dump has more than {} values", MOST)));
    }
    record::from_json(bytes).map_err(|error| Error::new("this is not JSON").cause(error.to_string()))
}

/// One value. Lists and objects hold places in the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Whole(i64),
    Real(f64),
    Text(Box<str>),
    List(Vec<u32>),
    Object(Vec<(u32, u32)>),
}

/// All values of a dump.
#[derive(Debug, Default)]
pub(super) struct DumpTree {
    values: Vec<Value>,
    /// The place of the outermost value.
    pub(super) root: u32,
}

impl DumpTree {
    /// Keeps a value and gives its place.
    pub(super) fn keep(&mut self, value: Value) -> Result<u32, Error> {
        if self.values.len() >= MOST {
            return Err(Error::new(format!("the dump has more than {MOST} values")));
        }
        self.values.push(value);
        Ok((self.values.len() - 1) as u32)
    }

    /// The value of a place, to change it.
    pub(super) fn value_mut(&mut self, place: u32) -> Option<&mut Value> {
        self.values.get_mut(place as usize)
    }

    /// The outermost value.
    pub(super) fn top(&self) -> DumpNode<'_> {
        DumpNode { tree: self, place: self.root }
    }

    /// The values of JSON.
    pub(super) fn of_json(json: Json) -> Result<Self, Error> {
        let mut tree = Self::default();
        tree.root = tree.add(json)?;
        Ok(tree)
    }

    /// serde_json bounds the depth.
    fn add(&mut self, json: Json) -> Result<u32, Error> {
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Value::Whole(whole),
                None => Value::Real(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::Text(text.into_boxed_str()),
            Json::Array(items) => Value::List(items.into_iter().map(|item| self.add(item)).collect::<Result<_, _>>()?),
            Json::Object(pairs) => {
                let mut kept = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    kept.push((self.keep(Value::Text(key.into_boxed_str()))?, self.add(value)?));
                }
                Value::Object(kept)
            }
        };
        self.keep(value)
    }
}

/// One value of a tree.
#[derive(Clone, Copy)]
pub(super) struct DumpNode<'t> {
    tree: &'t DumpTree,
    place: u32,
}

impl<'t> DumpNode<'t> {
    fn value(self) -> Option<&'t Value> {
        self.tree.values.get(self.place as usize)
    }

    fn at(self, place: u32) -> Self {
        Self { tree: self.tree, place }
    }

    /// The value of a key.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        let Some(Value::Object(pairs)) = self.value() else { return None };
        let known = pairs.iter().take(PAIRS).find(|(known, _)| self.at(*known).text() == Some(key));
        known.map(|(_, value)| self.at(*value))
    }

    /// The items of a list; none of what is not a list.
    pub(super) fn items(self) -> impl ExactSizeIterator<Item = Self> {
        let items = if let Some(Value::List(items)) = self.value() { items.as_slice() } else { &[] };
        items.iter().map(move |place| self.at(*place))
    }

    /// The values of an object.
    pub(super) fn values(self) -> impl Iterator<Item = Self> {
        let pairs = if let Some(Value::Object(pairs)) = self.value() { pairs.as_slice() } else { &[] };
        pairs.iter().map(move |(_, value)| self.at(*value))
    }

    /// Whether it is an object.
    pub(super) fn is_object(self) -> bool {
        matches!(self.value(), Some(Value::Object(_)))
    }

    /// A text.
    pub(super) fn text(self) -> Option<&'t str> {
        if let Some(Value::Text(text)) = self.value() { Some(text) } else { None }
    }

    /// A whole number, also one that is written as a text.
    pub(super) fn whole(self) -> Option<i64> {
        match self.value()? {
            Value::Whole(whole) => Some(*whole),
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn real(self) -> Option<f64> {
        match self.value()? {
            Value::Whole(whole) => Some(*whole as f64),
            Value::Real(real) => Some(*real),
            _ => None,
        }
    }

    /// A truth.
    pub(super) fn truth(self) -> Option<bool> {
        match self.value()? {
            Value::Bool(truth) => Some(*truth),
            Value::Whole(whole) => Some(*whole != 0),
            _ => None,
        }
    }
}
