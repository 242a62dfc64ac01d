//! Names and values that several owners share: a record of 100,000 cases says most of them several times.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A map that is shared until one of its owners changes it: then that one gets its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedMap(Arc<Map<String, Value>>);

impl SharedMap {
    /// Takes the other's map where it says the same in the same order.
    pub fn share(&mut self, other: &Self) {
        // Maps are equal whatever their order, but a record is written in the order in which it was read.
        if self.0.len() == other.0.len() && self.0.iter().eq(other.0.iter()) {
            self.0 = Arc::clone(&other.0);
        }
    }

    /// Whether both are one map in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A map of one's own.
    pub fn to_map(&self) -> Map<String, Value> {
        Map::clone(&self.0)
    }
}

impl Deref for SharedMap {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for SharedMap {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Map<String, Value>> for SharedMap {
    fn from(map: Map<String, Value>) -> Self {
        Self(Arc::new(map))
    }
}

impl FromIterator<(String, Value)> for SharedMap {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(members: I) -> Self {
        Self(Arc::new(members.into_iter().collect()))
    }
}

impl<'m> IntoIterator for &'m SharedMap {
    type Item = (&'m String, &'m Value);
    type IntoIter = serde_json::map::Iter<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for SharedMap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for SharedMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A map that grew has room for twice as much and no way to shrink; one of known length is made as large as that.
        Map::deserialize(from).map(|map| map.into_iter().collect())
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
