//! Who gives how much to an element of a sum.
//!
//! As many ranks as stay exact give at least 1 to every element; what the type has room for beyond that makes values
//! differ by rank and element. Where there is next to no room, elements differ by a power of two (floats) or by how many
//! ranks give anything (integers): were all sums alike, one in the wrong place would be right.

use terms::splitmix64;

/// Values of one rank, at most: powers of two.
const SPREADS: [u64; 4] = [64, 16, 4, 2];
/// Sums that may differ by less than this on their own are made to differ.
const ALIKE: u64 = 4;
/// Powers of two that sums which are alike are divided by. The smallest f16 that is summed in place is still normal.
const HALVINGS: u64 = 3;

/// See the module's documentation. A rank's turn at an element is its distance from the rank with turn 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Ranks of turns below this give something.
    width: u64,
    /// Ranks of turns below this give up to `spread - 1` more than 1.
    bonus: u64,
    spread: u64,
    float: bool,
}

impl Share {
    /// The widest share of `ranks` with a sum of at most `most`, which is at least 1.
    pub(crate) fn new(ranks: u64, most: u64, float: bool) -> Self {
        let width = ranks.min(most);
        let room = most - width;
        let roomy = SPREADS.into_iter().find(|spread| width * (spread - 1) <= room);
        let (bonus, spread) = roomy.map_or((room, 2), |spread| (width, spread));
        Self { width, bonus, spread, float }
    }

    /// What the rank of this turn gives to an element with this noise, before halvings.
    pub(crate) fn value(&self, turn: u64, noise: u64) -> u64 {
        if turn >= self.givers(noise) {
            return 0;
        }
        1 + if turn < self.bonus { self.extra(turn, noise) } else { 0 }
    }

    /// What all turns give to an element with this noise, before halvings.
    pub(crate) fn sum(&self, noise: u64) -> u64 {
        let givers = self.givers(noise);
        givers + (0..givers.min(self.bonus)).map(|turn| self.extra(turn, noise)).sum::<u64>()
    }

    /// Turns that give something to an element with this noise: half as many at half of the elements where all would be
    /// alike otherwise.
    fn givers(&self, noise: u64) -> u64 {
        let thin = self.alike() && !self.float && noise >> 63 == 1;
        if thin { self.width / 2 } else { self.width }
    }

    /// What a turn gives beyond 1.
    fn extra(&self, turn: u64, noise: u64) -> u64 {
        // Spreads are powers of two: a mask in place of a division, which would take most of the time.
        splitmix64(noise ^ turn) & (self.spread - 1)
    }

    /// How often an element with this noise is halved, in floats.
    pub(crate) fn halvings(&self, noise: u64) -> i32 {
        if self.alike() { ((noise >> 32) % HALVINGS) as i32 } else { 0 }
    }

    /// The largest sum.
    pub(crate) fn largest(&self) -> u64 {
        self.width + self.bonus * self.spread.saturating_sub(1)
    }

    /// The largest odd part of a sum: what it takes of a float's digits.
    pub(crate) fn digits(&self) -> u64 {
        if self.bonus == 0 && self.float { self.width >> self.width.trailing_zeros() } else { self.largest() }
    }

    fn alike(&self) -> bool {
        self.bonus * self.spread.saturating_sub(1) < ALIKE
    }
}
