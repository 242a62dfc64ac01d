//! Comparisons of records, and analyses of timelines, against known truths.

mod archives;
mod clusters;
mod fleet_faults;
mod fleets;
mod matching;
mod profile;
mod rates;
mod result_bits;
mod simulation;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod states;
mod verdicts;
