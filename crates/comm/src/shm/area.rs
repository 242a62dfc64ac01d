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
/// Bytes of a slot of the ring where many ranks share a core, for what fits: all ranks' slots lie together with their flags, so
/// that a rank maps few pages of its peers and few are filled with zeros at the start.
pub(crate) const TINY_SLOT: usize = PAGE;
/// From one to the next: another line of the page, as for small ones.
const TINY_APART: usize = TINY_SLOT + PAIR;
/// Bytes of a rank's flags and tiny slots where many ranks share a core: an odd number of pairs of lines, so that the same
/// line of all ranks does not fall into few sets of a cache.
const HEAD: usize = RING * (PAIR + TINY_APART) + PAIR;
/// Bytes of a point-to-point slot, one for each direction and parity.
pub(crate) const MAIL_SLOT: usize = 256 << 10;
/// Bytes that fit in a header line after the flag.
pub(crate) const INLINE: usize = LINE - 16;

/// Where flags and slots lie, from the area's base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// From the flag of one place to the next.
    flags_apart: usize,
    /// Where flags of messages begin.
    mail_flags: usize,
    large: usize,
    mail: usize,
    small: usize,
    /// Bytes of the flags and tiny slots that lie together with those of other ranks; 0: the area has its flags itself.
    pub(crate) head: usize,
    /// Bytes of the area.
    pub(crate) bytes: usize,
}

impl Order {
    /// The order of the areas of `size` ranks. `crowded`: many share a core.
    pub(crate) fn for_size(size: usize, crowded: bool) -> Self {
        let (flags_apart, mail_flags, head) = if crowded { (PAIR, 0, HEAD) } else { (APART, RING * APART, 0) };
        let large = (mail_flags + size * 2 * PAIR).next_multiple_of(PAGE);
        let mail = large + 2 * SLOT;
        let small = mail + 4 * MAIL_SLOT;
        let bytes = small + (RING * SMALL_APART).next_multiple_of(PAGE);
        Self { flags_apart, mail_flags, large, mail, small, head, bytes }
    }
}

/// One rank's control area, as this rank maps it.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    /// Where its flags begin: the base itself, or among those of all ranks.
    head: *mut u8,
    base: *mut u8,
    size: usize,
    order: Order,
    /// Keeps the pages mapped.
    _mapping: Arc<SharedMapping>,
}

// SAFETY: an address range kept mapped by `_mapping`; access is by protocol, through raw pointers.
unsafe impl Send for Area {}

impl Area {
    /// The area that begins there, of a rank among `size`, with its head at `head` if the order has one; None if the mapping
    /// ends before it does.
    pub(crate) fn new(
        mapping: Arc<SharedMapping>,
        (head, begin): (usize, usize),
        size: usize,
        order: Order,
    ) -> Option<Self> {
        let head = if order.head > 0 { head } else { begin };
        if mapping.len() < begin.checked_add(order.bytes)?.max(head.checked_add(order.head)?) {
            return None;
        }
        // SAFETY: both inside, as just checked.
        let (head, base) = unsafe { (mapping.base().add(head), mapping.base().add(begin)) };
        Some(Self { head, base, size, order, _mapping: mapping })
    }

    /// Which mapping it lies in.
    #[cfg(not(test))]
    pub(crate) fn mapping(&self) -> *const SharedMapping {
        Arc::as_ptr(&self._mapping)
    }

    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: every offset below comes from this module's arithmetic, which `Order::bytes` covers.
        unsafe { self.base.add(offset) }
    }

    /// The address this many bytes after the beginning of the flags.
    fn head_at(&self, offset: usize) -> *mut u8 {
        // SAFETY: as above; `Order::head` covers it where the head lies apart.
        unsafe { self.head.add(offset) }
    }

    fn flag(line: *mut u8) -> Flag {
        let word = |offset| {
            // SAFETY: `line` is one of this area's, so inside the mapping and 4-aligned; the first 16 bytes of a line are only
            // used as flag words, and the holder of a Flag holds this area.
            unsafe { Word::new(line.add(offset).cast::<AtomicU32>()) }
        };
        Flag::new(word(0), word(4))
    }

    /// The flag of collective rounds of one place.
    pub(crate) fn round_flag(&self, place: usize) -> Flag {
        debug_assert!(place < RING);
        Self::flag(self.head_at(place * self.order.flags_apart))
    }

    /// The header of collective rounds of one place: 8 bytes of signature and [`INLINE`] bytes.
    pub(crate) fn header(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING);
        self.head_at(place * self.order.flags_apart + 8)
    }

    /// The flag of messages from this area's rank to `to`, of one parity.
    pub(crate) fn sent_flag(&self, to: usize, parity: usize) -> Flag {
        Self::flag(self.at(self.mail_at(to) + parity * LINE))
    }

    /// The header of messages to `to`.
    pub(crate) fn mail_header(&self, to: usize, parity: usize) -> *mut u8 {
        self.at(self.mail_at(to) + parity * LINE + 8)
    }

    /// The flag that counts the messages that this area's rank took from `from`.
    pub(crate) fn taken_flag(&self, from: usize) -> Flag {
        Self::flag(self.at(self.mail_at(from) + PAIR))
    }

    fn mail_at(&self, peer: usize) -> usize {
        debug_assert!(peer < self.size);
        self.order.mail_flags + peer * 2 * PAIR
    }

    /// The slot of collective rounds with places of one parity: [`SLOT`] bytes.
    pub(crate) fn slot(&self, place: usize) -> *mut u8 {
        self.at(self.order.large + (place & 1) * SLOT)
    }

    /// The small slot of collective rounds of one place: [`SMALL_SLOT`] bytes.
    pub(crate) fn small_slot(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING);
        self.at(self.order.small + place * SMALL_APART)
    }

    /// Whether it has tiny slots.
    #[inline]
    pub(crate) fn has_tiny_slots(&self) -> bool {
        self.order.head > 0
    }

    /// The tiny slot of collective rounds of one place: [`TINY_SLOT`] bytes, where there are any.
    pub(crate) fn tiny_slot(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING && self.has_tiny_slots());
        self.head_at(RING * PAIR + place * TINY_APART)
    }

    /// A slot for messages: [`MAIL_SLOT`] bytes.
    pub(crate) fn mail_slot(&self, direction: usize, parity: usize) -> *mut u8 {
        debug_assert!(direction < 2 && parity < 2);
        self.at(self.order.mail + (direction * 2 + parity) * MAIL_SLOT)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_an_area_overlaps() {
        for (size, crowded) in [(2, false), (256, false), (256, true), (1024, true)] {
            let order = Order::for_size(size, crowded);
            let mut pieces =
                vec![(order.large, 2 * SLOT), (order.mail, 4 * MAIL_SLOT), (order.small, RING * SMALL_APART)];
            pieces.extend((0..size).map(|peer| (order.mail_flags + peer * 2 * PAIR, 2 * PAIR)));
            if crowded {
                assert!(RING * PAIR + RING * TINY_APART <= order.head, "slots of a head lie behind its flags");
            } else {
                pieces.extend((0..RING).map(|place| (place * order.flags_apart, LINE)));
            }
            pieces.sort_unstable();
            assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{size}: {pieces:?}");
            assert!(pieces.last().is_some_and(|(at, len)| at + len <= order.bytes));
        }
    }

    /// Heads of ranks follow one another: the same line of many of them must not fall into few sets of a cache.
    #[test]
    fn heads_of_ranks_spread_over_sets() {
        let sets: std::collections::BTreeSet<_> = (0..512).map(|rank| rank * HEAD / PAIR % 512).collect();
        assert_eq!((HEAD % PAIR, sets.len()), (0, 512));
    }
}
