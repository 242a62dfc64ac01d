//! What buffers hold: inputs with results that are exact in every type, so that the check needs no tolerance.
//!
//! Inputs differ by rank and by element, with a prime period, so that a permutation, a missing block or a block at the
//! wrong power-of-two offset shows. Every rank takes part in every reduction with a value that is not neutral, at every
//! element where the type has room and in rotation where it has not ([`Share`]), so that a rank that is left out, or
//! added twice, shows.
//!
//! Reductions of small integers are exact: sums stay below the type's largest exact integer (24 bits in f32), whatever
//! the order of the additions. In place, a sum grows with every call; [`Pattern`] says how many calls stay exact, and
//! starts floats at a small power of two so that their exponent has room: doubling is exact, so 2 ranks may sum f32 in
//! place some 220 times.

use std::sync::Arc;

use terms::{Collective, Dtype, DtypeKind, Reduce, splitmix64};

use super::number::Number;
use super::share::Share;
use super::table::{Numbers, PeriodTable};

/// Elements after which a pattern repeats: prime, so that no power-of-two displacement maps it to itself.
pub(crate) const PERIOD: usize = 8191;

/// How one case fills its buffers and what comes out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    op: Collective,
    dtype: Dtype,
    reduce: Reduce,
    ranks: u32,
    in_place: bool,
    seed: u64,
    /// Sums and averages: who gives how much to an element.
    share: Share,
}

/// What is left of n without its factors of two: the digits that a factor of n costs a float.
fn odd(n: u64) -> u64 {
    n >> n.trailing_zeros()
}

/// The largest odd number of ranks with equal values that are added up on the way to the sum of all n.
fn widest(n: u64) -> u64 {
    if n.is_multiple_of(2) { n - 1 } else { n }
}

impl Pattern {
    /// The pattern of a case; None when no pattern is exact (an average of more ranks than the type can count, a reduction
    /// of a type that only moves).
    pub(crate) fn new(
        op: Collective,
        dtype: Dtype,
        reduce: Reduce,
        ranks: u32,
        in_place: bool,
        seed: u64,
    ) -> Option<Self> {
        let pattern = Self { op, dtype, reduce, ranks, in_place, seed, share: Share::default() };
        if op.reduces() && !dtype.reduces() {
            return None;
        }
        if !op.reduces() || !matches!(reduce, Reduce::Sum | Reduce::Avg) {
            return Some(pattern);
        }
        let share = match reduce {
            Reduce::Sum => pattern.sum_share(),
            _ => pattern.average_share(),
        };
        share.map(|share| Self { share, ..pattern })
    }

    /// Who adds how much to a sum: all ranks where the type holds as many ones.
    fn sum_share(&self) -> Option<Share> {
        let (n, exact, float) = (u64::from(self.ranks), self.exact(), self.dtype.is_float());
        if self.grows() {
            // The second call adds what the first left, as often as there are ranks: more than one call stays exact
            // where that still fits.
            let most = exact / if float { widest(n) } else { n };
            if most >= n {
                return Some(Share::new(n, most, float));
            }
            // Equal values leave nothing but the odd part of n, which powers of two do not widen.
            if float && odd(n) * widest(n) <= exact {
                return Some(Share::new(n, n, float));
            }
        }
        Some(Share::new(n, exact, float))
    }

    /// Who adds how much to an average. The sum that is divided is n times as much; a factor of two costs no digit of a
    /// float. None: more ranks than the type counts.
    fn average_share(&self) -> Option<Share> {
        let (n, exact, float) = (u64::from(self.ranks), self.exact(), self.dtype.is_float());
        let most = exact / if float { odd(n) } else { n };
        if most == 0 {
            return None;
        }
        if !float || !self.in_place || self.op != Collective::AllReduce {
            return Some(Share::new(n, most, float));
        }
        // In place, the second call averages n equal averages: their multiples must be exact, too.
        if exact / widest(n) >= n {
            return Some(Share::new(n, exact / widest(n), float));
        }
        if odd(n) * widest(n) <= exact {
            return Some(Share::new(n, n, float));
        }
        let equal = 1 << n.min(most).ilog2();
        Some(if widest(n) <= exact { Share::new(equal, equal, float) } else { Share::new(n, most, float) })
    }

    /// What `rank` holds at element `index` of its input, before any call.
    pub(crate) fn input(&self, rank: u32, index: u64) -> Number {
        // All ranks share an element's noise.
        let noise = splitmix64(index ^ splitmix64(self.seed));
        let number = |value| Number::new(self.dtype, value);
        let turn = (u64::from(rank) + index) % u64::from(self.ranks);
        match (self.op.reduces(), self.reduce) {
            (true, Reduce::Sum) => self.scaled(self.share.value(turn, noise), noise),
            (true, Reduce::Avg) => self.scaled(u64::from(self.ranks) * self.share.value(turn, noise), noise),
            (true, Reduce::Prod) => self.factor(turn, noise),
            (true, Reduce::Min | Reduce::Max) => number(self.contender(turn, noise)),
            _ => number(splitmix64(noise ^ u64::from(rank)) % self.values()),
        }
    }

    /// What one call of a reduction leaves at element `index`: the inputs of all ranks, put together without making each of
    /// them. Every turn is some rank's, so only the turns that matter are looked at; a test compares with all inputs.
    pub(crate) fn result(&self, index: u64) -> Number {
        let (noise, n) = (splitmix64(index ^ splitmix64(self.seed)), u64::from(self.ranks));
        match self.reduce {
            Reduce::Sum => self.scaled(self.share.sum(noise), noise),
            Reduce::Avg => match self.scaled(n * self.share.sum(noise), noise) {
                Number::Float(sum) => Number::Float(sum / f64::from(self.ranks)),
                Number::Whole(sum) => Number::Whole(sum / i64::from(self.ranks)),
            },
            Reduce::Prod => self.product(noise),
            // The rank of turn 0 wins.
            Reduce::Min | Reduce::Max => Number::new(self.dtype, self.contender(0, noise)),
        }
    }

    /// The largest sum: what is exact in the type and fits into a [`Number`].
    fn exact(&self) -> u64 {
        self.dtype.exact_integers().min(i64::MAX as u64)
    }

    /// Integers from zero that inputs are drawn from, where they are not added. Of what only moves, all bytes but one.
    fn values(&self) -> u64 {
        if self.dtype.reduces() { self.dtype.exact_integers().min(1 << 20) } else { u8::MAX.into() }
    }

    /// An element for a minimum or maximum: one rank holds the result of an element alone, each rank as often as any other.
    /// Without that, equal values would hide one that is left out, of many ranks and a narrow type.
    ///
    /// Without a sign the larger half has the highest bit, which is negative to who takes the type for one with a sign.
    fn contender(&self, turn: u64, noise: u64) -> u64 {
        let half = self.values() / 2;
        let value = splitmix64(noise ^ turn) % half;
        let larger = if self.is_unsigned() { 1 << (8 * self.dtype.bytes() - 1) } else { half };
        let wins = turn == 0;
        if wins == (self.reduce == Reduce::Max) { larger + value } else { value }
    }

    /// An element for a product: as many twos as the type holds. The others are -1, which is not neutral either, where there is a
    /// sign; without one each of the twos may be a one, so that results differ by element.
    fn factor(&self, turn: u64, noise: u64) -> Number {
        match (self.is_two(turn, noise), self.dtype.kind()) {
            (true, _) => Number::new(self.dtype, 2),
            (false, DtypeKind::Float) => Number::Float(-1.0),
            (false, DtypeKind::Signed) => Number::Whole(-1),
            (false, DtypeKind::Unsigned | DtypeKind::MovesOnly) => Number::Whole(1),
        }
    }

    fn is_unsigned(&self) -> bool {
        self.dtype.kind() == DtypeKind::Unsigned
    }

    /// Turns that may hold a two in a product.
    fn twos(&self) -> u64 {
        let bits = 8 * self.dtype.bytes();
        match (self.dtype, self.dtype.kind()) {
            (Dtype::F16, _) => 14,
            (_, DtypeKind::Float) => 100,
            (_, DtypeKind::Signed) => bits - 2,
            (_, DtypeKind::Unsigned | DtypeKind::MovesOnly) => bits - 1,
        }
    }

    fn is_two(&self, turn: u64, noise: u64) -> bool {
        turn < self.twos() && splitmix64(noise ^ turn).is_multiple_of(2)
    }

    /// All factors of an element, multiplied.
    fn product(&self, noise: u64) -> Number {
        let n = u64::from(self.ranks);
        let twos = (0..n.min(self.twos())).filter(|turn| self.is_two(*turn, noise)).count() as u32;
        let negative = !self.is_unsigned() && (n - u64::from(twos)) % 2 == 1;
        match (self.dtype.is_float(), negative) {
            (true, true) => Number::Float(-(2f64.powi(twos as i32))),
            (true, false) => Number::Float(2f64.powi(twos as i32)),
            (false, true) => Number::Whole(-(1 << twos)),
            (false, false) => Number::Whole(1 << twos),
        }
    }

    /// Exponent (base 2) that sums in place start below zero by, so that they have room to grow.
    fn room(&self) -> i32 {
        match self.dtype {
            Dtype::F32 | Dtype::Bf16 => 100,
            Dtype::F64 => 900,
            Dtype::F16 => 12,
            _ => 0,
        }
    }

    /// Sums that grow with every call start small, and those that would be alike differ by a power of two.
    fn scaled(&self, value: u64, noise: u64) -> Number {
        match Number::new(self.dtype, value) {
            Number::Float(value) => {
                let room = match (self.grows(), self.dtype, self.reduce) {
                    (true, ..) => self.room(),
                    // n times a sum would leave the range of f16 otherwise.
                    (false, Dtype::F16, Reduce::Avg) => 6,
                    _ => 0,
                };
                Number::Float(value * 2f64.powi(-room - self.share.halvings(noise)))
            }
            number => number,
        }
    }

    /// Whether every call multiplies what is in the buffer.
    fn grows(&self) -> bool {
        self.in_place && self.op == Collective::AllReduce && self.reduce == Reduce::Sum
    }

    /// How many calls in a row give exact results from fresh inputs; `u64::MAX` when every further call gives the same.
    pub(crate) fn max_calls(&self) -> u64 {
        if !self.in_place || !self.op.reduces() || matches!(self.reduce, Reduce::Min | Reduce::Max) {
            return u64::MAX;
        }
        let largest = self.share.largest() as f64;
        let exact = self.exact() as f64;
        let n = f64::from(self.ranks);
        match (self.op, self.reduce) {
            (Collective::AllReduce, Reduce::Avg)
                if !self.dtype.is_float() || self.share.digits() * widest(u64::from(self.ranks)) <= self.exact() =>
            {
                u64::MAX
            }
            (_, Reduce::Prod | Reduce::Avg) => 1,
            _ if self.ranks == 1 => u64::MAX,
            (Collective::AllReduce, _) => {
                // Call k adds up j S n^(k-2) for j = 1..n, ending at S n^(k-1). The odd parts of all of these must stay
                // exact integers (of n = 12, it is j = 11 that is widest), and the exponents in range.
                let (odd, widest) = (odd(u64::from(self.ranks)) as f64, widest(u64::from(self.ranks)) as f64);
                let room = exact / (self.share.digits() as f64 * widest);
                let by_digits = |base: f64| match base {
                    _ if room < 1.0 => 0.0,
                    base if base > 1.0 => 1.0 + room.log(base).floor(),
                    _ => f64::MAX,
                };
                let growth = if self.dtype.is_float() {
                    let exponents = match self.dtype {
                        Dtype::F64 => 1000.0,
                        Dtype::F16 => 14.0,
                        _ => 120.0,
                    };
                    by_digits(odd).min(((exponents + f64::from(self.room()) - largest.log2()) / n.log2()).floor())
                } else {
                    by_digits(n)
                };
                1 + growth.max(0.0) as u64
            }
            // reduce, reduce_scatter: call k gives S + (k-1)(S - own).
            _ => (self.exact() / self.share.largest()).max(1),
        }
    }

    /// The inputs of `rank`, as a table.
    pub(crate) fn inputs(&self, rank: u32) -> PeriodTable {
        let pattern = *self;
        PeriodTable::new(self.dtype, move |index| pattern.input(rank, index))
    }

    /// What one call of a reduction leaves at each element. An element takes a step for each rank, so a caller that asks for
    /// several numbers of calls keeps it.
    pub(crate) fn once(&self) -> Arc<Numbers> {
        let pattern = *self;
        Arc::new(Numbers::new(move |index| pattern.result(index)))
    }

    /// What a reduction leaves at each element after `calls` calls, on `own` rank, where one call leaves `once`.
    pub(crate) fn reduced(&self, once: &Arc<Numbers>, calls: u64, own: u32) -> PeriodTable {
        let (pattern, once) = (*self, once.clone());
        PeriodTable::new(self.dtype, move |index| pattern.after(once.at(index), index, calls, own))
    }

    /// What `calls` calls of a reduction leave at element `index` on `own` rank, where one call leaves `once`.
    fn after(&self, once: Number, index: u64, calls: u64, own: u32) -> Number {
        if !self.in_place || self.reduce != Reduce::Sum || calls <= 1 {
            return once;
        }
        match (self.op, once, self.input(own, index)) {
            (Collective::AllReduce, Number::Float(sum), _) => {
                // In two steps: the factor alone may leave the range in which its product with a small sum lies.
                let (half, n) = ((calls as i32 - 1) / 2, f64::from(self.ranks));
                Number::Float(sum * n.powi(half) * n.powi(calls as i32 - 1 - half))
            }
            (Collective::AllReduce, Number::Whole(sum), _) => {
                Number::Whole(sum.wrapping_mul(i64::from(self.ranks).wrapping_pow((calls - 1) as u32)))
            }
            (_, Number::Float(sum), Number::Float(own)) => Number::Float(sum + (calls - 1) as f64 * (sum - own)),
            (_, Number::Whole(sum), Number::Whole(own)) => {
                Number::Whole(sum.wrapping_add((calls as i64 - 1).wrapping_mul(sum - own)))
            }
            (_, once, _) => once,
        }
    }
}

#[cfg(test)]
mod tests;
