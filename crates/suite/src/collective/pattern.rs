//! What buffers hold: inputs whose results are exact in every type, so that the check needs no tolerance.
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

use terms::{Collective, Dtype, Reduce};

use super::number::Number;
use super::share::{Share, mix};

/// Elements after which a pattern repeats: prime, so that no power-of-two displacement maps it to itself.
pub(crate) const PERIOD: usize = 8191;

/// A repeating sequence of elements, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) bytes: Vec<u8>,
    pub(crate) element: usize,
}

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

/// The largest odd number of ranks whose equal values are added up on the way to the sum of all n.
fn widest(n: u64) -> u64 {
    if n.is_multiple_of(2) { n - 1 } else { n }
}

impl Pattern {
    /// The pattern of a case; None when no pattern is exact (an average of more ranks than the type can count).
    pub(crate) fn new(
        op: Collective,
        dtype: Dtype,
        reduce: Reduce,
        ranks: u32,
        in_place: bool,
        seed: u64,
    ) -> Option<Self> {
        let pattern = Self { op, dtype, reduce, ranks, in_place, seed, share: Share::default() };
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
        let (n, exact, float) = (u64::from(self.ranks), self.dtype.exact_integers(), self.dtype.is_float());
        if self.grows() {
            // The second call adds what the first left, as often as there are ranks: more than one call stays exact
            // where that still fits.
            let most = exact / if float { widest(n) } else { n };
            if most >= n {
                return Some(Share::of(n, most, float));
            }
            // Equal values leave nothing but the odd part of n, which powers of two do not widen.
            if float && odd(n) * widest(n) <= exact {
                return Some(Share::of(n, n, float));
            }
        }
        Some(Share::of(n, exact, float))
    }

    /// Who adds how much to an average. The sum that is divided is n times as much; a factor of two costs no digit of a
    /// float. None: more ranks than the type counts.
    fn average_share(&self) -> Option<Share> {
        let (n, exact, float) = (u64::from(self.ranks), self.dtype.exact_integers(), self.dtype.is_float());
        let most = exact / if float { odd(n) } else { n };
        if most == 0 {
            return None;
        }
        if !float || !self.in_place || self.op != Collective::AllReduce {
            return Some(Share::of(n, most, float));
        }
        // In place, the second call averages n equal averages: their multiples must be exact, too.
        if exact / widest(n) >= n {
            return Some(Share::of(n, exact / widest(n), float));
        }
        if odd(n) * widest(n) <= exact {
            return Some(Share::of(n, n, float));
        }
        let equal = 1 << n.min(most).ilog2();
        Some(if widest(n) <= exact { Share::of(equal, equal, float) } else { Share::of(n, most, float) })
    }

    /// What `rank` holds at element `index` of its input, before any call.
    fn input(&self, rank: u32, index: u64) -> Number {
        let noise = mix(index ^ mix(self.seed));
        self.held(rank, index, noise)
    }

    /// [`Pattern::input`] from the element's noise, which all ranks share.
    fn held(&self, rank: u32, index: u64, noise: u64) -> Number {
        let number = |value| Number::of(self.dtype, value);
        let turn = (u64::from(rank) + index) % u64::from(self.ranks);
        match (self.op.reduces(), self.reduce) {
            (true, Reduce::Sum) => self.scaled(self.share.value(turn, noise), noise),
            (true, Reduce::Avg) => self.scaled(u64::from(self.ranks) * self.share.value(turn, noise), noise),
            (true, Reduce::Prod) => self.factor(turn, noise),
            (true, Reduce::Min | Reduce::Max) => number(self.contender(turn, noise)),
            _ => number(mix(noise ^ u64::from(rank)) % self.values()),
        }
    }

    /// Integers from zero that inputs are drawn from, where they are not added.
    fn values(&self) -> u64 {
        self.dtype.exact_integers().min(1 << 20)
    }

    /// Of a minimum or maximum: one rank holds the result of an element alone, each rank as often as any other. Without
    /// that, equal values would hide one that is left out, of many ranks and a narrow type.
    fn contender(&self, turn: u64, noise: u64) -> u64 {
        let half = self.values() / 2;
        let value = mix(noise ^ turn) % half;
        let wins = turn == 0;
        if wins == (self.reduce == Reduce::Max) { half + value } else { value }
    }

    /// Of a product: as many twos as the type holds. The others are -1, which is not neutral either, where there is a
    /// sign; without one each of the twos may be a one, so that results differ by element.
    fn factor(&self, turn: u64, noise: u64) -> Number {
        let twos = match self.dtype {
            Dtype::U8 => 7,
            Dtype::F16 => 14,
            Dtype::I32 => 30,
            Dtype::I64 => 62,
            Dtype::F32 | Dtype::F64 | Dtype::Bf16 => 100,
        };
        let two = turn < twos && mix(noise ^ turn).is_multiple_of(2);
        match (two, self.dtype) {
            (true, dtype) => Number::of(dtype, 2),
            (false, Dtype::U8) => Number::Whole(1),
            (false, dtype) if dtype.is_float() => Number::Float(-1.0),
            (false, _) => Number::Whole(-1),
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
        match Number::of(self.dtype, value) {
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
        let exact = self.dtype.exact_integers() as f64;
        let n = f64::from(self.ranks);
        match (self.op, self.reduce) {
            (Collective::AllReduce, Reduce::Avg)
                if !self.dtype.is_float()
                    || self.share.digits() * widest(u64::from(self.ranks)) <= self.dtype.exact_integers() =>
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
            _ => (self.dtype.exact_integers() / self.share.largest()).max(1),
        }
    }

    /// The inputs of `rank`, as a table.
    pub(crate) fn inputs(&self, rank: u32) -> Table {
        self.table(|index| self.input(rank, index))
    }

    /// What a reduction leaves at each element after `calls` calls, on `own` rank.
    pub(crate) fn reduced(&self, calls: u64, own: u32) -> Table {
        self.table(|index| {
            let noise = mix(index ^ mix(self.seed));
            let inputs = (0..self.ranks).map(|rank| self.held(rank, index, noise));
            let once = self.fold(inputs);
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
        })
    }

    fn table(&self, value: impl Fn(u64) -> Number) -> Table {
        let element = self.dtype.bytes() as usize;
        let mut bytes = Vec::with_capacity(PERIOD * element);
        (0..PERIOD as u64).for_each(|index| value(index).encode(self.dtype, &mut bytes));
        Table { bytes, element }
    }

    fn fold(&self, inputs: impl Iterator<Item = Number>) -> Number {
        let n = self.ranks;
        let folded = inputs.reduce(|a, b| match (a, b) {
            (Number::Float(a), Number::Float(b)) => Number::Float(match self.reduce {
                Reduce::Sum | Reduce::Avg => a + b,
                Reduce::Prod => a * b,
                Reduce::Min => a.min(b),
                Reduce::Max => a.max(b),
            }),
            (Number::Whole(a), Number::Whole(b)) => Number::Whole(match self.reduce {
                Reduce::Sum | Reduce::Avg => a.wrapping_add(b),
                Reduce::Prod => a.wrapping_mul(b),
                Reduce::Min => a.min(b),
                Reduce::Max => a.max(b),
            }),
            (a, _) => a,
        });
        match (self.reduce, folded) {
            (Reduce::Avg, Some(Number::Float(sum))) => Number::Float(sum / f64::from(n)),
            (Reduce::Avg, Some(Number::Whole(sum))) => Number::Whole(sum / i64::from(n)),
            (_, Some(number)) => number,
            (_, None) => Number::of(self.dtype, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use terms::Named;

    /// An element's exact value: its decimal text would be the shortest that reads back in its own type.
    fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
        match dtype {
            Dtype::F32 => f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap())),
            Dtype::F64 => f64::from_ne_bytes(bytes[..8].try_into().unwrap()),
            Dtype::F16 => f16::from_ne_bytes(bytes[..2].try_into().unwrap()).to_f64(),
            Dtype::Bf16 => bf16::from_ne_bytes(bytes[..2].try_into().unwrap()).to_f64(),
            _ => unreachable!("floats only"),
        }
    }

    /// Repeats the operation on real elements of the type, rounding after every addition, and compares with the table.
    fn repeat_in_place(pattern: &Pattern, calls: u64) -> bool {
        let tables: Vec<Table> = (0..pattern.ranks).map(|rank| pattern.inputs(rank)).collect();
        let element = tables[0].element;
        let expected = pattern.reduced(calls, 0);
        (0..64).all(|i| {
            let read = |table: &Table| decode(pattern.dtype, &table.bytes[i * element..]);
            let mut values: Vec<f64> = tables.iter().map(read).collect();
            for _ in 0..calls {
                let mut sum = 0.0;
                for value in &values {
                    let mut bytes = Vec::new();
                    Number::Float(sum + value).encode(pattern.dtype, &mut bytes);
                    sum = decode(pattern.dtype, &bytes);
                }
                values.fill(sum);
            }
            values[0] == read(&expected)
        })
    }

    #[test]
    fn in_place_sums_are_exact_for_as_long_as_they_say() {
        for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
            for ranks in 2..=12 {
                let pattern = Pattern::new(Collective::AllReduce, dtype, Reduce::Sum, ranks, true, 1).unwrap();
                let calls = pattern.max_calls();
                assert!((1..2000).contains(&calls), "{dtype} {ranks}: {calls}");
                assert!(repeat_in_place(&pattern, calls), "{dtype} {ranks}: not exact after {calls} calls");
            }
        }
        let two = Pattern::new(Collective::AllReduce, Dtype::F32, Reduce::Sum, 2, true, 1).unwrap();
        assert!(two.max_calls() > 200, "{}", two.max_calls());
    }

    #[test]
    fn averages_in_place_stay_what_they_are() {
        for dtype in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16] {
            for ranks in (1..=64).chain([100, 255, 256, 257, 1000, 1024]) {
                let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, Reduce::Avg, ranks, true, 1) else {
                    assert!(ranks > 256 && dtype == Dtype::Bf16, "{dtype} {ranks}");
                    continue;
                };
                let expected = pattern.reduced(1, 0);
                let read = |i: usize| decode(dtype, &expected.bytes[i * expected.element..]);
                let rounded = |value: f64| {
                    let mut bytes = Vec::new();
                    Number::Float(value).encode(dtype, &mut bytes);
                    decode(dtype, &bytes)
                };
                let most = pattern.max_calls();
                assert!(most == 1 || most == u64::MAX);
                for i in (0..64).filter(|_| most > 1) {
                    let sum = (0..ranks).fold(0.0, |sum, _| rounded(sum + read(i)));
                    assert_eq!(sum / f64::from(ranks), read(i), "{dtype} {ranks}");
                }
                for i in 0..64 {
                    let held = |rank| match pattern.input(rank, i) {
                        Number::Float(value) => rounded(value),
                        Number::Whole(_) => unreachable!("floats only"),
                    };
                    let sum = (0..ranks).fold(0.0, |sum, rank| rounded(sum + held(rank)));
                    assert_eq!(sum / f64::from(ranks), read(i as usize), "{dtype} {ranks}");
                }
            }
        }
    }

    #[test]
    fn every_pattern_differs_by_rank_and_element() {
        for op in Collective::ALL.iter().filter(|op| **op != Collective::Barrier) {
            for dtype in Dtype::ALL {
                for reduce in Reduce::ALL {
                    for ranks in [2, 3, 6, 16] {
                        let Some(pattern) = Pattern::new(*op, *dtype, *reduce, ranks, false, 1) else { continue };
                        let (first, second) = (pattern.inputs(0).bytes, pattern.inputs(1).bytes);
                        assert_ne!(first, second, "{op} {dtype} {reduce} {ranks}");
                        let element = dtype.bytes() as usize;
                        let kinds: std::collections::HashSet<_> = first.chunks(element).collect();
                        assert!(kinds.len() >= 2, "{op} {dtype} {reduce} {ranks}");
                    }
                }
            }
        }
    }

    /// At how many of the first `elements` a rank shows when it is left out, and when it counts twice: the fewest of any
    /// rank. Twice shows in no minimum or maximum, which it does not change.
    fn shown(pattern: &Pattern, elements: u64) -> [usize; 2] {
        let (dtype, n) = (pattern.dtype, pattern.ranks);
        let encoded = |number: Number| {
            let mut bytes = Vec::new();
            number.encode(dtype, &mut bytes);
            bytes
        };
        let held: Vec<Vec<Number>> =
            (0..elements).map(|i| (0..n).map(|rank| pattern.input(rank, i)).collect()).collect();
        let right: Vec<Vec<u8>> = held.iter().map(|all| encoded(pattern.fold(all.iter().copied()))).collect();
        let of = |weight: usize| {
            let differs = |rank: u32| {
                let weight = |other: u32| if other == rank { weight } else { 1 };
                let wrong = |all: &Vec<Number>| {
                    let counted = (0..n).flat_map(|other| std::iter::repeat_n(all[other as usize], weight(other)));
                    encoded(pattern.fold(counted))
                };
                held.iter().zip(&right).filter(|(all, right)| wrong(all) != **right).count()
            };
            (0..n).map(differs).min().unwrap_or(0)
        };
        [of(0), of(2)]
    }

    #[test]
    fn every_rank_shows_when_it_is_left_out_or_counts_twice() {
        let mut looked_at = 0;
        for op in [Collective::AllReduce, Collective::ReduceScatter, Collective::Reduce] {
            for (dtype, reduce) in Dtype::ALL.iter().flat_map(|d| Reduce::ALL.iter().map(move |r| (*d, *r))) {
                for ranks in (2..=9).chain([16, 17, 33, 64]) {
                    // Small counts in both forms; large ones where sums grow, which is where room is scarce.
                    for in_place in [false, true] {
                        if ranks > 9 && (op != Collective::AllReduce || !in_place) {
                            continue;
                        }
                        let Some(pattern) = Pattern::new(op, dtype, reduce, ranks, in_place, 1) else { continue };
                        let elements = u64::from(ranks).max(12);
                        let [without, twice] = shown(&pattern, elements);
                        let what = format!("{op} {dtype} {reduce}, {ranks} ranks, in place {in_place}");
                        assert!(without > 0, "{what}: a rank may be left out unseen");
                        let idempotent = matches!(reduce, Reduce::Min | Reduce::Max);
                        assert!(twice > 0 || idempotent, "{what}: a rank may count twice unseen");
                        // Sums of up to 64 ranks have room for all of them at once.
                        let all = reduce == Reduce::Sum && dtype != Dtype::U8;
                        assert!(!all || without as u64 == elements, "{what}: {without} of {elements}");
                        looked_at += 1;
                    }
                }
            }
        }
        assert!(looked_at > 1200, "{looked_at}");
    }

    #[test]
    fn many_ranks_show_in_every_type() {
        for (dtype, reduce) in Dtype::ALL.iter().flat_map(|d| Reduce::ALL.iter().map(move |r| (*d, *r))) {
            for (ranks, in_place) in [(100, true), (255, false), (256, true), (257, false), (1024, true)] {
                let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, reduce, ranks, in_place, 1) else {
                    assert!(reduce == Reduce::Avg && ranks > 128, "{dtype} {reduce} {ranks}");
                    continue;
                };
                // Whether a rank is neutral at an element is all that matters; a few ranks stand for the others.
                let rank_shows = |rank: u32| {
                    (0..PERIOD as u64).any(|i| match (reduce, pattern.input(rank, i)) {
                        (Reduce::Sum | Reduce::Avg, value) => value != Number::of(dtype, 0),
                        (Reduce::Prod, value) => value != Number::of(dtype, 1),
                        (Reduce::Min | Reduce::Max, _) => (u64::from(rank) + i).is_multiple_of(u64::from(ranks)),
                    })
                };
                assert!([0, 1, ranks / 2, ranks - 1].into_iter().all(rank_shows), "{dtype} {reduce} {ranks}");
            }
        }
    }

    #[test]
    fn results_differ_by_element() {
        for (dtype, reduce) in Dtype::ALL.iter().flat_map(|d| Reduce::ALL.iter().map(move |r| (*d, *r))) {
            for ranks in [2, 3, 5, 16, 64, 255] {
                for in_place in [false, true] {
                    let Some(pattern) = Pattern::new(Collective::AllReduce, dtype, reduce, ranks, in_place, 1) else {
                        continue;
                    };
                    let table = pattern.reduced(1, 0);
                    let elements: Vec<&[u8]> = table.bytes.chunks(table.element).collect();
                    // What a displacement by a power of two leaves wrong.
                    for displaced in [1, 64, 1024] {
                        let wrong = (0..PERIOD).filter(|i| elements[*i] != elements[(i + displaced) % PERIOD]).count();
                        assert!(
                            wrong > PERIOD / 8,
                            "{dtype} {reduce}, {ranks} ranks, in place {in_place}: {wrong} of {PERIOD} differ by {displaced}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn averages_beyond_the_type_are_refused() {
        assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 256, false, 1).is_none());
        assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 200, false, 1).is_some());
    }
}
