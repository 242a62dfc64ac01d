//! Declared fields as a struct: one list makes the field table and the typed members that a benchmark's code reads.

use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use terms::{Field, FieldError, Kind, Role};

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

/// A struct of declared fields that can be changed and put back.
pub trait WriteFields {
    /// Writes into a case those members that differ from what was read of it. What is None or an empty list is taken out.
    fn write(&self, given: &Self, case: &mut Case);
}

impl Case {
    /// Puts a value where a case keeps the field: among parameters or settings, and among the conditions of its ranks where it is
    /// one. Null is taken out.
    pub fn put(&mut self, field: &Field, value: &impl Serialize) {
        let value = stored(field, serde_json::to_value(value).unwrap_or_default());
        let keep = |map: &mut SharedMap| {
            field.was.iter().for_each(|name| drop(map.shift_remove(name)));
            match &value {
                None => drop(map.shift_remove(field.name)),
                Some(value) => map.insert(field.name, value.clone()),
            }
        };
        keep(if field.role == Role::Sampling { &mut self.settings } else { &mut self.parameters });
        if field.role.starts_ranks() {
            keep(&mut self.world);
        }
    }
}

/// A value in the form in which plans are read, so that it has one spelling in the record and one identity.
fn stored(field: &Field, value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        // Parameters are scalars.
        Value::Array(items) if field.role != Role::Sampling => {
            Some(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ").into())
        }
        Value::Number(number) if number.is_f64() => number.as_f64().and_then(crate::plan::canonical_number),
        value => Some(value),
    }
}

/// Declares fields once: `member: Type = Field`. Gives a struct with these members, its table `FIELDS` in the same order,
/// `of`, which reads the members of a case, and [`WriteFields::write`]. A field's name is the member's.
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

        impl $crate::WriteFields for $name {
            fn write(&self, given: &Self, case: &mut $crate::Case) {
                let mut declared = Self::FIELDS.iter();
                $({
                    let field = declared.next().expect("a field for each member");
                    if self.$member != given.$member {
                        case.put(field, &self.$member);
                    }
                })+
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

    fn parse_fields(text: &str) -> Result<Fields, FieldError> {
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
        assert_eq!(parse_fields("{}"), Ok(absent.clone()));
        let given = Fields { op: Collective::Barrier, limit: Some(7), inject: vec!["a".into(), "b".into()], ..absent };
        assert_eq!(parse_fields(r#"{"op": "barrier", "limit": 7, "inject": "a b"}"#), Ok(given.clone()));
        assert_eq!(parse_fields(r#"{"op": "barrier", "limit": 7, "inject": ["a", "b"]}"#), Ok(given));
    }

    #[test]
    fn what_changed_is_written_as_plans_are_read() {
        let mut case = Case::new("x", serde_json::from_str(r#"{"latency": 5, "file": "f", "other": 1}"#).unwrap());
        let given = Fields::of(&case).unwrap();
        given.write(&given, &mut case);
        assert_eq!(
            crate::to_json(&case.parameters).unwrap(),
            r#"{"latency":5,"file":"f","other":1}"#,
            "all is as it was"
        );
        let changed = Fields {
            op: Collective::Barrier,
            limit: Some(7),
            latency: 2.0,
            file: None,
            inject: vec!["a".into(), "b".into()],
            ..given.clone()
        };
        changed.write(&given, &mut case);
        let written = r#"{"latency":2,"other":1,"op":"barrier","limit":7,"inject":"a b"}"#;
        assert_eq!((crate::to_json(&case.parameters).unwrap().as_str(), Fields::of(&case)), (written, Ok(changed)));
        assert!(case.settings.is_empty() && case.world.is_empty());
        // A setting and a condition of ranks, the first under an earlier name.
        let setting = field(Kind::Whole(0, 9), None).named("trials").role(Role::Sampling).was(&["launches"]);
        case.settings.insert("launches", 3.into());
        case.put(&setting, &Some(4));
        case.put(&field(Kind::Whole(0, 9), None).named("ranks").role(Role::World), &2);
        assert_eq!(crate::to_json(&case.settings).unwrap(), r#"{"trials":4}"#);
        assert_eq!((case.world.get("ranks"), case.parameters.get("ranks")), (Some(&2.into()), Some(&2.into())));
    }

    #[test]
    fn a_value_of_another_type_is_named() {
        let problem = parse_fields(r#"{"bytes": "many"}"#).unwrap_err();
        assert_eq!(problem.field, "bytes");
        assert!(problem.error.what.starts_with("`bytes`: "), "{}", problem.error.what);
        let peer = field(Kind::Bytes, None).named("peer");
        let missing: Result<u64, FieldError> = typed(&Map::new(), &peer, &default(&peer));
        assert_eq!(missing.unwrap_err().error.what, "`peer` has no value");
    }
}
