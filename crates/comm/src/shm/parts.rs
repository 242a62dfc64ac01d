//! Where each rank's part lies in the one file that all ranks of a group map: arithmetic only.
//!
//! One file and not one a rank: of n ranks each would map n files, and rank 0 would pass n x n descriptors. Each rank gives
//! pages to its own part, so that they are near its core on machines with several memory nodes.

use std::ops::Range;

use device::{HUGE_PAGE, PAGE, skew};

use super::area::Order;

/// Parts of at least this many bytes have huge pages of their own; shorter ones lie close together.
const HUGE_FROM: usize = 5 << 18;

/// One rank's part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankPart {
    /// The bytes of the file that need pages.
    pub(crate) pages: Range<usize>,
    /// Where the rank's data begins.
    pub(crate) begin: usize,
}

/// Bytes of the file that one rank gives pages to, the first so many of them huge ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) range: Range<usize>,
    pub(crate) huge: usize,
}

/// All ranks' parts.
#[derive(Clone, Debug)]
pub(crate) struct AllParts {
    pub(crate) parts: Vec<RankPart>,
    /// Bytes before the parts that are not one rank's: whole huge pages, which ranks provide in turn.
    shared: usize,
    /// Whether parts get their pages at once, or each when it is first touched.
    at_once: bool,
    /// Bytes of the file.
    pub(crate) len: usize,
}

impl AllParts {
    /// A part of `bytes` for each of these members, in their order. None where that is more than an address can tell.
    pub(crate) fn new(members: &[u32], bytes: usize) -> Option<Self> {
        Self::behind(0, members, bytes, bytes < HUGE_FROM)
    }

    /// Control areas of this order. Where they have heads, these come first, in the order of ranks. The rest, 4 MiB a rank, is
    /// used by large messages only: giving it pages at once took a fifth of all time until 256 ranks were ready.
    pub(crate) fn of_areas(members: &[u32], order: Order) -> Option<Self> {
        let heads = members.len().checked_mul(order.head)?.checked_next_multiple_of(HUGE_PAGE)?;
        let all = Self::behind(heads, members, order.bytes, order.head > 0)?;
        Some(Self { at_once: order.head == 0, ..all })
    }

    fn behind(shared: usize, members: &[u32], bytes: usize, together: bool) -> Option<Self> {
        // Far from both ends of what arithmetic below can hold.
        if bytes.checked_mul(2 * members.len().max(1))?.checked_add(shared)? > isize::MAX as usize / 2 {
            return None;
        }
        let (mut parts, mut end) = (Vec::with_capacity(members.len()), shared);
        for member in members {
            let part = if together { close(*member, bytes, &mut end) } else { apart(*member, bytes, &mut end) };
            parts.push(part);
        }
        Some(Self { parts, shared, at_once: true, len: end.max(PAGE) })
    }

    /// What a rank gives pages to: its own part, and its share of what comes before all parts.
    pub(crate) fn provided_by(&self, rank: usize) -> Vec<Pages> {
        let shared = (0..self.shared).step_by(HUGE_PAGE).skip(rank).step_by(self.parts.len());
        let mut pages: Vec<Pages> =
            shared.map(|begin| Pages { range: begin..begin + HUGE_PAGE, huge: HUGE_PAGE }).collect();
        if self.at_once {
            let part = self.parts[rank].pages.clone();
            // Parts that lie close together begin and end anywhere: theirs are small.
            let whole = [part.start, part.end].iter().all(|at| at.is_multiple_of(HUGE_PAGE));
            pages.push(Pages { huge: if whole { part.len() } else { 0 }, range: part });
        }
        pages
    }

    /// Whether a machine with so many bytes available has them for all parts, as far as that must be known before they are
    /// touched: pages that are given at once are refused one by one.
    pub(crate) fn fits(&self, available: Option<u64>) -> bool {
        self.at_once || available.is_none_or(|available| self.bytes() <= available)
    }

    /// Bytes that have pages once all ranks have given theirs and touched the others.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared as u64 + self.parts.iter().map(|part| part.pages.len() as u64).sum::<u64>()
    }
}

/// On huge pages of its own, with the skew of the rank before its data.
fn apart(member: u32, bytes: usize, end: &mut usize) -> RankPart {
    let begin = *end + skew(member);
    let pages = *end..(begin + bytes).next_multiple_of(HUGE_PAGE);
    *end = pages.end;
    RankPart { pages, begin }
}

/// Close to the part before it. An odd number of pages from part to part: the distance of no two ranks is then a multiple of
/// 2^28 bytes, or of any other power of two pages that fewer ranks would fill (see [`skew`]). Two pages between them keep
/// prefetching of one rank's lines from another's.
fn close(member: u32, bytes: usize, end: &mut usize) -> RankPart {
    let begin = *end + skew(member) % PAGE;
    let pages = *end..(begin + bytes.max(1)).next_multiple_of(PAGE);
    // Alike for all ranks, wherever in its first page a rank begins.
    let longest = (PAGE / 2 + bytes.max(1)).div_ceil(PAGE);
    *end += ((longest + 2) | 1) * PAGE;
    RankPart { pages, begin }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn parts(ranks: u32, bytes: usize) -> AllParts {
        AllParts::new(&(0..ranks).collect::<Vec<_>>(), bytes).unwrap()
    }

    #[test]
    fn parts_hold_their_bytes_and_share_no_page() {
        for bytes in [0, 1, 64, 2048, 4096, 5000, 1 << 20, HUGE_FROM, 2 << 20, (64 << 20) + 3] {
            for ranks in [1, 2, 9, 64, 1024] {
                let all = parts(ranks, bytes);
                let mut end = 0;
                for part in &all.parts {
                    assert!(part.pages.start >= end, "{bytes} x {ranks}: {part:?} begins before {end}");
                    assert!(part.pages.contains(&part.begin) && part.begin + bytes <= part.pages.end);
                    let granule = if bytes < HUGE_FROM { PAGE } else { HUGE_PAGE };
                    assert!(part.pages.start % granule == 0 && part.pages.end % granule == 0, "{bytes}: {part:?}");
                    end = part.pages.end;
                }
                assert!(all.len >= end.max(PAGE) && all.bytes() as usize <= all.len);
            }
        }
    }

    /// Ranks' data an exact multiple of a power of two pages apart meets in few sets of a cache (see [`skew`]).
    #[test]
    fn no_two_ranks_data_lie_a_multiple_of_2_28_apart() {
        for bytes in [1, 4096, 64 << 10, 1 << 20, 2 << 20, 6 << 20, 64 << 20, 1 << 28] {
            let all = parts(61, bytes).parts;
            for (i, one) in all.iter().enumerate() {
                for other in &all[..i] {
                    assert_ne!((one.begin - other.begin) % (1 << 28), 0, "{bytes}: {one:?} {other:?}");
                }
            }
        }
        let close = parts(1024, 64).parts;
        let sets: std::collections::BTreeSet<_> = close.iter().map(|part| part.begin / PAGE % 1024).collect();
        assert_eq!(sets.len(), 1024, "every set of 1,024 pages is used once");
    }

    /// Pages are provided once, by one rank, whichever rank owns them. Of a crowd only heads are.
    #[test]
    fn ranks_provide_pages_once() {
        for (ranks, crowded) in [(4, false), (20, true), (256, true), (1024, true)] {
            let order = Order::for_size(ranks, crowded);
            let all = AllParts::of_areas(&(0..ranks as u32).collect::<Vec<_>>(), order).unwrap();
            let mut provided: Vec<Pages> = (0..ranks).flat_map(|rank| all.provided_by(rank)).collect();
            provided.sort_by_key(|pages| pages.range.start);
            assert!(provided.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start), "{ranks}");
            let bytes: usize = provided.iter().map(|pages| pages.range.len()).sum();
            assert_eq!(bytes as u64, if crowded { all.shared as u64 } else { all.bytes() });
            assert!(provided.iter().all(|pages| pages.huge == pages.range.len()), "{ranks}");
            assert!(!crowded || bytes <= 72 << 20, "{ranks} ranks: {bytes} are filled with zeros at the start");
            let holds = |at: usize| provided.iter().any(|pages| pages.range.contains(&at));
            for (rank, part) in all.parts.iter().enumerate() {
                assert!(crowded || holds(part.begin) && holds(part.begin + order.bytes - 1), "{ranks}: {part:?}");
                let head = rank * order.head;
                assert!(!crowded || holds(head) && holds(head + order.head - 1), "{ranks}: head of {rank}");
                assert!(!crowded || head + order.head <= all.shared && part.begin >= all.shared);
            }
        }
    }

    /// What is not given pages at once must be there when it is touched.
    #[test]
    fn what_gets_pages_later_is_refused_at_once() {
        let crowd = AllParts::of_areas(&(0..64).collect::<Vec<_>>(), Order::for_size(64, true)).unwrap();
        assert!(crowd.fits(None) && crowd.fits(Some(crowd.bytes())) && !crowd.fits(Some(crowd.bytes() - 1)));
        assert!(crowd.bytes() > 64 * (4 << 20));
    }

    #[test]
    fn what_no_address_can_tell_is_refused() {
        assert!(AllParts::new(&[0, 1], usize::MAX).is_none() && AllParts::new(&[0, 1], usize::MAX / 2).is_none());
        assert!(AllParts::new(&[0, 1], 1 << 46).is_some());
    }

    /// Bytes in use grow with the ranks and not with their square.
    #[test]
    fn small_parts_take_a_page_each() {
        assert_eq!(parts(256, 64).bytes(), 256 * PAGE as u64);
        assert_eq!(parts(256, 64).len / PAGE, 256 * 3);
    }
}
