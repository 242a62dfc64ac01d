//! The staged path: large messages in private buffers go through the slots in chunks, one round a chunk. The slots are
//! double-buffered by the parity of rounds, so that nobody waits for its peers to have taken a chunk.

use terms::Collective;

use super::area::SLOT;
use super::endpoint::Endpoint;
use super::kernels::{Manner, copy_in, kernel};
use super::pieces::take;
use super::plan::{CallPlan, share};
use crate::Result;

/// The staged path of one rank.
#[derive(Debug)]
pub(super) struct Staged {
    /// Filled again for each chunk: kept, so that no call allocates.
    sources: Vec<*const u8>,
}

impl Staged {
    pub(super) fn new(ranks: usize) -> Self {
        Self { sources: Vec::with_capacity(ranks) }
    }

    /// Runs a call from its first chunk to its last. All earlier rounds are settled.
    pub(super) fn run(&mut self, endpoint: &mut Endpoint, plan: &CallPlan) -> Result<()> {
        if plan.op == Collective::AllReduce && plan.ranks > 2 {
            return self.all_reduce(endpoint, plan);
        }
        let rank = endpoint.rank();
        let shared = plan.shared();
        let chunk = if shared { SLOT } else { SLOT / plan.ranks / 128 * 128 };
        let longest = plan.longest_piece();
        let mut begin = 0;
        while begin < longest {
            let slot = endpoint.areas[rank].slot(endpoint.rounds.next_place());
            if plan.gives(rank) {
                let pieces = if shared { 0..1 } else { 0..plan.ranks };
                for to in pieces.filter(|to| shared || *to != rank) {
                    stage(endpoint, plan, to, (begin, chunk), slot.wrapping_add(if shared { 0 } else { to * chunk }));
                }
            }
            endpoint.rounds.pass()?;
            let turn = endpoint.rounds.place();
            let endpoint = &*endpoint;
            take(endpoint, &mut self.sources, plan, (begin, chunk), |from| {
                let slot = endpoint.areas[from].slot(turn).cast_const();
                if shared { slot } else { slot.wrapping_add(rank * chunk) }
            });
            begin += chunk;
        }
        Ok(())
    }

    /// All-reduce of more than two ranks: each rank reduces its share of a chunk, and hands the result on in the next
    /// round, in the place of the slot that its own share leaves free. So each byte is read by two ranks and not by all.
    fn all_reduce(&mut self, endpoint: &mut Endpoint, plan: &CallPlan) -> Result<()> {
        let (rank, ranks, len) = (endpoint.rank(), plan.ranks, plan.bytes);
        let place = SLOT / ranks / 128 * 128;
        let chunk = place * ranks;
        let (input, output) = (plan.input, plan.output);
        let chunks = len.div_ceil(chunk);
        for k in 0..=chunks {
            let slot = endpoint.areas[rank].slot(endpoint.rounds.next_place());
            let range = |k: usize, of: usize| {
                let (begin, len) = (k * chunk, chunk.min(len - k * chunk));
                let (from, to) = share(len, of, ranks);
                (begin + from, to - from)
            };
            if k < chunks {
                for peer in (0..ranks).filter(|peer| *peer != rank) {
                    let (begin, len) = range(k, peer);
                    // SAFETY: inside the input; a share of a chunk is at most `place` bytes.
                    unsafe { copy_in(endpoint.isa, input.add(begin), slot.add(peer * place), len) };
                }
            }
            endpoint.rounds.pass()?;
            let turn = endpoint.rounds.place();
            if k > 0 {
                for distance in 1..ranks {
                    let peer = (rank + distance) % ranks;
                    let (begin, len) = range(k - 1, peer);
                    // SAFETY: published by the round; inside the output, where the input was staged before.
                    unsafe {
                        copy_in(endpoint.isa, endpoint.areas[peer].slot(turn).add(peer * place), output.add(begin), len)
                    };
                }
            }
            if k < chunks {
                let (begin, len) = range(k, rank);
                self.reduce_share(endpoint, plan, (turn, place), (begin, len));
            }
        }
        Ok(())
    }

    /// Reduces this rank's share of a chunk into its output and into the slot of the next round.
    fn reduce_share(
        &mut self,
        endpoint: &Endpoint,
        plan: &CallPlan,
        (turn, place): (usize, usize),
        (begin, len): (usize, usize),
    ) {
        let rank = endpoint.rank();
        self.sources.clear();
        // SAFETY: inside the slots, and inside input and output, as validated.
        let (to, next) = unsafe {
            let own = plan.input.add(begin).cast_const();
            let staged = |from: usize| endpoint.areas[from].slot(turn).add(rank * place).cast_const();
            self.sources.extend((0..plan.ranks).map(|from| if from == rank { own } else { staged(from) }));
            (plan.output.add(begin), endpoint.areas[rank].slot(endpoint.rounds.next_place()).add(rank * place))
        };
        let kernel = kernel(endpoint.isa, plan.dtype, plan.reduce);
        // SAFETY: what peers staged was published by the round and stays until the round after the next; the slot of
        // the next round was last read before the round that just passed.
        unsafe { kernel(&self.sources, &[to, next], len / plan.element, plan.ranks, Manner::default()) };
    }
}

/// Puts bytes `begin..begin + chunk` of the piece for `to` into the slot.
fn stage(endpoint: &Endpoint, plan: &CallPlan, to: usize, (begin, chunk): (usize, usize), slot: *mut u8) {
    let piece = plan.piece(endpoint.rank(), to);
    let len = piece.len.saturating_sub(begin).min(chunk);
    if len > 0 {
        // SAFETY: inside this rank's input, as validated, and inside its slot: chunks of all ranks fit in it.
        unsafe { copy_in(endpoint.isa, plan.input.add(piece.input + begin), slot, len) };
    }
}
