//! Benchmarks, ranks and runs, on the simulated backend and on the real ones with ranks as threads.

mod injections;
mod isolated;
mod known;
mod living;
mod matrix;
mod mutants;
mod plans;
mod rounds;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod threads;
mod training;
mod worlds;
