//! A bounded record of spans: the newest are kept, and how many were lost is known.

use std::collections::VecDeque;

use terms::Collective;

/// One operation on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which operation.
    pub operation: Collective,
    /// Counted from 0 in each case.
    pub number: u64,
    /// S of the operation.
    pub bytes: u64,
    /// Entered, in nanoseconds of the rank's clock.
    pub begin_ns: u64,
    /// Left, in nanoseconds of the rank's clock.
    pub end_ns: u64,
}

/// The newest `capacity` spans. Allocated once, so that recording allocates nothing.
#[derive(Debug)]
pub struct Ring {
    spans: VecDeque<Span>,
    capacity: usize,
    lost: u64,
}

impl Ring {
    /// Room for `capacity` spans, at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { spans: VecDeque::with_capacity(capacity), capacity, lost: 0 }
    }

    /// Adds a span; the oldest makes room.
    pub fn push(&mut self, span: Span) {
        if self.spans.len() == self.capacity {
            self.spans.pop_front();
            self.lost += 1;
        }
        self.spans.push_back(span);
    }

    /// Oldest first.
    pub fn spans(&self) -> impl ExactSizeIterator<Item = &Span> {
        self.spans.iter()
    }

    /// Spans that made room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(number: u64) -> Span {
        Span { operation: Collective::Barrier, number, bytes: 0, begin_ns: number, end_ns: number + 1 }
    }

    #[test]
    fn the_newest_are_kept_and_the_lost_are_counted() {
        let mut ring = Ring::new(3);
        for number in 0..5 {
            ring.push(span(number));
        }
        assert_eq!(ring.spans().map(|span| span.number).collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!((ring.spans().len(), ring.lost()), (3, 2));
    }

    #[test]
    fn a_ring_without_room_still_holds_one() {
        let mut ring = Ring::new(0);
        ring.push(span(0));
        ring.push(span(1));
        assert_eq!(ring.spans().map(|span| span.number).collect::<Vec<_>>(), [1]);
        assert_eq!(ring.lost(), 1);
    }

    #[test]
    fn recording_allocates_nothing() {
        let mut ring = Ring::new(64);
        let room = ring.spans.capacity();
        (0..1000).for_each(|number| ring.push(span(number)));
        assert_eq!(ring.spans.capacity(), room);
    }
}
