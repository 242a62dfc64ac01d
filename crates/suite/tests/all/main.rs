//! Benchmarks, ranks and runs, on the simulated backend and on the real ones with ranks as threads.

mod injections;
mod isolated;
mod known;
mod launches;
mod matrix;
mod mutants;
mod parked;
mod plans;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod threads;
mod training;
mod worlds;
