//! Benchmarks and their ranks, on the simulated backend and on the real ones with ranks as threads.

mod experts;
mod fields;
mod hardware;
mod identities;
mod injections;
mod interference;
mod isolated;
mod known;
mod matrix;
mod mutants;
#[expect(dead_code, reason = "the order of visits and the samples are for the tests of `runner`")]
#[path = "../../../runner/tests/all/plans.rs"]
mod plans;
mod primitive;
mod relations;
mod reproducible;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod startup;
mod training;
mod watched;
mod worlds;
