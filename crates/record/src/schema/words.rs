//! Values that several members of records have, as the schema describes them.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use terms::Named;

/// The pattern of identities of cases and runs.
pub(crate) const HEX_12: &str = "^[0-9a-f]{12}$";

/// A word of a closed set, in the schema.
pub(crate) struct SchemaWords<T>(PhantomData<T>);

impl<T: Named> JsonSchema for SchemaWords<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::KIND.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": T::names()})
    }
}

/// The value of a parameter, in the schema.
pub(crate) struct Scalar;

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}
