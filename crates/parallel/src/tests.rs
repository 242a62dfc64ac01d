//! The proofs: every way of cutting a training run gives what one rank gives.

mod equal;
mod golden;
mod mutants;
mod refusals;
mod scaffold;
