//! Declared fields as a struct: one list makes the field table and the typed members that a benchmark's code reads.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use terms::{Field, FieldError, Kind};

use crate::{Case, SharedMap, read_value};

/// What holds the values of fields: a case, or the fields of its world.
pub trait Values {
    /// The value of this name.
    fn value(&self, name: &str) -> Option<&Value>;
}

impl Values for Case {
    fn value(&self, name: &str) -> Option<&Value> {
        Case::value(self, name)
    }
}

impl Values for Map<String, Value> {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

impl Values for SharedMap {
    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name)
    }
}

/// The declared defaults of a list of fields, read once: a plan of many cases would read each of them for every case.
#[derive(Debug)]
pub struct Defaults(OnceLock<Vec<DefaultValue>>);

/// What a field has without a value, or why its declaration is wrong.
pub type DefaultValue = Result<Value, String>;

impl Defaults {
    /// Reads nothing yet.
    #[expect(clippy::new_without_default, reason = "made by `fields!`, for a static")]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The defaults of these fields, in their order. Always the same fields.
    pub fn of(&self, fields: &[Field]) -> &[DefaultValue] {
        self.0.get_or_init(|| fields.iter().map(default).collect())
    }
}

fn default(field: &Field) -> DefaultValue {
    match (field.kind, field.default) {
        (Kind::Texts, _) => Ok(Value::Array(Vec::new())),
        (_, Some(text)) => read_value(field, text),
        (_, None) => Ok(Value::Null),
    }
}

/// A field's value, in an older record under an earlier name, else its default. Without either an `Option` is None and a list is empty.
///
/// # Errors
/// When the value is of another type, or there is none.
pub fn typed<T: DeserializeOwned>(
    values: &impl Values,
    field: &Field,
    default: &DefaultValue,
) -> Result<T, FieldError> {
    let problem = |message: String| FieldError::new(field.name, message);
    let joined: Value;
    let value = match (field.names().find_map(|name| values.value(name)), field.kind) {
        // Parameters are scalars, so a parameter's list is kept joined by spaces.
        (Some(Value::String(text)), Kind::Texts) => {
            joined = text.split_whitespace().collect();
            &joined
        }
        (Some(value), _) => value,
        (None, _) => default.as_ref().map_err(|cause| problem(cause.clone()))?,
    };
    if value.is_null() {
        return T::deserialize(value).map_err(|_| problem(format!("`{}` has no value", field.name)));
    }
    T::deserialize(value).map_err(|error| problem(format!("`{}`: {error}", field.name)))
}

/// Declares fields once: `member: Type = Field`. Gives a struct with these members, its table `FIELDS` in the same order, and
/// `of`, which reads the members of a case. A field's name is the member's.
#[macro_export]
macro_rules! fields {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($member:ident: $type:ty = $field:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            $(#[doc = concat!("The field `", stringify!($member), "`.")] $vis $member: $type),+
        }

        impl $name {
            /// The declared fields, in the order of the record.
            $vis const FIELDS: &'static [$crate::terms::Field] =
                &[$($field.named(stringify!($member))),+];

            /// The declared fields, for a declaration.

            $vis fn fields() -> &'static [$crate::terms::Field] {
                Self::FIELDS
            }

            /// Reads the fields' values; one that is not given has its declared default.
            ///
            /// # Errors
            /// The first field that has a value of another type, or none.
            $vis fn of(values: &impl $crate::Values) -> Result<Self, $crate::terms::FieldError> {
                static DEFAULTS: $crate::Defaults = $crate::Defaults::new();
                let mut declared = Self::FIELDS.iter().zip(DEFAULTS.of(Self::FIELDS));
                // Members stand in the order of the table that is made of the same list.
                $(let $member = {
                    let (field, default) = declared.next().expect("a field for each member");
                    $crate::typed(values, field, default)?
                };)+
                Ok(Self { $($member),+ })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::{Collective, Named};

    const fn field(kind: Kind, default: Option<&'static str>) -> Field {
        Field::new(kind, default, "")
    }

    crate::fields! {
        /// One of each kind.
        struct Fields {
            op: Collective = field(Kind::Word(Collective::names), Some("all_reduce")),
            bytes: u64 = field(Kind::Bytes, Some("1KiB")),
            limit: Option<u64> = field(Kind::Bytes, None),
            latency: f64 = field(Kind::Seconds, Some("5us")),
            touch: bool = field(Kind::Bool, Some("true")),
            file: Option<String> = field(Kind::Text, None),
            inject: Vec<String> = field(Kind::Texts, None),
        }
    }

    fn of(text: &str) -> Result<Fields, FieldError> {
        Fields::of(&serde_json::from_str::<Map<String, Value>>(text).unwrap())
    }

    #[test]
    fn a_member_has_its_value_or_its_default() {
        let names: Vec<&str> = Fields::fields().iter().map(|field| field.name).collect();
        assert_eq!(names, ["op", "bytes", "limit", "latency", "touch", "file", "inject"]);
        let absent = Fields {
            op: Collective::AllReduce,
            bytes: 1024,
            limit: None,
            latency: 5e-6,
            touch: true,
            file: None,
            inject: Vec::new(),
        };
        assert_eq!(of("{}"), Ok(absent.clone()));
        let given = Fields { op: Collective::Barrier, limit: Some(7), inject: vec!["a".into(), "b".into()], ..absent };
        assert_eq!(of(r#"{"op": "barrier", "limit": 7, "inject": "a b"}"#), Ok(given.clone()));
        assert_eq!(of(r#"{"op": "barrier", "limit": 7, "inject": ["a", "b"]}"#), Ok(given));
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        let problem = of(r#"{"bytes": "many"}"#).unwrap_err();
        assert_eq!(problem.field, "bytes");
        assert!(problem.error.what.starts_with("`bytes`: "), "{}", problem.error.what);
        let peer = field(Kind::Bytes, None).named("peer");
        let missing: Result<u64, FieldError> = typed(&Map::new(), &peer, &default(&peer));
        assert_eq!(missing.unwrap_err().error.what, "`peer` has no value");
    }
}
