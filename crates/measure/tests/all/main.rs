//! The whole sampling path on worlds that are invented: known times in, known lines out.

mod coverage;
mod doubts;
mod launches;
mod sampling;
mod scripted;
mod verdicts;
