//! One binary: coverage under the stop rule, properties of the intervals, and tests of the tests.
#![allow(missing_docs, reason = "tests are read, not documented")]

mod changes;
mod coverage;
mod equal_runs;
mod properties;
mod replay;
mod series;
mod simulation;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod states;
