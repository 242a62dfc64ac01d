//! Rounds: every rank arrives, every rank waits for all. The one synchronisation of all collectives here.
//!
//! Round k uses the flags (and the memory that goes with them) of parity k mod 2. Memory of one parity may be written
//! again two rounds later without further waiting: who has seen everybody arrive in round k + 1 knows that everybody has
//! finished reading what was published in round k.

use super::flag::{Flag, Park, Patience};
use crate::{Abort, Result};

/// A rank's view of all ranks' flags.
#[derive(Debug)]
pub(crate) struct Rounds<P> {
    rank: usize,
    /// `flags[rank][parity]`.
    flags: Vec<[Flag; 2]>,
    round: u32,
    patience: Patience,
    abort: Abort,
    park: P,
}

impl<P: Park> Rounds<P> {
    pub(crate) fn new(rank: usize, flags: Vec<[Flag; 2]>, patience: Patience, abort: Abort, park: P) -> Self {
        Self { rank, flags, round: 0, patience, abort, park }
    }

    /// The parity of the round that [`Rounds::arrive`] will open next: where to write what it publishes.
    #[inline(always)]
    pub(crate) fn next_parity(&self) -> usize {
        (self.round.wrapping_add(1) & 1) as usize
    }

    /// Publishes what this rank wrote, and opens the next round.
    #[inline(always)]
    pub(crate) fn arrive(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.flags[self.rank][self.parity()].raise(self.round, &self.park);
    }

    /// Returns once all ranks have arrived in the open round; what they wrote before is visible.
    ///
    /// # Errors
    /// [`crate::Error::Aborted`].
    #[inline(always)]
    pub(crate) fn wait_all(&self) -> Result<()> {
        let (size, parity) = (self.flags.len(), self.parity());
        for distance in 1..size {
            let peer = self.rank + distance;
            let flag = &self.flags[if peer < size { peer } else { peer - size }][parity];
            if !flag.look(self.round, self.patience) {
                flag.wait(self.round, self.patience, &self.abort, &self.park)?;
            }
        }
        Ok(())
    }

    /// Both.
    ///
    /// # Errors
    /// As [`Rounds::wait_all`].
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> Result<()> {
        self.arrive();
        self.wait_all()
    }

    /// The parity of the open round.
    #[inline(always)]
    pub(crate) fn parity(&self) -> usize {
        (self.round & 1) as usize
    }
}
