//! What records say when they are compared with each other, and what timelines say: comparisons of runs and what they are
//! worth, slow ranks, waits. Pure: reads record types and timelines, measures nothing, starts nothing, prints nothing.

#![forbid(unsafe_code)]

pub mod compare;
pub mod fleet;
pub mod history;
pub mod profile;
mod verdict;

pub use verdict::Verdict;
