//! Random floats: inputs whose sums depend on the order of the additions, and a bound for every result.
//!
//! With the unit roundoff u, the computed sum of two floats is (a + b)(1 + d) with |d| <= u. A sum of n floats takes n - 1
//! additions, in whatever order, and each input passes through at most n - 1 of them. So the computed sum is the sum of
//! x_i (1 + t_i) with |t_i| <= g(n - 1), where g(k) = (1 + u)^k - 1, and it is off by at most g(n - 1) times the sum of all
//! |x_i| (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2). Gradual underflow does not change this: a
//! sum that is not normal is exact. The same holds for:
//!
//! * an average, with two roundings more: it divides the sum, or multiplies each input by a rounded 1/n. Both may fall below
//!   the smallest number, for which n of these are added;
//! * a product, whose n - 1 roundings are relative to the product itself; factors are so near 1 that none underflows;
//! * a minimum and a maximum, which are exact;
//! * k sums in place, where each call adds up what the one before left: n^(k-1) times the sum, off by at most n^(k-1) g(k (n - 1))
//!   times the sum of all |x_i|. By induction: what a call adds is within the bound of k - 1 calls, and (1 + g(j)) (1 + g(k)) is
//!   1 + g(j + k).
//!
//! The expected value is computed in f64, with errors that the same bounds hold for; they are added. A bound of half of the sum of
//! all |x_i| would hide that a rank is left out, so [`Random::new`] refuses it: bf16 over more than about 100 ranks.

use device::Slice;
use half::{bf16, f16};
use measure::{Failure, WrongReport};
use record::WrongElement;
use terms::{Collective, Dtype, Reduce, splitmix64};

use super::number::{Number, show};
use super::pattern::PERIOD;
use super::segments::{TOLD, read};
use super::table::PeriodTable;

/// The unit roundoff of f64, in which results are computed for comparison.
const OURS: f64 = f64::EPSILON / 2.0;
/// Bounds reach less than this share of the sum of all magnitudes.
const WIDEST: f64 = 0.5;

/// How one case fills its buffers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    op: Collective,
    reduce: Reduce,
    dtype: Dtype,
    ranks: u32,
    in_place: bool,
    seed: u64,
}

/// Half the distance from 1 to the next float.
fn roundoff(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::EPSILON) / 2.0,
        Dtype::F16 => f16::EPSILON.to_f64() / 2.0,
        Dtype::Bf16 => bf16::EPSILON.to_f64() / 2.0,
        _ => OURS,
    }
}

/// The smallest float above zero.
fn smallest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::from_bits(1)),
        Dtype::F16 => f16::from_bits(1).to_f64(),
        Dtype::Bf16 => bf16::from_bits(1).to_f64(),
        _ => f64::from_bits(1),
    }
}

/// (1 + u)^roundings - 1.
fn growth(u: f64, roundings: f64) -> f64 {
    (roundings * u.ln_1p()).exp_m1()
}

/// The value as the type holds it: as [`Number::encode`] writes it.
fn rounded(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(value as f32),
        Dtype::F16 => f16::from_f32(value as f32).to_f64(),
        Dtype::Bf16 => bf16::from_f32(value as f32).to_f64(),
        _ => value,
    }
}

impl Random {
    /// None where the type is not one of floats, or no bound of its results says anything.
    pub(crate) fn new(
        (op, reduce): (Collective, Reduce),
        dtype: Dtype,
        ranks: u32,
        in_place: bool,
        seed: u64,
    ) -> Option<Self> {
        let random = Self { op, reduce, dtype, ranks, in_place, seed };
        let rounds = random.computes();
        let bounded = !rounds || growth(roundoff(dtype), f64::from(ranks) + 1.0) < WIDEST;
        (dtype.is_float() && bounded).then_some(random)
    }

    /// Whether results are rounded, and depend on the order of operations.
    pub(crate) fn computes(&self) -> bool {
        self.op.reduces() && matches!(self.reduce, Reduce::Sum | Reduce::Avg | Reduce::Prod)
    }

    /// What `rank` holds at element `index` of its input, before it is rounded to the type.
    pub(super) fn value(&self, rank: u32, index: u64) -> f64 {
        let bits = splitmix64(splitmix64(index ^ splitmix64(self.seed)) ^ splitmix64(u64::from(rank) + 1));
        // Uniform in (-1, 1), and with all digits of an f64 however small: numbers on a grid would have exact sums.
        let more = splitmix64(bits);
        let digits = 1.0 + (bits >> 12) as f64 / (1u64 << 52) as f64;
        let halvings = 1 + (more >> 1).trailing_zeros().min(20) as i32;
        let uniform = digits * 0.5f64.powi(halvings) * if more & 1 == 0 { 1.0 } else { -1.0 };
        if !self.op.reduces() || self.reduce != Reduce::Prod {
            return uniform;
        }
        // Factors whose product stays well inside of every type: at most 1.9^10, or e^9.
        let spread = if self.ranks <= 10 { 0.9 } else { 9.0 / f64::from(self.ranks) };
        let factor = 1.0 + spread * uniform.abs();
        match (uniform < 0.0, bits & 1 == 0) {
            (false, false) => factor,
            (false, true) => 1.0 / factor,
            (true, false) => -factor,
            (true, true) => -1.0 / factor,
        }
    }

    /// The inputs of `rank`, as a table.
    pub(crate) fn inputs(&self, rank: u32) -> PeriodTable {
        let random = *self;
        PeriodTable::new(self.dtype, move |index| Number::Float(random.value(rank, index)))
    }

    /// Whether each call adds up what the one before left on all ranks.
    fn grows(&self) -> bool {
        self.in_place && self.op == Collective::AllReduce && self.reduce == Reduce::Sum
    }

    /// How many calls in a row stay bounded, and in the type's range.
    pub(crate) fn max_calls(&self) -> u64 {
        if !self.in_place || !self.computes() || (self.ranks == 1 && self.grows()) {
            return u64::MAX;
        }
        if !self.grows() {
            return 1;
        }
        let exponents = match self.dtype {
            Dtype::F16 => 15.0,
            Dtype::F64 => 1000.0,
            _ => 126.0,
        };
        let n = f64::from(self.ranks);
        let in_range = exponents / n.log2();
        let bounded = WIDEST.ln_1p() / ((n - 1.0) * roundoff(self.dtype).ln_1p());
        (in_range.min(bounded) as u64).max(1)
    }

    /// What `calls` calls leave at element `index`, and how far a result may be off.
    pub(crate) fn expected(&self, index: u64, calls: u64) -> (f64, f64) {
        let inputs = (0..self.ranks).map(|rank| rounded(self.dtype, self.value(rank, index)));
        let n = f64::from(self.ranks);
        let off = |roundings: f64| growth(roundoff(self.dtype), roundings) + growth(OURS, roundings + 2.0);
        match self.reduce {
            Reduce::Min => (inputs.fold(f64::INFINITY, f64::min), 0.0),
            Reduce::Max => (inputs.fold(f64::NEG_INFINITY, f64::max), 0.0),
            Reduce::Prod => {
                let product: f64 = inputs.product();
                (product, product.abs() * off(n - 1.0))
            }
            Reduce::Sum | Reduce::Avg => {
                let (sum, size) = inputs.fold((0.0, 0.0), |(sum, size), value| (sum + value, size + value.abs()));
                if self.reduce == Reduce::Avg {
                    return (sum / n, size / n * off(n + 1.0) + n * smallest(self.dtype));
                }
                let calls = if self.grows() { calls as f64 } else { 1.0 };
                let grown = n.powf(calls - 1.0);
                (sum * grown, size * grown * (off(calls * (n - 1.0)) + growth(OURS, 4.0 * calls)))
            }
        }
    }
}

/// Results of a reduction with their bounds, computed when they are first asked for.
pub(crate) struct ReducedBounds {
    random: Random,
    calls: u64,
    known: Vec<Option<(f64, f64)>>,
}

impl ReducedBounds {
    /// Bounds of a case.
    pub(crate) fn new(random: Random) -> Self {
        Self { random, calls: 1, known: vec![None; PERIOD] }
    }

    fn at(&mut self, index: usize) -> (f64, f64) {
        let (random, calls) = (self.random, self.calls);
        *self.known[index].get_or_insert_with(|| random.expected(index as u64, calls))
    }

    /// Compares all elements of a buffer that begins at element `begin` of the result with what `calls` calls must have left.
    ///
    /// # Errors
    /// What the driver of a GPU says.
    pub(crate) fn compare(
        &mut self,
        buffer: &Slice,
        begin: u64,
        calls: u64,
        rank: u32,
        report: &mut WrongReport,
    ) -> Result<(), Failure> {
        let calls = if self.random.grows() { calls } else { 1 };
        if self.calls != calls {
            (self.calls, self.known) = (calls, vec![None; PERIOD]);
        }
        self.compare_bytes(&read(buffer)?, begin, rank, report);
        Ok(())
    }

    /// Compares bytes that one call left, or as many calls as the last comparison was of.
    pub(crate) fn compare_bytes(&mut self, bytes: &[u8], begin: u64, rank: u32, report: &mut WrongReport) {
        let dtype = self.random.dtype;
        for (index, element) in bytes.chunks_exact(dtype.bytes() as usize).enumerate() {
            let (expected, bound) = self.at((begin as usize + index) % PERIOD);
            report.compared += 1;
            // What is not a number is within no bound.
            let is_right = (contract::bits::float(dtype, element) - expected).abs() <= bound;
            if is_right {
                continue;
            }
            report.count += 1;
            if report.first.len() < TOLD {
                let expected = format!("{expected} within {bound:.1e}");
                report.first.push(WrongElement { rank, index: index as u64, expected, got: show(dtype, element) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::Region;
    use terms::Named;

    const FLOATS: [Dtype; 4] = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];

    fn random(reduce: Reduce, dtype: Dtype, ranks: u32) -> Random {
        Random::new((Collective::AllReduce, reduce), dtype, ranks, false, 7).unwrap()
    }

    /// The inputs of an element, as the type holds them.
    fn inputs(random: &Random, index: u64) -> Vec<f64> {
        (0..random.ranks).map(|rank| rounded(random.dtype, random.value(rank, index))).collect()
    }

    /// Folds values as a rank computes: rounded after every operation, in this order.
    fn folded(random: &Random, mut values: Vec<f64>, turn: usize) -> f64 {
        let ranks = values.len();
        values.rotate_left(turn % ranks);
        let by = |a: f64, b: f64| match random.reduce {
            Reduce::Prod => a * b,
            Reduce::Min => a.min(b),
            Reduce::Max => a.max(b),
            Reduce::Sum | Reduce::Avg => a + b,
        };
        let all = values.into_iter().reduce(|a, b| rounded(random.dtype, by(a, b))).unwrap();
        if random.reduce == Reduce::Avg { rounded(random.dtype, all / ranks as f64) } else { all }
    }

    #[test]
    fn every_order_of_every_operation_is_within_its_bound() {
        for dtype in FLOATS {
            for reduce in Reduce::ALL.iter().copied() {
                for ranks in [1, 2, 3, 8, 17, 64] {
                    let random = random(reduce, dtype, ranks);
                    for index in 0..200 {
                        let (expected, bound) = random.expected(index, 1);
                        for turn in 0..4 {
                            let got = folded(&random, inputs(&random, index), turn);
                            let what = format!("{reduce} of {dtype} over {ranks}, element {index}");
                            assert!((got - expected).abs() <= bound, "{what}: {got} {expected} {bound}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn bits_of_a_sum_depend_on_its_order_from_three_ranks_on() {
        for dtype in FLOATS {
            let differ = |ranks: u32| {
                let random = random(Reduce::Sum, dtype, ranks);
                let order = |index: u64, turn: usize| folded(&random, inputs(&random, index), turn);
                (0..200).filter(|index| order(*index, 0) != order(*index, 1)).count()
            };
            assert_eq!(differ(2), 0, "{dtype}: a + b is b + a");
            assert!(differ(3) > 20 && differ(8) > 60, "{dtype}: {} {}", differ(3), differ(8));
        }
    }

    /// A bound that always held would be worthless.
    #[test]
    fn a_rank_that_is_left_out_is_beyond_the_bound() {
        for (dtype, most) in [(Dtype::F32, 64), (Dtype::F64, 64), (Dtype::F16, 17), (Dtype::Bf16, 8)] {
            for reduce in [Reduce::Sum, Reduce::Avg, Reduce::Prod] {
                for ranks in [2, 3, 8, 17, 64].into_iter().filter(|ranks| *ranks <= most) {
                    let random = random(reduce, dtype, ranks);
                    for out in [0, ranks as usize - 1] {
                        let caught = |index: &u64| {
                            let (expected, bound) = random.expected(*index, 1);
                            let mut values = inputs(&random, *index);
                            values[out] = if reduce == Reduce::Prod { 1.0 } else { 0.0 };
                            (folded(&random, values, 0) - expected).abs() > bound
                        };
                        let caught = (0..200).filter(caught).count();
                        assert!(caught > 100, "{reduce} of {dtype} over {ranks} without {out}: {caught} of 200");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_in_place_stay_within_bounds_that_grow() {
        for dtype in FLOATS {
            for ranks in [2, 3, 8] {
                let random = Random { in_place: true, ..random(Reduce::Sum, dtype, ranks) };
                let calls = random.max_calls();
                assert!(calls >= 4, "{dtype} over {ranks}: {calls} calls");
                for index in 0..50 {
                    let mut values = inputs(&random, index);
                    for call in 1..=calls.min(40) {
                        let sum = folded(&random, values.clone(), call as usize);
                        assert!(sum.is_finite());
                        values.fill(sum);
                        let (expected, bound) = random.expected(index, call);
                        assert!((sum - expected).abs() <= bound, "{dtype} over {ranks}, call {call}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_no_bound_can_check_is_refused() {
        let new = |dtype, ranks| Random::new((Collective::AllReduce, Reduce::Sum), dtype, ranks, false, 1);
        assert!(new(Dtype::Bf16, 100).is_some() && new(Dtype::Bf16, 128).is_none());
        assert!(new(Dtype::F16, 512).is_some() && new(Dtype::F32, 1024).is_some());
        assert!(new(Dtype::I32, 2).is_none() && new(Dtype::F8E4M3, 2).is_none());
        assert!(Random::new((Collective::AllGather, Reduce::Sum), Dtype::Bf16, 1024, false, 1).is_some(), "it moves");
    }

    #[test]
    fn an_element_beyond_its_bound_is_named_and_one_within_is_not() {
        let random = random(Reduce::Sum, Dtype::F32, 4);
        let count = PERIOD + 100;
        let region = Region::host(4 * count).unwrap();
        let buffer = region.whole();
        // SAFETY: inside the region, which is this thread's alone.
        let put = |index: usize, value: f32| unsafe { buffer.ptr().cast::<f32>().add(index).write(value) };
        let at = |index: usize| random.expected(((index + 5) % PERIOD) as u64, 1);
        for index in 0..count {
            put(index, at(index).0 as f32);
        }
        let compare = || {
            let mut report = WrongReport::default();
            ReducedBounds::new(random).compare(&buffer, 5, 1, 3, &mut report).unwrap();
            report
        };
        assert_eq!((compare().count, compare().compared), (0, count as u64));
        let (expected, bound) = at(17);
        put(17, (expected + 0.5 * bound) as f32);
        assert_eq!(compare().count, 0);
        put(17, (expected + 2.0 * bound) as f32);
        let report = compare();
        assert_eq!((report.count, report.first[0].rank, report.first[0].index), (1, 3, 17));
        assert!(report.first[0].expected.contains(" within "), "{report:?}");
        put(17, f32::NAN);
        assert_eq!(compare().count, 1, "not a number is within no bound");
    }
}
