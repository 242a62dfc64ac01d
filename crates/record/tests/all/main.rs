//! Tests of the record: plans, their errors, the store, the schemas.

mod baselines;
mod choices;
mod damage;
mod expansion;
mod expected;
mod explained;
mod flags;
mod follow;
mod full_disk;
mod hostile;
mod line;
mod links;
mod merging;
mod plan_errors;
mod regressions;
mod renamed;
mod schema;
mod secrets;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod store;
mod table;
mod validator;
