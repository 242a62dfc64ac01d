//! The direct path: all buffers are registered, so that every rank reads and writes every rank's memory. One fused pass
//! between two rounds.
//!
//! In place this is right because each byte is touched by one rank only: it reads that element of all inputs before it
//! writes it to any output.
//!
//! Shares are static. Blocks claimed dynamically, so that a rank without a core need not run before all is done, were
//! built and taken out again: a rank waiting for claims does not see that its peers call another operation, and on a
//! loaded machine no clear gain was measured with 4 and 6 ranks on 2 cores.

use std::sync::Arc;

use terms::Collective;

use super::buffers::Buffers;
use super::endpoint::Endpoint;
use super::kernels::{Manner, PassKernel, copy, exchange, kernel};
use super::plan::{CallPlan, share};
use super::regions::{Key, Views};
use crate::{Error, Result};

/// From here on (bytes of a pass's sources) the first-level cache does not hold what a pass touches.
const TURNS_FROM: usize = 48 << 10;

/// A pass of a kernel over registered memory, kept for when the same call comes again.
#[derive(Debug)]
struct DirectPass {
    sources: Vec<*const u8>,
    destinations: Vec<*mut u8>,
    kernel: PassKernel,
    count: usize,
    /// Bytes of all sources.
    bytes: usize,
    ranks: usize,
    manner: Manner,
}

impl DirectPass {
    /// Runs this pass's call again, on the same memory: what the last pass touched last is still in the cache, and
    /// is gone through first. What the caller has written since lies the same way. (64 KiB: 1.75 us upwards each
    /// time, 1.25 us to and fro.)
    #[inline]
    fn run_again(&mut self) {
        if self.bytes > TURNS_FROM {
            self.manner.down = !self.manner.down;
        }
        self.run();
    }

    #[inline]
    fn run(&self) {
        // SAFETY: the ranges were checked against every rank's allocation, which stay mapped as long as the call's
        // buffers live; only this rank touches them in this phase.
        unsafe { (self.kernel)(&self.sources, &self.destinations, self.count, self.ranks, self.manner) };
    }
}

/// The direct path of one rank.
#[derive(Debug)]
pub(super) struct Direct {
    /// Every rank's input and output in the prepared call, as this rank sees them.
    inputs: Vec<*mut u8>,
    outputs: Vec<*mut u8>,
    /// Filled again for each call: kept, so that no call allocates.
    destinations: Vec<*mut u8>,
    /// The one pass of the prepared call, if that is all it is.
    pass: Option<DirectPass>,
}

impl Direct {
    pub(super) fn new(ranks: usize) -> Self {
        let (inputs, outputs) = (Vec::with_capacity(ranks), Vec::with_capacity(ranks));
        Self { inputs, outputs, destinations: Vec::with_capacity(ranks), pass: None }
    }

    /// Forgets the prepared call.
    pub(super) fn forget(&mut self) {
        self.pass = None;
    }

    /// Finds every rank's buffers in registered memory, by the headers of the round of this place.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when a rank names memory that is not there.
    pub(super) fn resolve(&mut self, endpoint: &Endpoint, plan: &CallPlan, place: usize) -> Result<()> {
        self.inputs.clear();
        self.outputs.clear();
        let mut found: Option<Arc<Views>> = None;
        for peer in 0..endpoint.ranks() {
            let read_header: Buffers = endpoint.read_header(peer, place);
            let (input, output) = plan.extent(peer);
            let mut at = |needed: bool, key: Key, offset: u64, len: usize| -> Result<*mut u8> {
                if !needed {
                    return Ok(std::ptr::null_mut());
                }
                if found.as_ref().is_none_or(|views| views.key != key) {
                    found = endpoint.registry.resolve(key, &endpoint.members);
                }
                let at = found.as_ref().and_then(|views| views.at(endpoint.members[peer], offset, len));
                at.ok_or_else(|| {
                    Error::Mismatch(format!(
                        "rank {peer} names {len} bytes at {offset}, past the end of its allocation"
                    ))
                })
            };
            let input = at(plan.gives(peer), read_header.input_key, read_header.input, input)?;
            let output = at(plan.gets(peer), read_header.output_key, read_header.output, output)?;
            self.inputs.push(input);
            self.outputs.push(output);
        }
        Ok(())
    }

    /// After the round that exchanges all buffers. Ends with another, since no rank may touch its buffers before all
    /// are done with them.
    pub(super) fn run(&mut self, endpoint: &mut Endpoint, plan: &CallPlan) -> Result<()> {
        match plan.op {
            _ if self.pass.is_some() => self.pass.iter_mut().for_each(DirectPass::run_again),
            Collective::AllReduce | Collective::Reduce => self.reduce_slice(endpoint, plan),
            Collective::ReduceScatter => self.reduce_block(endpoint, plan),
            Collective::Broadcast | Collective::AllGather => self.spread(endpoint, plan),
            Collective::AllToAll if plan.in_place => self.swap(endpoint, plan),
            Collective::AllToAll | Collective::AllToAllV => self.pull(endpoint, plan),
            _ => self.split_pieces(endpoint, plan),
        }
        endpoint.rounds.pass()
    }

    /// Every rank reduces its share of the elements into all outputs.
    fn reduce_slice(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        let (begin, end) = share(plan.bytes, plan.rank, plan.ranks);
        let in_place = (0..plan.ranks).all(|rank| !plan.gets(rank) || self.inputs[rank] == self.outputs[rank]);
        let past_caches = !in_place && endpoint.goes_past_caches(plan.bytes);
        // Neighbours in pairs go away from the boundary between their shares: a processor that reads upwards to it
        // fetches what lies beyond, which the other is writing (0.1 us of 0.5 at 1 KiB).
        let down = plan.rank.is_multiple_of(2);
        self.reduce(endpoint, plan, (begin, begin, end - begin), Manner { past_caches, down });
    }

    /// Every rank reduces its block into its output.
    fn reduce_block(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        let piece = plan.piece(0, plan.rank);
        let past_caches = !plan.in_place && endpoint.goes_past_caches(plan.bytes);
        self.reduce(endpoint, plan, (piece.input, 0, piece.len), Manner { past_caches, down: false });
    }

    fn reduce(
        &mut self,
        endpoint: &Endpoint,
        plan: &CallPlan,
        (input, output, len): (usize, usize, usize),
        manner: Manner,
    ) {
        let sources = self.inputs.iter().map(|base| base.wrapping_add(input).cast_const()).collect();
        let needed = |rank: &usize| plan.gets(*rank) && (plan.op != Collective::ReduceScatter || *rank == plan.rank);
        let outputs = (0..plan.ranks).filter(needed).map(|rank| self.outputs[rank].wrapping_add(output));
        let destinations = outputs.collect();
        let (kernel, count) = (kernel(endpoint.isa, plan.dtype, plan.reduce), len / plan.element);
        let (bytes, ranks) = (len * plan.ranks, plan.ranks);
        let pass = DirectPass { sources, destinations, kernel, count, bytes, ranks, manner };
        pass.run();
        self.pass = Some(pass);
    }

    /// One source to all outputs: a broadcast's share of the root's input, or an all-gather's own block.
    fn spread(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        let (from, begin, end, output) = if plan.op == Collective::Broadcast {
            let (begin, end) = share(plan.bytes, plan.rank, plan.ranks);
            (plan.root, begin, end, begin)
        } else {
            let piece = plan.piece(plan.rank, plan.rank);
            (plan.rank, 0, piece.len, piece.output)
        };
        let source = self.inputs[from].wrapping_add(begin);
        self.destinations.clear();
        for base in &self.outputs {
            let to = base.wrapping_add(output);
            if to != source {
                self.destinations.push(to);
            }
        }
        if !self.destinations.is_empty() {
            let past_caches = endpoint.goes_past_caches(plan.bytes);
            // SAFETY: as in `reduce`.
            unsafe { copy(endpoint.isa, source, &self.destinations, end - begin, past_caches) };
        }
    }

    /// Takes every rank's piece for this one.
    fn pull(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        let past_caches = endpoint.goes_past_caches(plan.bytes);
        for distance in 0..plan.ranks {
            let from = (plan.rank + distance) % plan.ranks;
            let piece = plan.piece(from, plan.rank);
            let (source, to) = (self.inputs[from].wrapping_add(piece.input), self.outputs[plan.rank]);
            // SAFETY: as in `reduce`.
            unsafe { copy(endpoint.isa, source, &[to.wrapping_add(piece.output)], piece.len, past_caches) };
        }
    }

    /// In place, the blocks of each pair of ranks change places: each of the two does half of the exchange.
    fn swap(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        for peer in (0..plan.ranks).filter(|peer| *peer != plan.rank) {
            let (low, high) = (plan.rank.min(peer), plan.rank.max(peer));
            let piece = plan.piece(low, high);
            let (begin, end) = share(piece.len, usize::from(plan.rank == high), 2);
            let a = self.inputs[low].wrapping_add(piece.input + begin);
            let b = self.inputs[high].wrapping_add(piece.output + begin);
            // SAFETY: as in `reduce`; the two ranges are of different ranks' memory.
            unsafe { exchange(endpoint.isa, a, b, end - begin) };
        }
    }

    /// Gather and scatter: the pieces, laid end to end, are divided equally among all ranks, since the giver's and the
    /// getter's cores alone would leave the others idle.
    fn split_pieces(&mut self, endpoint: &Endpoint, plan: &CallPlan) {
        let root = plan.root;
        let scatter = plan.op == Collective::Scatter;
        let past_caches = endpoint.goes_past_caches(plan.bytes);
        let block = plan.longest_piece();
        let moves = |peer: usize| {
            let (from, to) = if scatter { (root, peer) } else { (peer, root) };
            let piece = plan.piece(from, to);
            (self.inputs[from].wrapping_add(piece.input), self.outputs[to].wrapping_add(piece.output))
        };
        let needed = |peer: usize| {
            let (from, to) = moves(peer);
            from != to
        };
        let total = (0..plan.ranks).filter(|peer| needed(*peer)).count() * block;
        let (begin, end) = share(total, plan.rank, plan.ranks);
        for (index, peer) in (0..plan.ranks).filter(|peer| needed(*peer)).enumerate() {
            let first = begin.max(index * block);
            let last = end.min((index + 1) * block);
            if first < last {
                let (from, to) = moves(peer);
                let at = first - index * block;
                // SAFETY: as in `reduce`.
                unsafe {
                    copy(endpoint.isa, from.wrapping_add(at), &[to.wrapping_add(at)], last - first, past_caches);
                }
            }
        }
    }
}
