//! The eager path: every rank puts what it gives into its slot, or into the header itself, and one round later everybody
//! takes what it gets. For small messages, wherever the buffers lie.
//!
//! Who only gives goes on at once: what it gave lies in a slot of its own, which it writes again when all are known to have
//! taken it (see `rounds`). Who gets from one rank waits for that one alone.

use std::ops::Range;

use terms::Collective;

use super::area::{Area, INLINE, LINE, SMALL_SLOT};
use super::choice::Buffers;
use super::flag::Looks;
use super::group::{Group, Until};
use super::kernels::{Manner, claim, copy, kernel};
use super::plan::Plan;
use super::rounds::RING;
use crate::Result;

/// The most bytes that a rank gives in an operation of all that does not reduce, for which slots are those of the ring where
/// two ranks have cores far from each other. (`all_gather` of 1 KiB: 0.42 us, by the two large ones 0.48, but with near cores
/// 0.12 and 0.10; `all_reduce` takes longer by a tenth and more.)
const RINGED: usize = 1 << 10;
/// The most that a rank gives in any operation for the same where ranks share cores: slots of the ring are claimed while ranks
/// switch, and so are not waited for. (AMD of Zen 5, `all_to_all` of 8 KiB with 4 ranks on 2 cores far from each other 4.0 us, by
/// the two large slots 4.8, on near ones 2.23 and 2.31; of 32 KiB no difference.)
const RINGED_SHARED_CORE: usize = 16 << 10;

/// Which slots a call uses: large ones are two, small ones as many as rounds have places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    Small,
    Large,
}

impl Slots {
    #[inline]
    fn of(self, area: &Area, place: usize) -> *mut u8 {
        match self {
            Self::Small => area.small_slot(place),
            Self::Large => area.slot(place),
        }
    }
}

/// Asks for the lines of these bytes of a slot, to write them.
#[inline]
fn claim_lines(slot: *const u8, part: &Range<usize>) {
    part.clone().step_by(LINE).for_each(|line| claim(slot.wrapping_add(line)));
}

impl Group {
    pub(super) fn eager(&mut self, plan: &Plan) -> Result<()> {
        let until = self.until(plan);
        if !matches!(until, Until::All(_)) {
            claim(self.areas[plan.rank].header(self.rounds.next_place()));
        }
        if plan.widest() > INLINE {
            let slots = self.publish(plan)?;
            // Of buffers nothing need be told; a header that says so already is not written again.
            let place = self.exchange_buffers(plan.signature, until, Buffers::default())?;
            self.take_published(plan, slots, place);
            return Ok(());
        }
        let rank = self.rank();
        let (input, gives, len) = (plan.input.cast_const(), plan.gives(rank), plan.given);
        let place = self.exchange(plan.signature, until, |header| {
            if gives {
                // SAFETY: `len` is at most INLINE.
                unsafe { std::ptr::copy_nonoverlapping(input, header, len) };
            }
        })?;
        self.take(plan, 0, usize::MAX, |group, from| {
            // SAFETY: the piece lies inside the giver's input, a copy of which is in its header.
            unsafe { group.areas[from].header(place).add(8 + plan.piece(from, rank).input) }
        });
        Ok(())
    }

    /// For whom this rank waits: a root gives to all or gets from all, and the others wait for nobody else.
    fn until(&self, plan: &Plan) -> Until {
        match plan.op {
            _ if !plan.gets_from_peers(plan.rank) => Until::Told,
            Collective::Broadcast | Collective::Scatter => Until::Arrived(plan.root),
            // What comes within the flag's line comes with it; other lines are asked for once it is seen.
            _ if plan.widest() <= INLINE => Until::All(self.rounds.looks()),
            _ => Until::All(Looks::Tight),
        }
    }

    /// Which slots all use for this call.
    #[inline]
    pub(super) fn slots_of(&self, plan: &Plan) -> Slots {
        let ringed = match () {
            () if plan.rooted() => SMALL_SLOT,
            () if self.oversubscribed => RINGED_SHARED_CORE,
            () if self.two_far() && !plan.reduces() => RINGED,
            () => 0,
        };
        if plan.widest() <= ringed { Slots::Small } else { Slots::Large }
    }

    /// Copies this rank's input into a slot of the next round, without what is for itself alone. It must fit. Returns which
    /// slots all use in this call.
    pub(super) fn publish(&mut self, plan: &Plan) -> Result<Slots> {
        let slots = self.slots_of(plan);
        let rank = self.rank();
        if !plan.gives(rank) {
            return Ok(slots);
        }
        if slots == Slots::Small {
            self.make_room()?;
        } else if self.rounds.unsettled() > 0 {
            self.settle(0)?;
        }
        let slot = slots.of(&self.areas[rank], self.rounds.next_place());
        let own = if plan.shared() { 0..0 } else { plan.own_part() };
        let parts = [0..own.start, own.end..plan.given];
        if slots == Slots::Small && plan.rooted() {
            parts.iter().for_each(|part| claim_lines(slot, part));
        }
        for part in &parts {
            // SAFETY: the slot of this place is this rank's to write (see `rounds`) and holds more than any eager
            // input; the input was validated to hold that much.
            unsafe { self.copy_in(plan.input.add(part.start), slot.add(part.start), part.len()) };
        }
        if slots == Slots::Small && !plan.rooted() {
            self.claim_place_after_next(&parts);
        }
        Ok(slots)
    }

    /// Loops call the same again: flag and slot of the place after the next come while this rank waits for its peers.
    fn claim_place_after_next(&self, parts: &[Range<usize>]) {
        let (area, place) = (&self.areas[self.rank()], (self.rounds.next_place() + 1) % RING);
        claim(area.header(place));
        let slot = area.small_slot(place);
        parts.iter().for_each(|part| claim_lines(slot, part));
    }

    /// Takes what all have published in the round of this place.
    pub(super) fn take_published(&mut self, plan: &Plan, slots: Slots, place: usize) {
        let rank = self.rank();
        self.take(plan, 0, usize::MAX, |group, from| {
            // SAFETY: the piece lies inside the giver's input, a copy of which is in its slot.
            unsafe { slots.of(&group.areas[from], place).add(plan.piece(from, rank).input) }
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
            // SAFETY: all sources hold `len` bytes that were published and that nobody writes before this rank has gone on (see `rounds`).
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
