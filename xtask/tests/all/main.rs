//! Tests of the scripts of CI, which belong to no crate.

#![expect(clippy::disallowed_methods, reason = "scripts find their programs on the path")]

#[path = "../../../tests/skip.rs"]
mod skip;

mod ci;
