//! The whole sampling path on worlds that are invented: known times in, known lines out.

mod caveats;
mod limits;
mod machine_states;
mod sampling;
mod scripted;
mod trials;
mod verdicts;
