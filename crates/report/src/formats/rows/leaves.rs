//! Anything that serde can write, as flat names and plain values: `time_s.median`, 1.5e-6. Knows no file format.
//!
//! Rejected: `serde_json::to_value` and a walk over it. The map that it builds for every case takes most of the time of
//! a large table.

use std::fmt::{self, Display, Write};

use serde::ser::{Impossible, SerializeMap, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};
use serde_json::{Error, Value};

/// The leaves of one value. Room is kept for those of the next.
#[derive(Default)]
pub(super) struct Leaves {
    held: Vec<(String, Value)>,
    used: usize,
    /// The name of what is written now.
    path: String,
    /// Whether names differ from those of the value before.
    renamed: bool,
}

impl Leaves {
    /// The leaves of `value` in its order. Lists are leaves.
    pub(super) fn flatten(&mut self, value: &impl Serialize) -> &[(String, Value)] {
        let before = std::mem::take(&mut self.used);
        self.renamed = false;
        self.path.clear();
        // A case line is plain data with text keys, so this conversion cannot fail.
        if value.serialize(&mut *self).is_err() {
            self.used = 0;
        }
        self.renamed |= self.used != before;
        self.last()
    }

    /// The leaves of the last value.
    pub(super) fn last(&self) -> &[(String, Value)] {
        &self.held[..self.used]
    }

    /// Whether the names of the last value's leaves are not those of the value before it.
    pub(super) fn are_renamed(&self) -> bool {
        self.renamed
    }

    fn put(&mut self, value: Value) {
        if self.used == self.held.len() {
            self.held.push(Default::default());
        }
        let (name, held) = &mut self.held[self.used];
        if *name != self.path {
            name.clone_from(&self.path);
            self.renamed = true;
        }
        *held = value;
        self.used += 1;
    }

    fn nested(&mut self) -> Nested<'_> {
        Nested { begin: self.path.len(), leaves: self }
    }
}

/// A key as text, without a string of its own.
struct ShownKey<'k, K: ?Sized>(&'k K);

impl<K: Serialize + ?Sized> Display for ShownKey<'_, K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.serialize(to)
    }
}

/// What has members.
pub(super) struct Nested<'l> {
    leaves: &'l mut Leaves,
    /// Bytes of the name that all members share.
    begin: usize,
}

impl Nested<'_> {
    /// The path up to the name of a member.
    fn path(&mut self) -> &mut String {
        let path = &mut self.leaves.path;
        path.truncate(self.begin);
        if !path.is_empty() {
            path.push('.');
        }
        path
    }
}

impl SerializeMap for Nested<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        write!(self.path(), "{}", ShownKey(key)).map_err(|_| serde::ser::Error::custom("a key that is not text"))
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.leaves)
    }

    fn end(self) -> Result<(), Error> {
        self.leaves.path.truncate(self.begin);
        Ok(())
    }
}

impl SerializeStruct for Nested<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.path().push_str(key);
        value.serialize(&mut *self.leaves)
    }

    fn end(self) -> Result<(), Error> {
        SerializeMap::end(self)
    }
}

/// A list, whatever is in it.
pub(super) struct List<'l> {
    leaves: &'l mut Leaves,
    items: Vec<Value>,
}

impl SerializeSeq for List<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        self.items.push(serde_json::to_value(item)?);
        Ok(())
    }

    fn end(self) -> Result<(), Error> {
        self.leaves.put(Value::Array(self.items));
        Ok(())
    }
}

impl serde::ser::SerializeTuple for List<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, item)
    }

    fn end(self) -> Result<(), Error> {
        SerializeSeq::end(self)
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, value: $type) -> Result<(), Error> {
            self.put(Value::from(value));
            Ok(())
        })+
    };
}

/// What a record does not hold: enums with values and tuples with names.
fn foreign<T>() -> Result<T, Error> {
    Err(serde::ser::Error::custom("no part of a record"))
}

impl<'l> Serializer for &'l mut Leaves {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'l>;
    type SerializeTuple = List<'l>;
    type SerializeTupleStruct = Impossible<(), Error>;
    type SerializeTupleVariant = Impossible<(), Error>;
    type SerializeMap = Nested<'l>;
    type SerializeStruct = Nested<'l>;
    type SerializeStructVariant = Impossible<(), Error>;

    // What is not finite becomes null, as in JSON.
    scalars!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_f32: f32,
        serialize_f64: f64, serialize_str: &str
    );

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.put(Value::from(value));
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.put(Value::Null);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        foreign()
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<List<'l>, Error> {
        Ok(List { leaves: self, items: Vec::with_capacity(length.unwrap_or(0)) })
    }

    fn serialize_tuple(self, length: usize) -> Result<List<'l>, Error> {
        self.serialize_seq(Some(length))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Impossible<(), Error>, Error> {
        foreign()
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>, Error> {
        foreign()
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Nested<'l>, Error> {
        Ok(self.nested())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Nested<'l>, Error> {
        Ok(self.nested())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Impossible<(), Error>, Error> {
        foreign()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_have_dotted_names_and_lists_are_leaves() {
        let mut leaves = Leaves::default();
        let value = json!({"a": 1, "b": {"c": "x", "d": {"e": null}, "f": [1, {"g": 2}]}, "h": {}, "i": true});
        let names = |leaves: &[(String, Value)]| leaves.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let found = leaves.flatten(&value);
        assert_eq!(names(found), ["a", "b.c", "b.d.e", "b.f", "i"]);
        let values: Vec<&Value> = found.iter().map(|(_, value)| value).collect();
        assert_eq!(values, [&json!(1), &json!("x"), &json!(null), &json!([1, {"g": 2}]), &json!(true)]);
        // The next one is not mixed up with it.
        assert_eq!(leaves.flatten(&json!({"i": f64::NAN})), [("i".to_owned(), Value::Null)]);
        assert_eq!(leaves.flatten(&json!({})), []);
    }

    #[test]
    fn every_part_of_a_case_line_is_a_leaf() {
        let time = record::TimeSummary { median: 1.0, ci95: Some([0.5, 2.0]), ..Default::default() };
        let case: record::Case = serde_json::from_value(json!({
            "id": "x", "benchmark": "collective", "parameters": {"op": "barrier"}, "settings": {}, "world": {},
            "caveats": ["simulated"], "bytes_requested": null, "skip": null
        }))
        .unwrap();
        let mut line = record::CaseLine::unmeasured(&case, terms::Status::Ok, "none");
        line.time_s = Some(time);
        line.worlds = Some(record::WorldUse::Fresh);
        line.limit = Some(Box::default());
        line.wrong_elements.push(record::WrongElement { rank: 1, index: 2, expected: "3".into(), got: "4".into() });
        let mut leaves = Leaves::default();
        let found = leaves.flatten(&line);
        // The same, by way of JSON.
        let json = serde_json::to_value(&line).unwrap();
        let mut by_json = Leaves::default();
        assert_eq!(found, by_json.flatten(&json));
        let of = |name: &str| found.iter().find(|(leaf, _)| leaf == name).map(|(_, value)| value.clone());
        assert_eq!(of("time_s.median"), Some(json!(1.0)));
        assert_eq!(of("time_s.ci95"), Some(json!([0.5, 2.0])));
        assert_eq!(of("parameters.op"), Some(json!("barrier")));
        assert_eq!(of("caveats"), Some(json!(["simulated"])));
        assert_eq!((of("worlds"), of("status")), (Some(json!("fresh")), Some(json!("ok"))));
    }
}
