//! Experts of a model: how many tokens each gets, which ones, and what must arrive where. Formulas: docs/how-to/primitives.md.
//! What moves tokens and multiplies them is in `exchange` and in the implementations.

mod file;
mod load;
mod oracle;
mod payload;
mod routing;
mod shuffle;

pub(super) use self::file::{counts, resolve};
pub(super) use self::load::{Load, TOKENS};
pub(super) use self::oracle::Oracle;
pub(super) use self::payload::{digits_of, sums};
pub(super) use self::routing::{Routing, Sizes, gate};
