//! What lies where in a rank's control area: the arena that each rank gives for flags, descriptors and slots.
//!
//! Only offsets and pointer arithmetic; what is written there belongs to the protocols.

use std::sync::Arc;

use device::{PAGE, SharedMapping, skew};

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

/// One rank's control area, as this rank maps it.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    base: *mut u8,
    size: usize,
    /// Keeps the pages mapped.
    _mapping: Arc<SharedMapping>,
}

// SAFETY: an address range kept mapped by `_mapping`; access is by protocol, through raw pointers.
unsafe impl Send for Area {}

impl Area {
    /// Bytes that the area of a rank takes, skew included.
    pub(crate) fn bytes(rank: u32, size: usize) -> usize {
        skew(rank) + slots_at(size) + 2 * SLOT + 4 * MAIL_SLOT + RING * SMALL_APART
    }

    /// The area of `rank` among `size`; None if the mapping is too small for one.
    pub(crate) fn new(mapping: Arc<SharedMapping>, rank: u32, size: usize) -> Option<Self> {
        if mapping.len() < Self::bytes(rank, size) {
            return None;
        }
        // SAFETY: the skew lies inside, as just checked.
        let base = unsafe { mapping.base().add(skew(rank)) };
        Some(Self { base, size, _mapping: mapping })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: every offset below comes from this module's arithmetic, which `bytes` covers.
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
        self.at(slots_at(self.size) + (place & 1) * SLOT)
    }

    /// The small slot of collective rounds of one place: [`SMALL_SLOT`] bytes.
    pub(crate) fn small_slot(&self, place: usize) -> *mut u8 {
        debug_assert!(place < RING);
        self.at(slots_at(self.size) + 2 * SLOT + 4 * MAIL_SLOT + place * SMALL_APART)
    }

    /// A slot for messages: [`MAIL_SLOT`] bytes.
    pub(crate) fn mail_slot(&self, direction: usize, parity: usize) -> *mut u8 {
        debug_assert!(direction < 2 && parity < 2);
        self.at(slots_at(self.size) + 2 * SLOT + (direction * 2 + parity) * MAIL_SLOT)
    }
}

/// Where slots begin, from the area's base.
fn slots_at(size: usize) -> usize {
    (RING * APART + size * 2 * PAIR).next_multiple_of(PAGE)
}
