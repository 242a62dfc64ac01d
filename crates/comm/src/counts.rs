//! How many elements go from each rank to each rank, where they are not the same for all.

/// Elements that go from each rank to each rank: `counts[from * ranks + to]`. Blocks are packed in rank order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    ranks: u32,
    counts: Vec<u64>,
    /// Computed once: it is asked for on every call.
    widest: u64,
}

impl Counts {
    /// A matrix of `ranks` x `ranks`; None if the number of entries is another or a row's sum overflows.
    pub fn new(ranks: u32, counts: Vec<u64>) -> Option<Self> {
        let n = ranks as usize;
        let sums_fit = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count)).is_some();
        if counts.len() != n.checked_mul(n)? || !sums_fit {
            return None;
        }
        let mut matrix = Self { ranks, counts, widest: 0 };
        matrix.widest = (0..ranks).map(|rank| matrix.sent(rank).max(matrix.received(rank))).max().unwrap_or(0);
        Some(matrix)
    }

    /// Ranks on each side.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Elements from a rank to a rank.
    pub fn get(&self, from: u32, to: u32) -> u64 {
        self.counts[(from * self.ranks + to) as usize]
    }

    /// Elements that a rank sends in all, itself included.
    pub fn sent(&self, from: u32) -> u64 {
        (0..self.ranks).map(|to| self.get(from, to)).sum()
    }

    /// Elements that a rank receives in all, itself included.
    pub fn received(&self, to: u32) -> u64 {
        (0..self.ranks).map(|from| self.get(from, to)).sum()
    }

    /// Where, in the sender's input, the block for `to` begins (elements).
    pub fn send_offset(&self, from: u32, to: u32) -> u64 {
        (0..to).map(|other| self.get(from, other)).sum()
    }

    /// Where, in the receiver's output, the block of `from` begins (elements).
    pub fn receive_offset(&self, from: u32, to: u32) -> u64 {
        (0..from).map(|other| self.get(other, to)).sum()
    }

    /// The largest number of elements that any rank sends or receives: S of an all_to_allv, in elements.
    pub fn widest(&self) -> u64 {
        self.widest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_packed_in_rank_order() {
        let counts = Counts::new(2, vec![1, 2, 3, 4]).unwrap();
        assert_eq!((counts.sent(0), counts.received(0), counts.widest()), (3, 4, 7));
        assert_eq!((counts.send_offset(1, 1), counts.receive_offset(1, 1)), (3, 2));
        assert_eq!(Counts::new(2, vec![1; 3]), None);
        assert_eq!(Counts::new(2, vec![u64::MAX; 4]), None);
    }
}
