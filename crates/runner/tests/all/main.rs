//! Whole runs on the simulated backend and on the real ones, with ranks as threads.

mod crowds;
mod living;
mod plans;
mod rounds;
mod threads;
