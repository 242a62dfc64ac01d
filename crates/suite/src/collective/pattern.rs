//! What buffers hold: inputs whose results are exact in every type, so that the check needs no tolerance.
//!
//! Inputs differ by rank and by element, with a prime period, so that a permutation, a missing block or a block at the
//! wrong power-of-two offset shows. Reductions of small integers are exact: sums stay below the type's largest exact
//! integer (24 bits in f32), whatever the order of the additions. In place, a sum grows with every call; [`Pattern`]
//! says how many calls stay exact, and starts floats at a small power of two so that their exponent has room:
//! doubling is exact, so 2 ranks may sum f32 in place some 220 times.

use terms::{Collective, Dtype, Reduce};

use super::number::Number;

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
    /// Sums: at most this many ranks give a value other than zero to an element...
    width: u64,
    /// ... of at most this much each.
    spread: u64,
}

/// A well-mixed 64-bit value of its argument (the finaliser of splitmix64, Steele, Lea and Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
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
        let pattern = Self { op, dtype, reduce, ranks, in_place, seed, width: 0, spread: 0 };
        if !op.reduces() {
            return Some(pattern);
        }
        let n = u64::from(ranks);
        // The widest choice that stays exact: many ranks contributing, many different values.
        let choices = [(4, 64), (4, 16), (4, 4), (3, 4), (2, 4), (2, 2), (1, 2), (1, 1)];
        let exact = dtype.exact_integers();
        let choices =
            || choices.iter().map(|(width, spread)| Self { width: n.min(*width), spread: *spread, ..pattern });
        let mut roomy = choices().filter(|choice| choice.width * choice.spread * n <= exact);
        if let Some(roomy) = roomy.next().filter(|_| pattern.grows()) {
            return Some(roomy);
        }
        choices().find(|choice| {
            let largest = choice.width * choice.spread;
            match reduce {
                Reduce::Sum => largest <= exact,
                // The sum that is divided is n times `largest`; a factor of two costs no digit of a float.
                Reduce::Avg if dtype.is_float() => largest.saturating_mul(n >> n.trailing_zeros()) <= exact,
                Reduce::Avg => largest.saturating_mul(n) <= exact,
                Reduce::Prod | Reduce::Min | Reduce::Max => true,
            }
        })
    }

    /// What `rank` holds at element `index` of its input, before any call.
    fn input(&self, rank: u32, index: u64) -> Number {
        let number = |value| Number::of(self.dtype, value);
        let noise = mix(index ^ mix(self.seed));
        let turn = (u64::from(rank) + index) % u64::from(self.ranks);
        match (self.op.reduces(), self.reduce) {
            (true, Reduce::Sum) if turn < self.width => self.scaled(1 + (noise + turn) % self.spread),
            (true, Reduce::Avg) if turn < self.width => {
                number(u64::from(self.ranks) * (1 + (noise + turn) % self.spread))
            }
            (true, Reduce::Sum | Reduce::Avg) => number(0),
            // Products stay within 2^3, which every type holds.
            (true, Reduce::Prod) => number(if turn < 3 { 1 + (noise >> turn) % 2 } else { 1 }),
            _ => number(mix(noise ^ u64::from(rank)) % self.dtype.exact_integers().min(1 << 20)),
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

    /// Sums that grow with every call start small.
    fn scaled(&self, value: u64) -> Number {
        match Number::of(self.dtype, value) {
            Number::Float(value) if self.grows() => Number::Float(value * 2f64.powi(-self.room())),
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
        let largest = (self.width * self.spread) as f64;
        let exact = self.dtype.exact_integers() as f64;
        let n = f64::from(self.ranks);
        match (self.op, self.reduce) {
            (Collective::AllReduce, Reduce::Avg) => u64::MAX,
            (_, Reduce::Prod | Reduce::Avg) => 1,
            _ if self.ranks == 1 => u64::MAX,
            (Collective::AllReduce, _) => {
                // Call k adds up j S n^(k-2) for j = 1..n, ending at S n^(k-1). The odd parts of all of these must stay
                // exact integers (of n = 12, it is j = 11 that is widest), and the exponents in range.
                let odd = f64::from(self.ranks >> self.ranks.trailing_zeros());
                let widest = f64::from(if self.ranks.is_multiple_of(2) { self.ranks - 1 } else { self.ranks });
                let room = exact / (largest * widest);
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
            _ => ((exact / largest).floor() as u64).max(1),
        }
    }

    /// The inputs of `rank`, as a table.
    pub(crate) fn inputs(&self, rank: u32) -> Table {
        self.table(|index| self.input(rank, index))
    }

    /// What a reduction leaves at each element after `calls` calls, on `own` rank.
    pub(crate) fn reduced(&self, calls: u64, own: u32) -> Table {
        self.table(|index| {
            let inputs = (0..self.ranks).map(|rank| self.input(rank, index));
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

    #[test]
    fn averages_beyond_the_type_are_refused() {
        assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 256, false, 1).is_none());
        assert!(Pattern::new(Collective::AllReduce, Dtype::U8, Reduce::Avg, 200, false, 1).is_some());
    }
}
