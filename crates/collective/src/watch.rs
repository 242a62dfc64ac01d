//! Results of one rank, compared bit by bit outside of the timed part: the first one with that of rank 0, later ones with the first.

use std::sync::Arc;

use comm::{Call, Communicator};
use contract::bits::{difference, in_short};
use contract::reproducible::Noted;
use contract::{RankContext, failure};
use device::{Region, Slice};
use measure::Failure;
use terms::{Collective, Direction, Dtype, Reduce};
use trace::Hook;

use super::parameters::Parameters;

/// Bytes that rank 0 sends the others at a time.
const PIECE: usize = 64 << 10;
/// Numbers of calls whose results are kept: one call, and as many as sums in place go on.
const KEPT: usize = 2;

/// Copies of a result that a rank holds at most: those that are kept, the one at hand, and rank 0's.
pub(super) const COPIES: u64 = KEPT as u64 + 2;

/// See the module's documentation.
pub(super) struct ResultWatch {
    dtype: Dtype,
    rank: u32,
    /// Whether all ranks must hold the same.
    is_common: bool,
    hook: Arc<Hook>,
    piece: Arc<Region>,
    /// The first result after so many calls from fresh inputs.
    firsts: Vec<(u64, Vec<u8>)>,
    noted: Noted,
}

/// Whether all ranks get the same result.
fn is_common(op: Collective) -> bool {
    matches!(op, Collective::AllReduce | Collective::AllGather | Collective::Broadcast)
}

/// By whom ranks agree between calls: in memory of the host.
fn control(comm: &mut dyn Communicator) -> &mut dyn Communicator {
    if comm.control().is_none() {
        return comm;
    }
    comm.control().expect("it was there just now")
}

impl ResultWatch {
    /// A watch over this rank's results.
    ///
    /// # Errors
    /// When there is no memory.
    pub(super) fn new(parameters: &Parameters, context: &RankContext) -> Result<Self, Failure> {
        Ok(Self {
            dtype: parameters.dtype,
            rank: context.rank,
            is_common: is_common(parameters.op) && parameters.ranks > 1,
            hook: context.hook.clone(),
            piece: Region::host(PIECE).map_err(|error| Failure::lacking(error.to_string()))?,
            firsts: Vec::with_capacity(KEPT),
            noted: Noted::default(),
        })
    }

    /// What was noted.
    pub(super) fn noted(&self) -> &Noted {
        &self.noted
    }

    /// The hook that calls between those of the case pass by quietly.
    pub(super) fn hook(&self) -> Arc<Hook> {
        self.hook.clone()
    }

    /// The first bytes of the piece.
    fn part(&self, len: usize) -> Result<Slice, Failure> {
        self.piece.slice(0, len).ok_or_else(|| Failure::new("a piece of a result is longer than its buffer"))
    }

    fn call(&self, op: Collective, input: Slice, output: Slice) -> Call {
        let (dtype, reduce, direction) = (Dtype::U8, Reduce::Sum, Direction::OneWay);
        Call { op, input, output, dtype, reduce, peer: 0, direction, counts: None }
    }

    /// All ranks meet. Collective.
    pub(super) fn synchronise(&self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let barrier = self.call(Collective::Barrier, self.part(0)?, self.part(0)?);
        self.hook.quietly(|| control(comm).run(&barrier)).map_err(failure)
    }

    /// Takes in what `calls` calls from fresh inputs left. Collective: all ranks after the same calls.
    pub(super) fn note(&mut self, comm: &mut dyn Communicator, calls: u64, result: Vec<u8>) -> Result<(), Failure> {
        if let Some((_, first)) = self.firsts.iter().find(|(known, _)| *known == calls) {
            self.noted.results += 1;
            if self.noted.calls.is_none() {
                let number = self.noted.results;
                self.noted.calls = difference(self.dtype, first, &result).map(|difference| (number, difference));
            }
            return Ok(());
        }
        if self.firsts.len() == KEPT {
            return Ok(());
        }
        if self.is_common {
            let theirs = self.of_rank_0(comm, &result)?;
            let found = difference(self.dtype, &theirs, &result);
            self.noted.with_rank_0 = true;
            self.noted.ranks = self.noted.ranks.take().or(found);
        }
        if self.firsts.is_empty() && !result.is_empty() {
            self.noted.bits = Some(in_short(self.dtype, &result));
        }
        self.noted.results += 1;
        self.firsts.push((calls, result));
        Ok(())
    }

    /// What rank 0 holds where this rank holds `own`, of the same length. Collective.
    fn of_rank_0(&self, comm: &mut dyn Communicator, own: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut theirs = Vec::with_capacity(own.len());
        for part in own.chunks(PIECE) {
            let place = self.part(part.len())?;
            if self.rank == 0 {
                // SAFETY: so many bytes of this rank's own buffer; no operation is in flight.
                unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), place.ptr(), part.len()) };
            }
            let input = if self.rank == 0 { place.clone() } else { self.part(0)? };
            let broadcast = self.call(Collective::Broadcast, input, place.clone());
            self.hook.quietly(|| control(comm).run(&broadcast)).map_err(failure)?;
            theirs.extend(super::segments::read(&place)?);
        }
        Ok(theirs)
    }
}
