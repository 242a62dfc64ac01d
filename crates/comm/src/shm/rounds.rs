//! Rounds: every rank arrives, and waits for those that give it something. The one synchronisation of all collectives here.
//!
//! Round k uses the flags and headers (and small slots) of place k mod [`RING`], and the large slots of parity k mod 2. A
//! round in which a rank did not wait for all is *unsettled* for it until it has seen all arrive in it and has compared
//! their headers. Ranks keep to two rules:
//! * Who opens round k has settled all rounds up to k - [`AHEAD`]. So who has arrived in k has finished reading all that was
//!   published up to k - AHEAD, and a place may be written again: its last round is k - RING, all have arrived in k - AHEAD,
//!   and are done with k - 2 * AHEAD.
//! * Who writes a large slot for round k has settled round k - 1: all are done with k - 2, the slot's last.

use super::flag::{Flag, Looks, Park, SpinPolicy};
use super::kernels::claim;
use crate::{Abort, Result};

/// Places: divides 2^32, since rounds wrap. (4 ranks on 2 cores, `broadcast` of 1 KiB: 0.67 us with 16, 1.0 with 8, 1.9 if
/// none goes on.) Few for loom, which goes round the ring.
pub const RING: usize = if cfg!(loom) { 4 } else { 16 };
/// How many rounds a rank may go on before it waits for its peers.
pub const AHEAD: u32 = RING as u32 / 2;

/// A rank's view of all ranks' flags.
#[derive(Debug)]
pub(crate) struct Rounds<P> {
    rank: usize,
    /// `flags[rank][place]`.
    flags: Vec<[Flag; RING]>,
    round: u32,
    /// The last settled round: never after `round`.
    settled: u32,
    /// How long this rank waits for each before it sleeps, in rounds of all; for itself: in others.
    spin_policy: Vec<SpinPolicy>,
    /// How it looks in rounds in which it takes nothing but what lies in flags' lines.
    looks: Looks,
    /// All others, in the order in which it waits for them.
    peers: Vec<usize>,
    abort: Abort,
    park: P,
}

const fn place(round: u32) -> usize {
    round as usize % RING
}

impl<P: Park> Rounds<P> {
    /// `spin_policy` is that of this rank towards each.
    pub(crate) fn new(
        rank: usize,
        flags: Vec<[Flag; RING]>,
        spin_policy: impl Fn(usize) -> SpinPolicy,
        looks: Looks,
        abort: Abort,
        park: P,
    ) -> Self {
        let size = flags.len();
        let spin_policy: Vec<SpinPolicy> = (0..size).map(spin_policy).collect();
        let mut peers: Vec<usize> = (1..size).map(|distance| (rank + distance) % size).collect();
        // First those that may need this one's core to arrive.
        peers.sort_by_key(|peer| spin_policy[*peer].looks);
        Self { rank, flags, round: 0, settled: 0, spin_policy, looks, peers, abort, park }
    }

    /// The place of the round that [`Rounds::arrive`] will open next: where to write what it publishes.
    #[inline(always)]
    pub(crate) fn next_place(&self) -> usize {
        place(self.round.wrapping_add(1))
    }

    /// The place of the open round.
    #[inline(always)]
    pub(crate) fn place(&self) -> usize {
        place(self.round)
    }

    /// How many rounds are not settled.
    #[inline(always)]
    pub(crate) fn unsettled(&self) -> u32 {
        self.round.wrapping_sub(self.settled)
    }

    /// Whether the next round may be opened, and what it publishes be written.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.unsettled() < AHEAD
    }

    /// Publishes what this rank wrote, and opens the next round.
    #[inline(always)]
    pub(crate) fn arrive(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.flags[self.rank][self.place()].raise(self.round, &self.park);
    }

    /// Asks for the line of the next place's flag, which peers read when the place was last in use: it comes while this rank
    /// waits in the open round. (2 ranks, cores far from each other: directly 8 KiB 0.68 us, without and with tight looks
    /// 0.77.)
    #[inline(always)]
    pub(crate) fn claim_next(&self) {
        claim(self.flags[self.rank][self.next_place()].line());
    }

    /// How this rank looks in rounds in which it takes nothing but what lies in flags' lines.
    #[inline(always)]
    pub(crate) fn looks(&self) -> Looks {
        self.looks
    }

    /// Returns once `peer` has arrived in the open round; what it wrote before is visible.
    ///
    /// # Errors
    /// [`crate::Error::Aborted`].
    #[inline(always)]
    pub(crate) fn wait_for(&self, peer: usize) -> Result<()> {
        // Others on this core may go on meanwhile, wherever that peer is.
        self.wait(peer, self.spin_policy[self.rank], Looks::Tight, self.round)
    }

    #[inline(always)]
    fn wait(&self, peer: usize, spin_policy: SpinPolicy, looks: Looks, round: u32) -> Result<()> {
        let flag = &self.flags[peer][place(round)];
        if flag.look(round, spin_policy, looks) {
            Ok(())
        } else {
            flag.wait(round, spin_policy, &self.abort, &self.park)
        }
    }

    /// Returns the place of the first round that was not settled, once all ranks have arrived in it; what they wrote before
    /// is visible. Settled it is when the caller has looked at what they wrote.
    ///
    /// # Errors
    /// [`crate::Error::Aborted`].
    #[inline(always)]
    pub(crate) fn settle_next(&mut self, looks: Looks) -> Result<usize> {
        let round = self.settled.wrapping_add(1);
        for peer in &self.peers {
            self.wait(*peer, self.spin_policy[*peer], looks, round)?;
        }
        self.settled = round;
        Ok(place(round))
    }

    /// Arrives, and waits for all. All earlier rounds are settled.
    ///
    /// # Errors
    /// As [`Rounds::settle_next`].
    #[inline(always)]
    pub(crate) fn pass(&mut self) -> Result<()> {
        debug_assert_eq!(self.unsettled(), 0);
        self.arrive();
        if self.looks == Looks::Apart {
            self.claim_next();
        }
        self.settle_next(self.looks).map(drop)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shm::flag::{AtomicU32, Futex, Word};

    /// Six ranks on two cores: who may need this rank's core comes first, each at its distance.
    #[test]
    fn ranks_on_the_same_core_are_waited_for_first() {
        let word = AtomicU32::new(0);
        // SAFETY: the word outlives the rounds.
        let flag = unsafe { Flag::new(Word::new(&raw const word), Word::new(&raw const word)) };
        let towards = |peer: usize| if peer % 2 == 1 { SpinPolicy::SHARED_CORE } else { SpinPolicy::OTHER_CORE };
        let rounds = Rounds::new(3, vec![[flag; RING]; 6], towards, Looks::Tight, Abort::default(), Futex);
        assert_eq!(rounds.peers, [5, 1, 4, 0, 2]);
    }
}
