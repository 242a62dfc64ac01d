//! One combination of a plan's values: what is measured, how long, and in which world.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use terms::Field;

use crate::schema::words::{Scalar, SchemaWords};
use crate::{Caveat, Pool, Roles, SharedMap};

/// One case. Parameters are scalars; their order is that of the declared fields.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// 12 hex digits of SHA-256 over the canonical JSON of benchmark and parameters.
    pub id: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// What is measured: the case's identity.
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub parameters: SharedMap,
    /// How it is sampled: not part of the identity.
    #[schemars(with = "Map<String, Value>")]
    pub settings: SharedMap,
    /// The parameters and settings that decide in which rank processes it runs; cases with equal worlds share them.
    #[schemars(with = "Map<String, Value>")]
    pub world: SharedMap,
    /// Caveats that are known before it runs.
    #[schemars(with = "Vec<SchemaWords<Caveat>>")]
    pub caveats: Vec<Caveat>,
    /// The size asked for, when it was rounded down.
    pub bytes_requested: Option<u64>,
    /// Why it must not run here, when that is known before it runs.
    pub skip: Option<String>,
}

impl Case {
    /// A case of a benchmark with these parameters. It has no identity, no settings, no world and no caveat.
    pub fn new(benchmark: &str, parameters: SharedMap) -> Self {
        Self {
            id: String::new(),
            benchmark: benchmark.to_owned(),
            parameters,
            settings: SharedMap::default(),
            world: SharedMap::default(),
            caveats: Vec::new(),
            bytes_requested: None,
            skip: None,
        }
    }

    /// Parameter or setting.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.parameters.get(name).or_else(|| self.settings.get(name))
    }

    /// The value of a field, in an older record under an earlier name.
    pub fn value_of(&self, field: &Field) -> Option<&Value> {
        field.names().find_map(|name| self.value(name))
    }

    /// A whole number.
    pub fn whole(&self, name: &str) -> Option<u64> {
        self.value(name)?.as_u64()
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.as_f64()
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.as_str()
    }

    /// A truth value; absent is false.
    pub fn flag(&self, name: &str) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A list of texts; absent is empty. Parameters must be scalars, so a parameter's list is kept joined by spaces.
    pub fn texts(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(joined)) => joined.split_whitespace().map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    }

    /// A word of a closed set.
    pub fn word<T: terms::Named>(&self, name: &str) -> Option<T> {
        T::from_name(self.text(name)?)
    }

    /// Whether it is the same case, though one of the two may have earlier names of fields.
    pub fn is_same(&self, other: &Self, roles: &impl Roles) -> bool {
        let first = |map: &SharedMap| -> SharedMap {
            map.iter().map(|(name, value)| (roles.first_name(name), value.clone())).collect()
        };
        let named = |case: &Self| Self {
            parameters: first(&case.parameters),
            settings: first(&case.settings),
            world: first(&case.world),
            ..case.clone()
        };
        named(self) == named(other)
    }

    /// Recomputes the identity from benchmark and parameters. `roles` are those of the benchmark's fields: they know which of
    /// them had another name.
    pub fn identify(&mut self, roles: &impl Roles) {
        self.id = identity(&self.benchmark, &self.parameters, roles);
    }
}

/// Reads the cases of a plan. Most say the same of their settings and worlds as one of the last.
pub(crate) fn read_cases<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Case>, D::Error> {
    struct Cases;
    impl<'de> serde::de::Visitor<'de> for Cases {
        type Value = Vec<Case>;

        fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            text.write_str("a list of cases")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Case>, A::Error> {
            let mut cases: Vec<Case> = Vec::new();
            let mut pool = Pool::default();
            while let Some(mut case) = items.next_element::<Case>()? {
                share_with_last(&mut case, &cases);
                case.parameters.pool(&mut pool);
                cases.push(case);
            }
            cases.shrink_to_fit();
            Ok(cases)
        }
    }
    from.deserialize_seq(Cases)
}

/// Shares settings and world with one of the last cases: a few, so that reading stays linear.
fn share_with_last(case: &mut Case, before: &[Case]) {
    const LAST: usize = 4;
    for known in before.iter().rev().take(LAST) {
        case.settings.share(&known.settings);
        case.world.share(&known.world);
    }
}

/// 12 hex digits of SHA-256 over canonical JSON: keys sorted, no white space. A renamed field has its first name in it.
fn identity(benchmark: &str, parameters: &SharedMap, roles: &impl Roles) -> String {
    let sorted: std::collections::BTreeMap<_, _> =
        parameters.iter().map(|(name, value)| (roles.first_name(name), value)).collect();
    let canonical = crate::to_json(&serde_json::json!({ "benchmark": benchmark, "parameters": sorted }))
        .expect("a JSON value is JSON");
    Sha256::digest(canonical.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_ignores_order_and_sees_values() {
        let map = |text: &str| serde_json::from_str::<SharedMap>(text).unwrap();
        let of = |text: &str| identity("collective", &map(text), &None::<&crate::About>);
        let first = of(r#"{"op":"all_reduce","ranks":2}"#);
        assert_eq!(first, of(r#"{"ranks":2,"op":"all_reduce"}"#));
        assert_ne!(first, of(r#"{"ranks":3,"op":"all_reduce"}"#));
        assert_eq!(first.len(), 12);
    }
}
