//! What a profile of a machine is measured by: the plan of `rankmark calibrate`, and how its record becomes a
//! [`record::MachineProfile`].

mod again;
mod constants;
mod plan;
mod profile;
mod shapes;
mod text;

pub use again::{Drift, again, drift};
pub use plan::{Caches, Wish, plan};
pub use profile::{Given, exchange_of, machine_profile};
pub use text::{begins, summary};
