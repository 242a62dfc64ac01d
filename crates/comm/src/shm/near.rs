//! How fast lines go from one core to another, measured when a group opens. What the system reports of caches does not
//! tell it on processors of several complexes, nor in virtual machines, where the host moves cores about.

use std::time::{Duration, Instant};

use super::endpoint::{Endpoint, Until};
use super::flag::Looks;
use super::kernels::copy;
use crate::Result;

/// Bytes that each of two ranks gives in a round.
const BYTES: usize = 32 << 10;
/// The quickest round counts: the first ones touch memory for the first time, and any may be interrupted.
const ROUNDS: usize = 12;
/// Up to here cores are near: 8 ns for each line that is written into a slot and read by the other. (AMD of Zen 5: 2.4 us, and
/// 8 us while its host keeps the two cores apart; Intel, Emerald Rapids: 7.5 us.)
const NEAR: Duration = Duration::from_micros(4);

/// Whether this group is two ranks on cores of their own that are near each other. Collective; all ranks get the same
/// answer.
///
/// # Errors
/// [`crate::Error::Aborted`].
pub(super) fn find(endpoint: &mut Endpoint) -> Result<bool> {
    if endpoint.ranks() != 2 || endpoint.oversubscribed {
        return Ok(false);
    }
    let mut bytes = vec![0; BYTES];
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(timed_round(endpoint, &mut bytes)?);
    }
    Ok(endpoint.gather(best)?.iter().all(|best| *best <= NEAR))
}

fn timed_round(endpoint: &mut Endpoint, bytes: &mut [u8]) -> Result<Duration> {
    endpoint.settle_all_but(0)?;
    let (own, peer) = (endpoint.rank(), 1 - endpoint.rank());
    let slot = endpoint.areas[own].slot(endpoint.rounds.next_place());
    let begin = Instant::now();
    // SAFETY: the slot of this place is this rank's to write once all rounds before are settled, and holds more.
    unsafe { copy(endpoint.isa, bytes.as_ptr(), &[slot], bytes.len(), false) };
    let place = endpoint.exchange(0, Until::All(Looks::Tight), |_| {})?;
    let slot = endpoint.areas[peer].slot(place);
    // SAFETY: published by the round that has passed; the peer writes it again two rounds on.
    unsafe { copy(endpoint.isa, slot, &[bytes.as_mut_ptr()], bytes.len(), false) };
    Ok(begin.elapsed())
}
