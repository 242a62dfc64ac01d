//! What inputs are made of, and what must come out: small integers with results that are exact, or random floats with results
//! within a bound.

use terms::{Collective, Dtype, Reduce};

use super::number::Number;
use super::pattern::Pattern;
use super::random::Random;
use super::table::PeriodTable;

terms::named! {
    /// What inputs are.
    pub(super) enum Data("data") {
        /// Small integers: every result is exact, in any order of the additions.
        Exact = "exact",
        /// Random floats: bits of a sum depend on the order of its additions.
        Random = "random",
    }
}

/// The inputs of a case.
#[derive(Clone, Copy, Debug)]
pub(super) enum InputSource {
    Exact(Pattern),
    Random(Random),
}

impl InputSource {
    /// None where there is no result to check against.
    pub(super) fn new(
        data: Data,
        (op, reduce): (Collective, Reduce),
        dtype: Dtype,
        ranks: u32,
        in_place: bool,
        seed: u64,
    ) -> Option<Self> {
        match data {
            Data::Exact => Pattern::new(op, dtype, reduce, ranks, in_place, seed).map(Self::Exact),
            Data::Random => Random::new((op, reduce), dtype, ranks, in_place, seed).map(Self::Random),
        }
    }

    /// The inputs of `rank`, as a table.
    pub(super) fn inputs(&self, rank: u32) -> PeriodTable {
        match self {
            Self::Exact(pattern) => pattern.inputs(rank),
            Self::Random(random) => random.inputs(rank),
        }
    }

    /// What `rank` holds at an element of its input.
    pub(super) fn input(&self, rank: u32, index: u64) -> Number {
        match self {
            Self::Exact(pattern) => pattern.input(rank, index),
            Self::Random(random) => Number::Float(random.value(rank, index)),
        }
    }

    /// How many calls in a row give results that can be checked, from fresh inputs; `u64::MAX` for any number.
    pub(super) fn max_calls(&self) -> u64 {
        match self {
            Self::Exact(pattern) => pattern.max_calls(),
            Self::Random(random) => random.max_calls(),
        }
    }

    /// A byte that fills outputs before a call: what no call has written must not pass for a result.
    pub(super) fn poison(&self) -> u8 {
        match self {
            // A byte pattern that no expected element has would be ideal; 0xA5 is in none of the sums' and differs from most of
            // the rest, and the check counts every element.
            Self::Exact(_) => 0xA5,
            // Not a number, in every float type: it is within no bound.
            Self::Random(_) => 0xFF,
        }
    }
}
