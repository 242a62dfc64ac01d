//! Tests of the record: plans, their errors, the store, the schemas.

mod expansion;
mod flags;
mod plan_errors;
mod table;
