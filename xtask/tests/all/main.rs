//! Tests of what lies beside the crates: the scripts of CI.

#![expect(clippy::disallowed_methods, reason = "scripts find their programs on the path")]

#[path = "../../../tests/skip.rs"]
mod skip;

mod ci;
