//! A job that runs, looked at from outside: who waits for whom, and in which call. Only reads.

mod collect;
mod ras;
mod show;
mod verdict;

pub use collect::{Looked, collect, part};
pub use ras::{USUAL_RAS, ask_ras};
pub use verdict::{Verdict, verdict};
