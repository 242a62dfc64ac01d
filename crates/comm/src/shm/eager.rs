//! The eager path: every rank puts what it gives into its slot, or into the header itself, and one round later everybody
//! takes what it gets. For small messages, wherever the buffers lie.
//!
//! Who only gives goes on at once: what it gave lies in a slot of its own, which it writes again when all are known to have
//! taken it (see `rounds`). Who gets from one rank waits for that one alone.

use std::ops::Range;

use terms::Collective;

use super::area::{Area, INLINE, LINE, SMALL_SLOT, TINY_SLOT};
use super::buffers::Buffers;
use super::endpoint::{Endpoint, Until};
use super::flag::Looks;
use super::kernels::{claim, copy_in};
use super::pieces::take;
use super::plan::CallPlan;
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

/// Which slots a call uses: large ones are two, small and tiny ones as many as rounds have places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    Tiny,
    Small,
    Large,
}

impl Slots {
    #[inline]
    fn slot(self, area: &Area, place: usize) -> *mut u8 {
        match self {
            Self::Tiny => area.tiny_slot(place),
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

/// For whom this rank waits: a root gives to all or gets from all, and the others wait for nobody else.
fn until(endpoint: &Endpoint, plan: &CallPlan) -> Until {
    match plan.op {
        _ if !plan.gets_from_peers(plan.rank) => Until::Told,
        Collective::Broadcast | Collective::Scatter => Until::Arrived(plan.root),
        // What comes within the flag's line comes with it; other lines are asked for once it is seen.
        _ if plan.widest() <= INLINE => Until::All(endpoint.rounds.looks()),
        _ => Until::All(Looks::Tight),
    }
}

/// Which slots all use for this call.
#[inline]
fn slots_of(endpoint: &Endpoint, plan: &CallPlan) -> Slots {
    let ringed = match () {
        () if plan.rooted() => SMALL_SLOT,
        () if endpoint.oversubscribed => RINGED_SHARED_CORE,
        () if endpoint.two_far() && !plan.reduces() => RINGED,
        () => 0,
    };
    match plan.widest() {
        widest if widest > ringed => Slots::Large,
        widest if widest <= TINY_SLOT && endpoint.areas[plan.rank].has_tiny_slots() => Slots::Tiny,
        _ => Slots::Small,
    }
}

/// Copies this rank's input into a slot of the next round, without what is for itself alone. It must fit. Returns which
/// slots all use in this call.
pub(super) fn publish(endpoint: &mut Endpoint, plan: &CallPlan) -> Result<Slots> {
    let slots = slots_of(endpoint, plan);
    let rank = endpoint.rank();
    if !plan.gives(rank) {
        return Ok(slots);
    }
    if slots != Slots::Large {
        endpoint.make_room()?;
    } else if endpoint.rounds.unsettled() > 0 {
        endpoint.settle_all_but(0)?;
    }
    let slot = slots.slot(&endpoint.areas[rank], endpoint.rounds.next_place());
    let own = if plan.shared() { 0..0 } else { plan.own_part() };
    let parts = [0..own.start, own.end..plan.given];
    if slots != Slots::Large && plan.rooted() {
        parts.iter().for_each(|part| claim_lines(slot, part));
    }
    for part in &parts {
        // SAFETY: the slot of this place is this rank's to write (see `rounds`) and holds more than any eager
        // input; the input was validated to hold that much.
        unsafe { copy_in(endpoint.isa, plan.input.add(part.start), slot.add(part.start), part.len()) };
    }
    if slots != Slots::Large && !plan.rooted() {
        claim_place_after_next(endpoint, slots, &parts);
    }
    Ok(slots)
}

/// Loops call the same again: flag and slot of the place after the next come while this rank waits for its peers.
fn claim_place_after_next(endpoint: &Endpoint, slots: Slots, parts: &[Range<usize>]) {
    let (area, place) = (&endpoint.areas[endpoint.rank()], (endpoint.rounds.next_place() + 1) % RING);
    claim(area.header(place));
    let slot = slots.slot(area, place);
    parts.iter().for_each(|part| claim_lines(slot, part));
}

/// The eager path of one rank.
#[derive(Debug)]
pub(super) struct Eager {
    /// Filled again for each call: kept, so that no call allocates.
    sources: Vec<*const u8>,
}

impl Eager {
    pub(super) fn new(ranks: usize) -> Self {
        Self { sources: Vec::with_capacity(ranks) }
    }

    /// One call, from the first to the last of it.
    pub(super) fn run(&mut self, endpoint: &mut Endpoint, plan: &CallPlan) -> Result<()> {
        let until = until(endpoint, plan);
        if !matches!(until, Until::All(_)) {
            claim(endpoint.areas[plan.rank].header(endpoint.rounds.next_place()));
        }
        if plan.widest() > INLINE {
            let slots = publish(endpoint, plan)?;
            // Peers need no buffers here; a header that says so already is not written again.
            let place = endpoint.exchange_buffers(plan.signature, until, Buffers::default())?;
            self.take_from(slots, endpoint, plan, place);
            return Ok(());
        }
        let rank = endpoint.rank();
        let (input, gives, len) = (plan.input.cast_const(), plan.gives(rank), plan.given);
        let place = endpoint.exchange(plan.signature, until, |header| {
            if gives {
                // SAFETY: `len` is at most INLINE.
                unsafe { std::ptr::copy_nonoverlapping(input, header, len) };
            }
        })?;
        let endpoint = &*endpoint;
        take(endpoint, &mut self.sources, plan, (0, usize::MAX), |from| {
            // SAFETY: the piece lies inside the giver's input, and the giver's header holds a copy of it.
            unsafe { endpoint.areas[from].header(place).add(8 + plan.piece(from, rank).input) }
        });
        Ok(())
    }

    /// Takes what all have published in the round of this place.
    pub(super) fn take_published(&mut self, endpoint: &Endpoint, plan: &CallPlan, place: usize) {
        self.take_from(slots_of(endpoint, plan), endpoint, plan, place);
    }

    fn take_from(&mut self, slots: Slots, endpoint: &Endpoint, plan: &CallPlan, place: usize) {
        let rank = endpoint.rank();
        take(endpoint, &mut self.sources, plan, (0, usize::MAX), |from| {
            // SAFETY: the piece lies inside the giver's input, and the giver's slot holds a copy of it.
            unsafe { slots.slot(&endpoint.areas[from], place).add(plan.piece(from, rank).input) }
        });
    }
}
