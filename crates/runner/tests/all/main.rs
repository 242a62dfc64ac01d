//! Whole runs on the simulated backend and on the real ones, with ranks as threads.

mod budgets;
mod crowds;
mod living;
mod modelled;
mod plans;
mod rounds;
mod threads;
