//! Operands with a known product, so that every element of a result is checked without multiplying again.
//!
//! Both operands repeat small whole numbers with a prime period P: `a(i, p) = S[(ALPHA i + p + shift) mod P]` and
//! `b(p, j) = T[(p + BETA j + GAMMA e) mod P]`, for row i, depth p, column j and expert e. So an element of the product
//! depends on `(ALPHA i + shift) mod P` and `(BETA j + GAMMA e) mod P` alone: one table of P x P sums holds all of them. The
//! numbers are so small that f32 adds them up exactly, in any order.
//!
//! Where ranks add up their products, e is the rank, and sums of some of the ranks are rounded to the type on their way. Operands of
//! 16 bits are such that the type holds each of these sums ([`Pattern::fit`]).

use device::Slice;
use engine::{Element, Wide};
use half::{bf16, f16};
use measure::WrongReport;
use record::WrongElement;
use terms::Dtype;

use super::task::Task;
use super::words::Drawn;

/// Steps of the sequences from row to row, from column to column, and from expert to expert.
pub(super) const ALPHA: usize = 7;
pub(super) const BETA: usize = 11;
pub(super) const GAMMA: usize = 17;
/// How far each refill displaces the rows: what a call left before it is not right after it.
pub(super) const SHIFT: usize = 97;
/// Periods. The second is for blocks of a multiple of the first: ranks would hold equal rows.
pub(super) const PERIODS: [usize; 2] = [251, 241];
/// How often operands are thinned at most: then one number of each sequence is left.
const MOST_THINNED: usize = 16;
/// Wrong elements that a rank reports, at most.
const MOST_REPORTED: usize = 8;

/// Runs code for the element type of `dtype`.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            Dtype::F64 => {
                type $element = f64;
                $body
            }
            Dtype::Bf16 => {
                type $element = bf16;
                $body
            }
            Dtype::F16 => {
                type $element = f16;
                $body
            }
            _ => {
                type $element = f32;
                $body
            }
        }
    };
}
pub(super) use with_element;

/// The two sequences, displaced by the refills so far.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    rows: Vec<f64>,
    /// Followed by the same numbers with the other sign.
    columns: Vec<f64>,
    shift: usize,
    /// B changes its sign from period to period of a rank's depth.
    alternates: bool,
}

/// Sums over a stretch of the depth.
#[derive(Clone, Debug)]
pub(super) struct SumTable {
    period: usize,
    sums: Vec<f64>,
}

/// Which numbers a picture repeats: they are the same for as long as a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Values {
    /// The sequence of A.
    Rows,
    /// The sequence of B.
    Columns,
    /// Sums over the whole depth, or over the rank's own.
    Sums(usize),
}

/// What a row-major matrix holds: element (r, c) is `numbers[base + (start + step c) % period]`, with base and start of row r.
#[derive(Clone, Debug)]
pub(super) struct Picture<'a> {
    pub(super) values: Values,
    pub(super) numbers: &'a [f64],
    pub(super) period: usize,
    pub(super) columns: usize,
    pub(super) step: usize,
    /// Base and start of each row.
    pub(super) lines: Vec<(usize, usize)>,
}

impl Pattern {
    /// Sequences for products of this depth, of blocks of so many rows.
    ///
    /// The largest sum of exact ones is `amplitude^2 depth`, at most 2^24: f32 holds every whole number up to that. Types of 16 bits
    /// and less have amplitude 1, so that few sums exceed what they hold exactly.
    pub(super) fn new(seed: u64, depth: usize, block: usize, dtype: Dtype, drawn: Drawn) -> Self {
        let period = PERIODS.into_iter().find(|period| !block.is_multiple_of(*period)).unwrap_or(PERIODS[0]);
        let [rows, mut columns]: [Vec<f64>; 2] = match drawn {
            Drawn::Exact => {
                let mut sequence = sequences(seed, period, amplitude(depth, dtype));
                std::array::from_fn(|_| sequence().into_iter().map(f64::from).collect())
            }
            Drawn::Random => {
                let mut next = draws(seed);
                std::array::from_fn(|_| (0..period).map(|_| random(next(), dtype)).collect())
            }
        };
        let negative: Vec<f64> = columns.iter().map(|value| 0.0 - value).collect();
        columns.extend(negative);
        Self { rows, columns, shift: 0, alternates: false }
    }

    /// The pattern of a task that multiplies matrices, and its sums over the whole depth and over the rank's part.
    pub(super) fn for_task(task: &Task) -> (Self, [SumTable; 2]) {
        let (depth, whole) = (task.depth(), task.whole_depth());
        let mut pattern = Self::new(task.seed, whole, task.block(), task.dtype, task.means.drawn);
        if task.is_summed() && task.dtype.bytes() == 2 && task.means.drawn == Drawn::Exact {
            pattern.fit(task.ranks, depth, task.dtype.exact_integers() as f64);
        }
        let whole = match task.is_summed() {
            true => pattern.table(0, depth).over_ranks(task.ranks, depth).0,
            false => pattern.table(0, whole),
        };
        let part = pattern.table(task.depth_begin(task.rank), depth);
        (pattern, [whole, part])
    }

    /// Makes the sum of any of these ranks' products one that the type holds: a whole number up to `exact`. So results are exact in
    /// whatever order ranks are added, and a rank that is left out shows.
    ///
    /// Two periods of a rank's depth with different signs add up to nothing, so sums do not grow with the depth. Where ranks are so
    /// many that their sums are still too large, fewer numbers of A and B differ from 0.
    fn fit(&mut self, ranks: usize, depth: usize, exact: f64) {
        self.alternates = true;
        let period = self.period();
        for turn in 0..MOST_THINNED {
            let (_, largest) = self.table(0, depth).over_ranks(ranks, depth);
            if largest <= exact {
                return;
            }
            if turn.is_multiple_of(2) {
                thin(&mut self.rows);
            } else {
                self.columns.chunks_exact_mut(period).for_each(thin);
            }
        }
    }

    /// Other rows from now on.
    pub(super) fn displace(&mut self) {
        self.shift = (self.shift + SHIFT) % self.period();
    }

    fn period(&self) -> usize {
        self.rows.len()
    }

    /// Where the sequence of a row begins.
    pub(super) fn row(&self, row: usize) -> usize {
        (ALPHA * row + self.shift) % self.period()
    }

    /// Where the sequence of the columns begins.
    fn column(&self, expert: usize) -> usize {
        GAMMA * expert % self.period()
    }

    /// A: these rows, and so many elements of the depth from `depth` on.
    pub(super) fn rows(&self, rows: impl Iterator<Item = usize>, depth: usize, len: usize) -> Picture<'_> {
        let period = self.period();
        let lines = rows.map(|row| (0, (self.row(row) + depth) % period)).collect();
        Picture { values: Values::Rows, numbers: &self.rows, period, columns: len, step: 1, lines }
    }

    /// B: `len` rows of the depth from `depth` on, where a rank's part begins, so many columns, for an expert.
    pub(super) fn columns(&self, depth: usize, len: usize, columns: usize, expert: usize) -> Picture<'_> {
        let period = self.period();
        let base = |row: usize| if self.alternates && row / period % 2 == 1 { period } else { 0 };
        let lines = (0..len).map(|row| (base(row), (depth + row + self.column(expert)) % period)).collect();
        Picture { values: Values::Columns, numbers: &self.columns, period, columns, step: BETA, lines }
    }

    /// B stored `[columns, len]`, where its sign does not change.
    pub(super) fn columns_transposed(&self, depth: usize, len: usize, columns: usize, expert: usize) -> Picture<'_> {
        let period = self.period();
        let begin = depth + self.column(expert);
        let lines = (0..columns).map(|column| (0, (begin + BETA * column) % period)).collect();
        Picture { values: Values::Columns, numbers: &self.columns, period, columns: len, step: 1, lines }
    }

    /// The sums of the depth's elements `depth..depth + len`, where a rank's part begins.
    pub(super) fn table(&self, depth: usize, len: usize) -> SumTable {
        let twice = 2 * self.period();
        // Pairs of periods with different signs add up to nothing; of what is left, so does all that is there with both signs.
        let (begin, len) = match self.alternates {
            true => ((len % twice).saturating_sub(self.period()), (len % twice).min(twice - len % twice)),
            false => (0, len),
        };
        SumTable::new(&self.rows, &self.columns, depth + begin, len)
    }

    /// Rows of a product with so many columns, each of an expert, by one of the site's tables.
    pub(super) fn product<'t>(
        &self,
        rows: impl Iterator<Item = (usize, usize)>,
        columns: usize,
        (number, table): (usize, &'t SumTable),
    ) -> Picture<'t> {
        let period = table.period;
        let lines = rows.map(|(row, expert)| (self.row(row) * period, self.column(expert))).collect();
        Picture { values: Values::Sums(number), numbers: &table.sums, period, columns, step: BETA, lines }
    }

    /// The largest sizes of numbers in A and B.
    pub(super) fn sizes(&self) -> [f64; 2] {
        [&self.rows, &self.columns].map(|all| all.iter().fold(0.0, |most: f64, value| value.abs().max(most)))
    }
}

impl Picture<'_> {
    /// What element (r, c) is, by its index.
    pub(super) fn at(&self, index: usize) -> f64 {
        let (base, start) = self.lines[index / self.columns];
        self.numbers[base + (start + self.step * (index % self.columns)) % self.period]
    }

    /// Writes the matrix to memory of the host.
    pub(super) fn fill(&self, to: &Slice, dtype: Dtype) {
        with_element!(dtype, E => {
            let values: Vec<E> =
                self.numbers.iter().map(|value| E::narrow(<E as Element>::Wide::from_f64(*value))).collect();
            // SAFETY: the slice is this rank's own, aligned as an allocation, and no operation is in flight.
            let all = unsafe { elements_mut::<E>(to) };
            for ((base, start), line) in self.lines.iter().zip(all.chunks_exact_mut(self.columns.max(1))) {
                let mut at = *start;
                for element in line {
                    *element = values[base + at];
                    at = (at + self.step) % self.period;
                }
            }
        });
    }

    /// Compares memory of the host with it.
    pub(super) fn compare(&self, at: &Slice, dtype: Dtype, tolerance: f64, found: &mut Comparison<'_>) {
        with_element!(dtype, E => {
            // SAFETY: no operation is in flight, so nobody writes.
            let all = unsafe { elements::<E>(at) };
            found.report.compared += all.len() as u64;
            let mut rows = 0;
            for ((base, start), line) in self.lines.iter().zip(all.chunks_exact(self.columns.max(1))) {
                let mut place = *start;
                for (column, element) in line.iter().enumerate() {
                    let index = rows * self.columns + column;
                    found.compare(index, self.numbers[base + place], element.widen().f64(), tolerance);
                    place = (place + self.step) % self.period;
                }
                rows += 1;
            }
            assert_eq!(rows * self.columns, all.len(), "every element is compared");
        });
    }
}

/// The largest number of operands whose products have sums over this depth that stay exact.
pub(super) fn amplitude(depth: usize, dtype: Dtype) -> i64 {
    let room = ((1u64 << 24) as f64 / depth.max(1) as f64).sqrt();
    let most = if dtype.bytes() <= 2 && dtype != Dtype::I8 { 1 } else { 7 };
    (room as i64).clamp(1, most)
}

/// Every other number that differs from 0 becomes 0; the first one stays.
fn thin(numbers: &mut [f64]) {
    numbers.iter_mut().filter(|value| **value != 0.0).skip(1).step_by(2).for_each(|value| *value = 0.0);
}

/// Random words: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators").
fn draws(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33
    }
}

/// A number of the type, in (-1, 1), or any byte of an integer: of all bits of a word.
fn random(word: u64, dtype: Dtype) -> f64 {
    let unit = (word as f64 + 0.5) / (1u64 << 30) as f64 - 1.0;
    match dtype {
        Dtype::I8 => (word & 0xff) as u8 as i8 as f64,
        Dtype::Bf16 => bf16::from_f64(unit).to_f64(),
        Dtype::F16 => f16::from_f64(unit).to_f64(),
        // Seven bits, as the type has them between a half and one.
        Dtype::F8E4M3 => (unit * 16.0).round() / 16.0,
        _ => f64::from(unit as f32),
    }
}

/// Draws sequences of a period, one after the other.
pub(super) fn sequences(seed: u64, period: usize, amplitude: i64) -> impl FnMut() -> Vec<i8> {
    let mut next = draws(seed);
    move || (0..period).map(|_| (next() as i64 % (2 * amplitude + 1) - amplitude) as i8).collect()
}

impl SumTable {
    /// The table of two sequences of one period, over the depth's elements `depth..depth + len`.
    pub(super) fn new(rows: &[f64], columns: &[f64], depth: usize, len: usize) -> Self {
        let period = rows.len();
        let (whole, rest) = (len / period, len % period);
        // All periods add up to the same; what is left over begins where the stretch does.
        let sum = |x: usize, y: usize, count: usize| -> f64 {
            (0..count).map(|p| rows[(x + depth + p) % period] * columns[(y + depth + p) % period]).sum()
        };
        let entry = |x: usize, y: usize| {
            let periods = if whole > 0 { sum(x, y, period) * whole as f64 } else { 0.0 };
            periods + sum(x, y, rest)
        };
        let sums = (0..period).flat_map(|x| (0..period).map(move |y| (x, y))).map(|(x, y)| entry(x, y)).collect();
        Self { period, sums }
    }

    /// The sums of so many ranks, the first of which has these, and the largest size of a sum of some of them.
    ///
    /// Each rank's depth begins where that of the rank before it ends, and its columns are displaced by its number. The largest sum of
    /// some ranks is that of all whose sums have one sign.
    pub(super) fn over_ranks(&self, ranks: usize, depth: usize) -> (Self, f64) {
        let period = self.period;
        // Ranks that are a period apart have equal sums.
        let place = |rank: usize| {
            let begin = rank * depth % period;
            (begin, (begin + GAMMA * rank) % period, (ranks - rank).div_ceil(period) as f64)
        };
        let places: Vec<(usize, usize, f64)> = (0..ranks.min(period)).map(place).collect();
        let mut largest = 0.0_f64;
        let entry = |(x, y): (usize, usize)| {
            let [mut above, mut below] = [0.0_f64; 2];
            for (row, column, times) in &places {
                let sum = times * self.sums[(x + row) % period * period + (y + column) % period];
                above += sum.max(0.0);
                below += sum.min(0.0);
            }
            largest = largest.max(above).max(-below);
            above + below
        };
        let sums = (0..period).flat_map(|x| (0..period).map(move |y| (x, y))).map(entry).collect();
        (Self { period, sums }, largest)
    }

    /// The sums of rows of a class, by the class of the column.
    pub(super) fn row(&self, start: usize) -> &[f64] {
        &self.sums[start * self.period..(start + 1) * self.period]
    }

    /// The largest sum's size.
    pub(super) fn largest(&self) -> f64 {
        self.sums.iter().fold(0.0, |most, sum| sum.abs().max(most))
    }
}

/// The comparison of a rank's output with what is expected.
pub(super) struct Comparison<'a> {
    pub(super) rank: u32,
    pub(super) report: &'a mut WrongReport,
}

impl Comparison<'_> {
    #[cold]
    fn wrong(&mut self, index: usize, expected: f64, got: f64) {
        self.report.count += 1;
        self.name(index, expected, got);
    }

    /// Names a wrong element that was counted.
    pub(super) fn name(&mut self, index: usize, expected: f64, got: f64) {
        if self.report.first.len() < MOST_REPORTED {
            let element = WrongElement {
                rank: self.rank,
                index: index as u64,
                expected: format!("{expected}"),
                got: format!("{got}"),
            };
            self.report.first.push(element);
        }
    }

    /// Compares one element.
    #[inline]
    pub(super) fn compare(&mut self, index: usize, expected: f64, got: f64, tolerance: f64) {
        // A NaN is within no tolerance.
        let near = (got - expected).abs() <= tolerance;
        if !near {
            self.wrong(index, expected, got);
        }
    }
}

/// The elements of a slice.
///
/// # Safety
/// Nobody writes to them meanwhile.
pub(super) unsafe fn elements<E: Element>(slice: &Slice) -> &[E] {
    assert!((slice.ptr() as usize).is_multiple_of(align_of::<E>()), "a slice of elements is aligned");
    // SAFETY: in bounds by the slice, aligned by the assertion; any bits are an element; aliasing is the caller's.
    unsafe { std::slice::from_raw_parts(slice.ptr().cast::<E>(), slice.len() / size_of::<E>()) }
}

/// The elements of a slice, to be written.
///
/// # Safety
/// Nobody else uses them meanwhile.
#[expect(clippy::mut_from_ref, reason = "a slice is an address; who may write is the caller's")]
pub(super) unsafe fn elements_mut<E: Element>(slice: &Slice) -> &mut [E] {
    assert!((slice.ptr() as usize).is_multiple_of(align_of::<E>()), "a slice of elements is aligned");
    // SAFETY: as in `elements`.
    unsafe { std::slice::from_raw_parts_mut(slice.ptr().cast::<E>(), slice.len() / size_of::<E>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(elements: usize, dtype: Dtype) -> Slice {
        device::Region::host(elements * dtype.bytes() as usize).unwrap().whole()
    }

    #[test]
    fn the_table_holds_the_product() {
        for (rows, depth, columns) in [(5, 3, 4), (9, 700, 6), (300, 251, 2)] {
            let mut pattern = Pattern::new(3, depth, rows, Dtype::F32, Drawn::Exact);
            pattern.displace();
            let (a, b) = (slice(rows * depth, Dtype::F32), slice(depth * columns, Dtype::F32));
            pattern.rows(40..40 + rows, 11, depth).fill(&a, Dtype::F32);
            pattern.columns(11, depth, columns, 2).fill(&b, Dtype::F32);
            // SAFETY: this test's own buffers.
            let (a, b) = unsafe { (elements::<f32>(&a), elements::<f32>(&b)) };
            let c = slice(rows * columns, Dtype::F32);
            // SAFETY: as above.
            let out = unsafe { elements_mut::<f32>(&c) };
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                out[i * columns + j] = (0..depth).map(|p| a[i * depth + p] * b[p * columns + j]).sum();
            }
            let table = pattern.table(11, depth);
            let len = rows * columns;
            let compare = |first: usize, expert: usize| {
                let mut report = WrongReport::default();
                let mut found = Comparison { rank: 1, report: &mut report };
                let rows = (first..first + rows).map(|row| (row, expert));
                pattern.product(rows, columns, (0, &table)).compare(&c, Dtype::F32, 0.0, &mut found);
                assert_eq!(report.compared, len as u64);
                report
            };
            assert_eq!(compare(40, 2).count, 0);
            assert!(compare(41, 2).count > 0, "another row");
            assert!(compare(40, 3).count > 0, "another expert");
            out[3] += 1.0;
            let report = compare(40, 2);
            assert_eq!((report.count, report.first[0].index, report.first[0].rank), (1, 3, 1));
        }
    }

    #[test]
    fn sums_stay_exact_and_blocks_differ() {
        for depth in [1, 1024, 1 << 20] {
            let pattern = Pattern::new(1, depth, 4, Dtype::F32, Drawn::Exact);
            let most = pattern.rows.iter().chain(&pattern.columns).map(|value| value.abs() as i64).max().unwrap();
            assert!(most >= 1 && most * most * depth as i64 <= 1 << 24, "{depth}: {most}");
        }
        for block in [251, 241, 512] {
            let pattern = Pattern::new(1, 64, block, Dtype::F32, Drawn::Exact);
            assert_ne!(pattern.row(0), pattern.row(block), "the first rows of two ranks");
        }
    }

    /// Every element of a random product is within the bound, by sums in f64 of what the sequences hold; and B is the same matrix
    /// where it lies transposed.
    #[test]
    fn random_numbers_have_all_bits_and_their_table_holds_the_product() {
        for dtype in [Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8] {
            let (rows, depth, columns) = (6, 300, 5);
            let pattern = Pattern::new(3, depth, rows, dtype, Drawn::Random);
            let different: std::collections::BTreeSet<u64> = pattern.rows.iter().map(|value| value.to_bits()).collect();
            assert!(different.len() > 20 && pattern.sizes().iter().all(|size| *size > 0.8), "{dtype}");
            let (a, b) = (pattern.rows(0..rows, 0, depth), pattern.columns(0, depth, columns, 0));
            let transposed = pattern.columns_transposed(0, depth, columns, 0);
            let table = pattern.table(0, depth);
            let product = pattern.product((0..rows).map(|row| (row, 0)), columns, (0, &table));
            for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                let sum: f64 = (0..depth).map(|p| a.at(i * depth + p) * b.at(p * columns + j)).sum();
                assert!((product.at(i * columns + j) - sum).abs() < 1e-9 * sum.abs().max(1.0), "{dtype}: {i}, {j}");
                assert!((0..depth).all(|p| transposed.at(j * depth + p) == b.at(p * columns + j)));
            }
        }
    }
}
