//! A permutation of a rank's tokens that is computed in both directions, and stored in none: a Feistel network over a power
//! of four, walked until it is inside of the range (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).

/// Rounds: four make a permutation that looks random (Luby and Rackoff, 1988).
const ROUNDS: usize = 4;

/// A permutation of `0..len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shuffle {
    len: u64,
    /// Bits of each half.
    half: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// The permutation of a seed and a rank.
    pub(super) fn new(seed: u64, rank: usize, len: usize) -> Self {
        let mut state = terms::mix(seed) ^ rank as u64;
        let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len: len as u64,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| terms::next_splitmix64(&mut state)),
        }
    }

    /// Where an index goes.
    pub(super) fn place(&self, index: usize) -> usize {
        self.walk(index, |left, right, key| (right, left ^ self.round(right, key)), false)
    }

    /// Which index comes to a place.
    pub(super) fn index(&self, place: usize) -> usize {
        self.walk(place, |left, right, key| (right ^ self.round(left, key), left), true)
    }

    fn round(&self, half: u64, key: u64) -> u64 {
        terms::mix(half ^ key) & ((1 << self.half) - 1)
    }

    /// Steps of the network until the value is inside of the range again. It was inside before, so that it comes back.
    fn walk(&self, from: usize, round: impl Fn(u64, u64, u64) -> (u64, u64), back: bool) -> usize {
        let mut value = from as u64;
        loop {
            let (mut left, mut right) = (value >> self.half, value & ((1 << self.half) - 1));
            for number in 0..ROUNDS {
                let key = self.keys[if back { ROUNDS - 1 - number } else { number }];
                (left, right) = round(left, right, key);
            }
            value = left << self.half | right;
            if value < self.len {
                return value as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once_and_found_back() {
        for len in [1, 2, 3, 5, 64, 97, 1000, 4096] {
            let shuffle = Shuffle::new(7, 3, len);
            let mut taken = vec![false; len];
            for index in 0..len {
                let place = shuffle.place(index);
                assert!(!std::mem::replace(&mut taken[place], true), "{len}: {place} is taken twice");
                assert_eq!(shuffle.index(place), index, "{len}");
            }
        }
    }

    #[test]
    fn seeds_and_ranks_have_orders_of_their_own() {
        let order = |seed, rank| (0..64).map(|index| Shuffle::new(seed, rank, 64).place(index)).collect::<Vec<_>>();
        let plain: Vec<usize> = (0..64).collect();
        let orders = [plain, order(1, 0), order(1, 1), order(2, 0), order(2, 1)];
        for (number, one) in orders.iter().enumerate() {
            assert!(orders[..number].iter().all(|other| other != one), "{number}");
        }
        assert_eq!(order(1, 1), order(1, 1));
    }
}
