//! What records say when they are compared with each other: comparisons of runs and what they are worth. Pure: reads record
//! types, measures nothing, starts nothing, prints nothing.

#![forbid(unsafe_code)]

pub mod compare;
pub mod history;
mod verdict;

pub use verdict::Verdict;
