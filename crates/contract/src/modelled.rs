//! Cases whose times a model computes for all ranks at once: no rank is started, and data moves in one checked call.

use comm::Operation;
use measure::{Failure, WrongReport};

use crate::Work;

/// A case in which each call is one operation of all ranks.
pub trait Modelled {
    /// The operation of a call.
    fn operation(&self) -> &Operation;

    /// Bytes and arithmetic of one call over all ranks. All else is as each rank has it.
    fn work(&self) -> Work;

    /// Elements that ranks get in a call and [`Modelled::check`] does not compare.
    fn left_out(&self) -> u64;

    /// Makes one call from fresh inputs, with its data, and compares what ranks get. `faults` are elements that are changed
    /// before: of which rank's output, and which.
    ///
    /// # Errors
    /// What could not be had.
    fn check(&self, faults: &[(u32, u64)]) -> Result<WrongReport, Failure>;
}
