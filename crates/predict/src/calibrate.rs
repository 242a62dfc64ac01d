//! What a profile of a machine is measured by: the plan of `rankmark calibrate`, and how its record becomes a
//! [`record::MachineProfile`].

mod constants;
mod plan;
mod profile;
mod shapes;

pub use plan::{Wish, plan};
pub use profile::{Given, machine_profile};
