//! The eager path: every rank puts what it gives into its slot, or into the header itself, and one round later everybody
//! takes what it gets. For small messages, wherever the buffers lie.

use super::area::INLINE;
use super::choice::Buffers;
use super::group::Group;
use super::kernels::{Manner, copy, kernel};
use super::plan::Plan;
use crate::Result;

impl Group {
    pub(super) fn eager(&mut self, plan: &Plan) -> Result<()> {
        if plan.widest() > INLINE {
            self.publish(plan);
            // Of buffers nothing need be told; a header that says so already is not written again.
            let parity = self.exchange_buffers(plan.signature, Buffers::default())?;
            self.take_published(plan, parity);
            return Ok(());
        }
        let rank = self.rank();
        let (input, gives, len) = (plan.input.cast_const(), plan.gives(rank), plan.given);
        let parity = self.exchange(plan.signature, |header| {
            if gives {
                // SAFETY: `len` is at most INLINE.
                unsafe { std::ptr::copy_nonoverlapping(input, header, len) };
            }
        })?;
        self.take(plan, 0, usize::MAX, |group, from| {
            // SAFETY: the piece lies inside the giver's input, a copy of which is in its header.
            unsafe { group.areas[from].header(parity).add(8 + plan.piece(from, rank).input) }
        });
        Ok(())
    }

    /// Copies this rank's input into the slot of the next round, without what is for itself alone. It must fit.
    pub(super) fn publish(&self, plan: &Plan) {
        let rank = self.rank();
        if !plan.gives(rank) {
            return;
        }
        let slot = self.areas[rank].slot(self.rounds.next_parity());
        let own = if plan.shared() { 0..0 } else { plan.own_part() };
        for part in [0..own.start, own.end..plan.given] {
            // SAFETY: the slot of this parity is this rank's to write (see `rounds`) and holds more than any eager
            // input; the input was validated to hold that much.
            unsafe { self.copy_in(plan.input.add(part.start), slot.add(part.start), part.len()) };
        }
    }

    /// Takes what all have published in the round of this parity.
    pub(super) fn take_published(&mut self, plan: &Plan, parity: usize) {
        let rank = self.rank();
        self.take(plan, 0, usize::MAX, |group, from| {
            // SAFETY: the piece lies inside the giver's input, a copy of which is in its slot.
            unsafe { group.areas[from].slot(parity).add(plan.piece(from, rank).input) }
        });
    }

    /// Copies by the inlined library routine what is too short for the kernels' set-up.
    ///
    /// # Safety
    /// Valid ranges that do not overlap, and that nobody else touches.
    #[inline]
    pub(super) unsafe fn copy_in(&self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: passed on to the caller.
        unsafe {
            if len <= 1024 {
                std::ptr::copy_nonoverlapping(from, to, len);
            } else {
                copy(self.isa, from, &[to], len, false);
            }
        }
    }

    /// Takes bytes `begin..begin + limit` of each piece that this rank gets, after the round that published them.
    /// `published(from)` is where byte `begin` of `from`'s piece for this rank lies. This rank's own piece is taken from
    /// its input.
    pub(super) fn take(
        &mut self,
        plan: &Plan,
        begin: usize,
        limit: usize,
        published: impl Fn(&Self, usize) -> *const u8,
    ) {
        let rank = self.rank();
        if !plan.gets(rank) {
            return;
        }
        let (input, output) = (plan.input.cast_const(), plan.output);
        if plan.reduces() {
            let piece = plan.piece(rank, rank);
            let len = piece.len.saturating_sub(begin).min(limit);
            let mut sources = std::mem::take(&mut self.sources);
            sources.clear();
            // SAFETY: inside this rank's input, as validated.
            let own = unsafe { input.add(piece.input + begin) };
            sources.extend((0..plan.ranks).map(|from| if from == rank { own } else { published(self, from) }));
            // SAFETY: inside this rank's output. In place it is `own` itself, which the kernel allows.
            let to = unsafe { output.add(piece.output + begin) };
            let kernel = kernel(self.isa, plan.dtype, plan.reduce);
            // SAFETY: all sources hold `len` bytes that were published and that nobody writes until two rounds later.
            unsafe { kernel(&sources, &[to], len / plan.element, plan.ranks, Manner::default()) };
            self.sources = sources;
            return;
        }
        for from in 0..plan.ranks {
            let piece = plan.piece(from, rank);
            let len = piece.len.saturating_sub(begin).min(limit);
            if len == 0 || !plan.gives(from) {
                continue;
            }
            // SAFETY: inside this rank's input and output, as validated.
            let (own, to) = unsafe { (input.wrapping_add(piece.input + begin), output.add(piece.output + begin)) };
            let source = if from == rank { own } else { published(self, from) };
            if source != to.cast_const() {
                // SAFETY: published, as above; the output overlaps neither slots nor, unless in place, the input.
                unsafe { self.copy_in(source, to, len) };
            }
        }
    }
}
