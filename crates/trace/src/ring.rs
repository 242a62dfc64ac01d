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
