//! What lies where in a rank's control area: its part of the arena for flags, headers and slots.
//!
//! Only offsets and pointer arithmetic; what is written there belongs to the protocols.

use std::sync::Arc;

use device::{PAGE, SharedMapping};

use super::flag::{AtomicU32, Flag, Word};
use super::rounds::RING;

/// Bytes of a line. Two are kept apart from the next pair, since processors fetch neighbours in pairs.
pub(crate) const LINE: usize = 64;
const PAIR: usize = 2 * LINE;
/// From the flag of one place to the next: another page each, and another line of the page. Processors fetch lines near those
/// that they miss in a page, and so took the next flag away from the peer that was about to raise it (`all_gather` of 64 B,
/// 2 ranks: 0.30 us with the flags in a row).
const APART: usize = PAGE + PAIR;
/// Bytes of a collective's slot, one for each parity: the chunk of the staged path.
pub(crate) const SLOT: usize = 1 << 20;
/// Bytes of a slot of the ring, one for each place of a round: what ranks give that do not wait for who takes it.
pub(crate) const SMALL_SLOT: usize = 64 << 10;
/// From one to the next: all are in use in turn, and caches, which choose the place of a line by its lower address bits, must
/// have room for the same line of each. (`broadcast` of 1 KiB, 2 ranks: 0.07 us, with slots right behind each other 0.09.)
const SMALL_APART: usize = SMALL_SLOT + PAGE + 5 * PAIR;
/// Bytes of a point-to-point slot, one for each direction and parity.
pub(crate) const MAIL_SLOT: usize = 256 << 10;
/// Bytes that travel in a header line, beside the flag.
pub(crate) const INLINE: usize = LINE - 16;

/// Where slots lie, from the area's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    large: usize,
    mail: usize,
    small: usize,
    /// Bytes of the area's beginning that hold what most calls touch.
    pub(crate) hot: usize,
    /// Bytes of the area.
    pub(crate) bytes: usize,
}

impl Order {
    /// Of the areas of `size` ranks. Where many share a core, the slots of small calls come first: with the flags they lie in
    /// one huge page, and the rest need none.
    pub(crate) fn of(size: usize, crowded: bool) -> Self {
        let slots = slots_at(size);
        let ring = (RING * SMALL_APART).next_multiple_of(PAGE);
        let bytes = slots + 2 * SLOT + 4 * MAIL_SLOT + ring;
        if crowded {
            let large = slots + ring;
            return Self { large, mail: large + 2 * SLOT, small: slots, hot: large, bytes };
        }
        let mail = slots + 2 * SLOT;
        Self { large: slots, mail, small: mail + 4 * MAIL_SLOT, hot: bytes, bytes }
    }
}

/// One rank's control area, as this rank maps it.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    base: *mut u8,
    size: usize,
    order: Order,
    /// Keeps the pages mapped.
    _mapping: Arc<SharedMapping>,
}

// SAFETY: an address range kept mapped by `_mapping`; access is by protocol, through raw pointers.
unsafe impl Send for Area {}

impl Area {
    /// The area that begins there, of a rank among `size`; None if the mapping ends before it does.
    pub(crate) fn new(mapping: Arc<SharedMapping>, begin: usize, size: usize, order: Order) -> Option<Self> {
        if mapping.len() < begin.checked_add(order.bytes)? {
            return None;
        }
        // SAFETY: inside, as just checked.
        let base = unsafe { mapping.base().add(begin) };
        Some(Self { base, size, order, _mapping: mapping })
    }

    /// Which mapping it lies in.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn mapping(&self) -> *const SharedMapping {
        Arc::as_ptr(&self._mapping)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: every offset below comes from this module's arithmetic, which `Order::bytes` covers.
        unsafe { self.base.add(offset) }
    }

    fn flag(&self, offset: usize) -> Flag {
        let word = |offset| {
            // SAFETY: inside the mapping and 4-aligned; the first 16 bytes of a line are only used as flag words, and
            // whoever holds a Flag holds this area.
            unsafe { Word::new(self.at(offset).cast::<AtomicU32>()) }
        };
        Flag::new(word(offset), word(offset + 4))
    }

    /// The flag of collective rounds of one place.
    pub(crate) fn round_flag(&self, place: usize) -> Flag {
        debug_assert!(place < RING);
        self.flag(place * APART)
    }

    /// The header of collective rounds of one place: 8 bytes of signature and [`INLINE`] bytes.
    pub(crate) fn header(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING);
        self.at(place * APART + 8)
    }

    /// The flag of messages from this area's rank to `to`, of one parity.
    pub(crate) fn sent_flag(&self, to: usize, parity: usize) -> Flag {
        self.flag(self.mail_at(to) + parity * LINE)
    }

    /// The header of messages to `to`.
    pub(crate) fn mail_header(&self, to: usize, parity: usize) -> *mut u8 {
        self.at(self.mail_at(to) + parity * LINE + 8)
    }

    /// The flag that counts the messages that this area's rank took from `from`.
    pub(crate) fn taken_flag(&self, from: usize) -> Flag {
        self.flag(self.mail_at(from) + PAIR)
    }

    fn mail_at(&self, peer: usize) -> usize {
        debug_assert!(peer < self.size);
        RING * APART + peer * 2 * PAIR
    }

    /// The slot of collective rounds whose places are of one parity: [`SLOT`] bytes.
    pub(crate) fn slot(&self, place: usize) -> *mut u8 {
        self.at(self.order.large + (place & 1) * SLOT)
    }

    /// The small slot of collective rounds of one place: [`SMALL_SLOT`] bytes.
    pub(crate) fn small_slot(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING);
        self.at(self.order.small + place * SMALL_APART)
    }

    /// A slot for messages: [`MAIL_SLOT`] bytes.
    pub(crate) fn mail_slot(&self, direction: usize, parity: usize) -> *mut u8 {
        debug_assert!(direction < 2 && parity < 2);
        self.at(self.order.mail + (direction * 2 + parity) * MAIL_SLOT)
    }
}

/// Where slots begin, from the area's base.
fn slots_at(size: usize) -> usize {
    (RING * APART + size * 2 * PAIR).next_multiple_of(PAGE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_overlap_in_neither_order() {
        for (size, crowded) in [(2, false), (256, false), (256, true), (1024, true)] {
            let order = Order::of(size, crowded);
            let ring = RING * SMALL_APART;
            let mut pieces = [(order.large, 2 * SLOT), (order.mail, 4 * MAIL_SLOT), (order.small, ring)];
            pieces.sort_unstable();
            assert!(pieces[0].0 >= slots_at(size), "{size}: flags come first");
            assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{size}: {pieces:?}");
            assert!(pieces[2].0 + pieces[2].1 <= order.bytes && order.hot <= order.bytes);
            assert!(!crowded || order.small + ring <= order.hot && order.hot < order.bytes / 2);
        }
    }
}
