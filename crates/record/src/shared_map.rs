//! Names and values that several owners share: a record of 100,000 cases says most of them many times.

use std::collections::HashSet;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A map in the order of its names' first insertion, shared until one of its owners changes it: then that one gets its own.
///
/// Maps of this kind have some dozen names: they are searched one after the other.
#[derive(Clone, Default)]
pub struct SharedMap(Arc<Members>);

/// Names, which most maps of a record have in common, and a value for each.
#[derive(Clone, Default, PartialEq)]
struct Members {
    names: Arc<Vec<Arc<str>>>,
    values: Vec<Arc<Value>>,
}

impl Members {
    fn iter(&self) -> Iter<'_> {
        self.names.iter().zip(&self.values).map(|(name, value)| (&**name, &**value))
    }

    fn insert(&mut self, place: usize, name: Arc<str>, value: Value) {
        Arc::make_mut(&mut self.names).insert(place, name);
        self.values.insert(place, Arc::new(value));
    }
}

/// Names and values, in order.
type Iter<'m> = std::iter::Map<
    std::iter::Zip<std::slice::Iter<'m, Arc<str>>, std::slice::Iter<'m, Arc<Value>>>,
    fn((&'m Arc<str>, &'m Arc<Value>)) -> (&'m str, &'m Value),
>;

/// The most names that are read: more than all fields of a benchmark together. A file could have a million of them, and the
/// search for each would grow with the square.
const MOST: usize = 256;

/// Names and values of maps that were pooled: equal ones are in memory once.
#[derive(Debug, Default)]
pub struct Pool {
    names: HashSet<Arc<str>>,
    lists: HashSet<Arc<Vec<Arc<str>>>>,
    values: HashSet<Arc<Value>>,
}

impl SharedMap {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.place(name).map(|place| &*self.0.values[place])
    }

    /// The value of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let place = self.place(name)?;
        Some(Arc::make_mut(&mut Arc::make_mut(&mut self.0).values[place]))
    }

    /// Whether it has a value of this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.0.values.len()
    }

    /// Whether it has no name.
    pub fn is_empty(&self) -> bool {
        self.0.values.is_empty()
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> + Clone {
        self.0.iter()
    }

    /// Names, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.0.names.iter().map(|name| &**name)
    }

    /// Values, in the order of their names.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + Clone {
        self.0.values.iter().map(|value| &**value)
    }

    /// Sets a value. A new name is the last.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: Value) {
        let name = name.into();
        let place = self.place(&name);
        let own = Arc::make_mut(&mut self.0);
        match place {
            Some(place) => own.values[place] = Arc::new(value),
            None => own.insert(own.values.len(), name, value),
        }
    }

    /// Sets a new name at a place.
    pub fn shift_insert(&mut self, place: usize, name: impl Into<Arc<str>>, value: Value) {
        let name = name.into();
        debug_assert!(!self.contains_key(&name), "{name}");
        Arc::make_mut(&mut self.0).insert(place, name, value);
    }

    /// Takes a name out and keeps the order of the others.
    pub fn shift_remove(&mut self, name: &str) -> Option<Value> {
        let place = self.place(name)?;
        let own = Arc::make_mut(&mut self.0);
        Arc::make_mut(&mut own.names).remove(place);
        Some(Arc::unwrap_or_clone(own.values.remove(place)))
    }

    /// Keeps what is wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&str, &Value) -> bool) {
        let is_kept: Vec<bool> = self.iter().map(|(name, value)| wanted(name, value)).collect();
        if is_kept.contains(&false) {
            let own = Arc::make_mut(&mut self.0);
            let (mut names, mut values) = (is_kept.iter(), is_kept.iter());
            Arc::make_mut(&mut own.names).retain(|_| names.next() == Some(&true));
            own.values.retain(|_| values.next() == Some(&true));
        }
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.0.names.iter().position(|own| **own == *name)
    }

    /// Takes the other's map where it says the same in the same order.
    pub fn share(&mut self, other: &Self) {
        // Maps are equal whatever their order, but a record is written in the order in which it was read.
        if self.0 == other.0 {
            self.0 = Arc::clone(&other.0);
        }
    }

    /// Shares names and values with all maps that were pooled before. One that is shared whole stays so.
    pub fn pool(&mut self, pool: &mut Pool) {
        let Some(members) = Arc::get_mut(&mut self.0) else { return };
        members.values.shrink_to_fit();
        members.values.iter_mut().for_each(|value| pooled(&mut pool.values, value));
        self.pool_names(pool);
    }

    /// Shares names alone, where values are measured and so differ.
    pub fn pool_names(&mut self, pool: &mut Pool) {
        let Some(members) = Arc::get_mut(&mut self.0) else { return };
        if let Some(known) = pool.lists.get(&members.names) {
            members.names = Arc::clone(known);
            return;
        }
        if let Some(names) = Arc::get_mut(&mut members.names) {
            names.shrink_to_fit();
            names.iter_mut().for_each(|name| pooled(&mut pool.names, name));
        }
        pool.lists.insert(Arc::clone(&members.names));
    }

    /// Whether both say the same in the same order, apart from the value of one name. Fast where what is equal is shared.
    pub fn says_the_same_but(&self, other: &Self, apart: &str) -> bool {
        let values = self.0.values.iter().zip(&other.0.values);
        let is_same = |(name, (own, other)): (&Arc<str>, (&Arc<Value>, &Arc<Value>))| {
            Arc::ptr_eq(own, other) || **name == *apart || own == other
        };
        self.has_names_of(other) && self.0.names.iter().zip(values).all(is_same)
    }

    /// Whether both have the same names in the same order. Fast where names are shared.
    pub fn has_names_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.names, &other.0.names) || self.0.names == other.0.names
    }

    /// Whether both are one map in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A map of one's own.
    pub fn to_map(&self) -> Map<String, Value> {
        self.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }
}

fn pooled<T: ?Sized + std::hash::Hash + Eq>(known: &mut HashSet<Arc<T>>, own: &mut Arc<T>) {
    match known.get(&*own) {
        Some(first) => *own = Arc::clone(first),
        None => drop(known.insert(Arc::clone(own))),
    }
}

impl fmt::Debug for SharedMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

/// Whatever the order.
impl PartialEq for SharedMap {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(name, value)| other.get(name) == Some(value))
    }
}

/// Panics where there is no such name.
impl Index<&str> for SharedMap {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or_else(|| panic!("there is no `{name}`"))
    }
}

impl From<Map<String, Value>> for SharedMap {
    fn from(map: Map<String, Value>) -> Self {
        map.into_iter().collect()
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for SharedMap {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(members: I) -> Self {
        let mut map = Self::default();
        map.extend(members);
        map
    }
}

impl<N: Into<Arc<str>>> Extend<(N, Value)> for SharedMap {
    fn extend<I: IntoIterator<Item = (N, Value)>>(&mut self, members: I) {
        members.into_iter().for_each(|(name, value)| self.insert(name, value));
    }
}

impl<'m> IntoIterator for &'m SharedMap {
    type Item = (&'m str, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for SharedMap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self)
    }
}

impl<'de> Deserialize<'de> for SharedMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MapVisitor)
    }
}

struct MapVisitor;

impl<'de> Visitor<'de> for MapVisitor {
    type Value = SharedMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<SharedMap, A::Error> {
        let (mut names, mut values): (Vec<Arc<str>>, Vec<Arc<Value>>) = Default::default();
        while let Some((Name(name), value)) = from.next_entry::<Name, Value>()? {
            match names.iter().position(|known| *known == name) {
                Some(place) => values[place] = Arc::new(value),
                None => {
                    names.push(name);
                    values.push(Arc::new(value));
                }
            }
            if names.len() > MOST {
                return Err(serde::de::Error::custom(format!("it has more than {MOST} names")));
            }
        }
        // It has room for more: a record may hold 100,000 of them.
        names.shrink_to_fit();
        values.shrink_to_fit();
        Ok(SharedMap(Arc::new(Members { names: Arc::new(names), values })))
    }
}

/// A name, without a string of its own on the way.
struct Name(Arc<str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MapText;
        impl Visitor<'_> for MapText {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Name, E> {
                Ok(Name(name.into()))
            }
        }
        from.deserialize_str(MapText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> SharedMap {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn equal_maps_are_shared_until_one_changes() {
        let (first, mut second) = (map(r#"{"op":"barrier","ranks":2}"#), map(r#"{"op":"barrier","ranks":2}"#));
        assert!(!second.is_shared_with(&first));
        second.share(&first);
        assert!(second.is_shared_with(&first));
        second.insert("ranks".to_owned(), 3.into());
        assert_eq!((first["ranks"].as_u64(), second["ranks"].as_u64()), (Some(2), Some(3)));
    }

    #[test]
    fn maps_that_differ_in_one_value_are_found() {
        let first = map(r#"{"op":"barrier","bytes":8}"#);
        let says = |text: &str| map(text).says_the_same_but(&first, "bytes");
        assert!(says(r#"{"op":"barrier","bytes":8}"#) && says(r#"{"op":"barrier","bytes":16}"#));
        let others = [
            r#"{"op":"reduce","bytes":8}"#,
            r#"{"bytes":8,"op":"barrier"}"#,
            r#"{"op":"barrier","size":8}"#,
            r#"{"op":"barrier"}"#,
        ];
        assert!(others.iter().all(|text| !says(text)));
    }

    #[test]
    fn pooled_maps_share_what_is_equal() {
        let mut pool = Pool::default();
        let mut maps = [map(r#"{"op":"barrier","ranks":2}"#), map(r#"{"op":"barrier","ranks":3}"#)];
        maps.iter_mut().for_each(|map| map.pool(&mut pool));
        let [first, second] = &maps;
        assert!(Arc::ptr_eq(&first.0.values[0], &second.0.values[0]) && Arc::ptr_eq(&first.0.names, &second.0.names));
        assert!(!Arc::ptr_eq(&first.0.values[1], &second.0.values[1]));
        // 1 and 1.0 are written differently.
        let mut numbers = [map(r#"{"a":1}"#), map(r#"{"a":1.0}"#)];
        numbers.iter_mut().for_each(|map| map.pool(&mut pool));
        assert_eq!(numbers.map(|map| serde_json::to_string(&map).unwrap()), [r#"{"a":1}"#, r#"{"a":1.0}"#]);
        let mut own = maps[0].clone();
        *own.get_mut("op").unwrap() = "reduce".into();
        assert_eq!((maps[0]["op"].as_str(), maps[1]["op"].as_str()), (Some("barrier"), Some("barrier")));
        assert_eq!(own["op"], "reduce");
    }

    #[test]
    fn more_names_than_a_case_can_have_are_refused() {
        let read = |names: usize| {
            let members: Vec<String> = (0..names).map(|name| format!("\"{name}\":{name}")).collect();
            serde_json::from_str::<SharedMap>(&format!("{{{}}}", members.join(","))).map(|map| map.len())
        };
        assert_eq!(read(MOST).unwrap(), MOST);
        let refused = read(200_000).unwrap_err().to_string();
        assert!(refused.starts_with("it has more than 256 names"), "{refused}");
    }

    #[test]
    fn the_last_of_equal_names_counts_in_the_place_of_the_first() {
        let mut twice = map(r#"{"a":1,"b":2,"a":3}"#);
        assert_eq!(serde_json::to_string(&twice).unwrap(), r#"{"a":3,"b":2}"#);
        assert_eq!(twice, map(r#"{"b":2,"a":3}"#));
        assert_ne!(twice, map(r#"{"b":2,"c":3}"#));
        assert_eq!((twice.shift_remove("a"), twice.shift_remove("a")), (Some(3.into()), None));
        assert_eq!(twice, map(r#"{"b":2}"#));
    }

    #[test]
    fn order_and_values_are_kept() {
        let first = map(r#"{"op":"barrier","ranks":2}"#);
        for text in [r#"{"ranks":2,"op":"barrier"}"#, r#"{"op":"barrier","ranks":3}"#, r#"{"op":"barrier"}"#] {
            let mut other = map(text);
            other.share(&first);
            assert!(!other.is_shared_with(&first), "{text}");
            assert_eq!(serde_json::to_string(&other).unwrap(), text);
        }
    }
}
