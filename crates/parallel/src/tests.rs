//! The proofs: every way of cutting a training run gives what one rank gives.

mod equal;
mod golden;
mod late;
mod meshes;
mod mutants;
mod precisions;
mod programs;
mod refusals;
pub(crate) mod scaffold;
