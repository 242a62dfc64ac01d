//! What the paths of a group share: its ranks and the memory that they map, rounds with headers, and what the machine is
//! like. Knows no path.

use std::ops::Range;
use std::sync::Arc;

use super::area::{Area, INLINE};
use super::buffers::Buffers;
use super::flag::{Futex, Looks, SpinPolicy};
use super::kernels::Isa;
use super::plan::describe;
use super::regions::Registry;
use super::rounds::{AHEAD, RING, Rounds};
use crate::{Abort, Error, Result, Shape};

/// See [`Endpoint::goes_past_caches`]. (`all_gather` with 2 ranks of 2 MiB of second cache: 3 MiB 77 us past the caches and 117
/// through them, 2 MiB 55 and 49.)
const PAST_CACHES: usize = 3 << 20;

/// For whom a rank waits in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// All; it looks at their flags like this.
    All(Looks),
    /// The one that gives.
    Arrived(usize),
    /// Nobody: it gives only, and what it gives lies in its slot or header.
    Told,
}

/// What one rank's end of a group hands to each of its paths.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) shape: Shape,
    /// World rank of each rank.
    pub(super) members: Vec<u32>,
    pub(super) areas: Vec<Area>,
    pub(super) rounds: Rounds<Futex>,
    pub(super) registry: Arc<Registry>,
    pub(super) isa: Isa,
    /// See [`super::caches::third`].
    pub(super) third_cache: Option<usize>,
    pub(super) abort: Abort,
    pub(super) spin_policy: SpinPolicy,
    pub(super) oversubscribed: bool,
    /// See [`super::near::find`].
    pub(super) near: bool,
    /// What this rank's header of each place holds, if signature and buffers.
    pub(super) written: [Option<(u64, Buffers)>; RING],
    /// Why nothing more can be run: ranks disagreed, so that their rounds no longer match, or an operation failed halfway.
    pub(super) broken: Option<String>,
}

impl Endpoint {
    #[inline]
    pub(super) fn rank(&self) -> usize {
        self.shape.rank as usize
    }

    #[inline]
    pub(super) fn ranks(&self) -> usize {
        self.areas.len()
    }

    /// Whether this group is two ranks with cores of their own, far from each other.
    #[inline]
    pub(super) fn two_far(&self) -> bool {
        self.ranks() == 2 && !self.near && !self.oversubscribed
    }

    /// Whether caches cannot be trusted to hold so many bytes of each rank: stores then go past them, where what is stored was
    /// not read just before.
    #[inline]
    pub(super) fn goes_past_caches(&self, bytes: usize) -> bool {
        let all = bytes.saturating_mul(self.ranks());
        bytes >= PAST_CACHES && self.third_cache.is_none_or(|cache| all > cache)
    }

    /// Whether anything can be run still.
    #[inline]
    pub(super) fn ready(&self) -> Result<()> {
        self.abort.check()?;
        self.broken.as_ref().map_or(Ok(()), |why| Err(Error::Mismatch(why.clone())))
    }

    /// Opens a round with this signature and what `write` puts into the header (at most [`INLINE`] bytes), waits for `until`,
    /// and compares signatures. Returns the round's place.
    #[inline]
    pub(super) fn exchange(&mut self, signature: u64, until: Until, write: impl FnOnce(*mut u8)) -> Result<usize> {
        self.make_room()?;
        let (rank, place) = (self.rank(), self.rounds.next_place());
        let header = self.areas[rank].header(place);
        self.written[place] = None;
        // SAFETY: this rank's own header; peers have finished reading what it held (see `rounds`).
        unsafe { header.cast::<u64>().write(signature) };
        // SAFETY: the header goes on for INLINE bytes.
        write(unsafe { header.add(8) });
        self.pass_header(signature, until)?;
        Ok(place)
    }

    /// Opens a round as [`Self::exchange`], with this rank's buffers in the header. A header that holds them already
    /// is not written again: peers look at its line while they wait, and each store to it then costs a transfer of
    /// the line (0.08 us of 0.22).
    #[inline]
    pub(super) fn exchange_buffers(&mut self, signature: u64, until: Until, buffers: Buffers) -> Result<usize> {
        let place = self.rounds.next_place();
        if self.written[place] == Some((signature, buffers)) {
            self.make_room()?;
            self.pass_header(signature, until)?;
        } else {
            // SAFETY: a plain structure that fits the header.
            self.exchange(signature, until, |to| unsafe { to.cast::<Buffers>().write_unaligned(buffers) })?;
            self.written[place] = Some((signature, buffers));
        }
        Ok(place)
    }

    /// Tells every rank's `value` to every rank, in rank order. At most [`INLINE`] bytes.
    pub(super) fn gather<T: Copy>(&mut self, value: T) -> Result<Vec<T>> {
        assert!(size_of::<T>() <= INLINE);
        // SAFETY: plain data that fits the header.
        let place =
            self.exchange(0, Until::All(Looks::Tight), |to| unsafe { to.cast::<T>().write_unaligned(value) })?;
        Ok((0..self.ranks()).map(|rank| self.read_header(rank, place)).collect())
    }

    /// Waits until the next round may be opened. If it must, for several rounds at once: their lines then come together, and
    /// peers are not disturbed in each.
    #[inline(always)]
    pub(super) fn make_room(&mut self) -> Result<()> {
        if self.rounds.has_room() { Ok(()) } else { self.settle_all_but(AHEAD / 2) }
    }

    /// Waits for all in all rounds but the last `rest` ones, and compares their signatures with this rank's.
    #[inline(never)]
    pub(super) fn settle_all_but(&mut self, rest: u32) -> Result<()> {
        while self.rounds.unsettled() > rest {
            let place = self.rounds.settle_next(Looks::Tight)?;
            // SAFETY: this rank's own header: it is not written again before the round of its place is settled.
            let own = unsafe { self.areas[self.rank()].header(place).cast::<u64>().read() };
            self.compare(own, place, 0..self.ranks())?;
        }
        Ok(())
    }

    /// A rank that does not wait for all hears of one that calls something else when it settles the round: at the latest in
    /// the next round in which it waits for all, and before it waits for the rank that stopped there.
    #[inline(always)]
    fn pass_header(&mut self, signature: u64, until: Until) -> Result<()> {
        self.rounds.arrive();
        match until {
            Until::All(looks) => {
                if looks == Looks::Apart {
                    self.rounds.claim_next();
                }
                if self.rounds.unsettled() > 1 {
                    self.settle_all_but(1)?;
                }
                let place = self.rounds.settle_next(looks)?;
                self.compare(signature, place, 0..self.ranks())
            }
            Until::Arrived(peer) => {
                self.rounds.wait_for(peer)?;
                self.compare(signature, self.rounds.place(), peer..peer + 1)
            }
            Until::Told => Ok(()),
        }
    }

    #[inline(always)]
    fn compare(&mut self, signature: u64, place: usize, peers: Range<usize>) -> Result<()> {
        for area in &self.areas[peers.clone()] {
            // SAFETY: published by the round of this place, in which these have been waited for.
            let theirs = unsafe { area.header(place).cast::<u64>().read() };
            if theirs != signature {
                return Err(self.mismatch(signature, place, peers));
            }
        }
        Ok(())
    }

    #[cold]
    fn mismatch(&mut self, own: u64, place: usize, peers: Range<usize>) -> Error {
        let mut text = format!("rank {} calls {}", self.rank(), describe(own));
        for rank in peers {
            // SAFETY: as in `compare`.
            let theirs = unsafe { self.areas[rank].header(place).cast::<u64>().read() };
            if theirs != own {
                text.push_str(&format!("; rank {rank} calls {}", describe(theirs)));
            }
        }
        self.broken = Some(text.clone());
        Error::Mismatch(text)
    }

    /// What `peer` wrote into its header in the round of this place.
    pub(super) fn read_header<T: Copy>(&self, peer: usize, place: usize) -> T {
        assert!(size_of::<T>() <= INLINE);
        // SAFETY: published by the round that has passed; `T` is plain data that fits, and every bit pattern was
        // written by a peer of this very code (signatures agreed).
        unsafe { self.areas[peer].header(place).add(8).cast::<T>().read_unaligned() }
    }
}
