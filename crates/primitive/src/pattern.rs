//! Operands with a known product, so that every element of a result is checked without multiplying again.
//!
//! Both operands repeat small whole numbers with a prime period P: `a(i, p) = S[(ALPHA i + p + shift) mod P]` and
//! `b(p, j) = T[(p + BETA j + GAMMA e) mod P]`, for row i, depth p, column j and expert e. So an element of the product
//! depends on `(ALPHA i + shift) mod P` and `(BETA j + GAMMA e) mod P` alone: one table of P x P sums holds all of them. The
//! numbers are so small that f32 adds them up exactly, in any order.

use device::Slice;
use engine::{Element, Wide};
use half::{bf16, f16};
use measure::WrongReport;
use record::WrongElement;
use terms::Dtype;

/// Steps of the sequences from row to row, from column to column, and from expert to expert.
pub(super) const ALPHA: usize = 7;
pub(super) const BETA: usize = 11;
pub(super) const GAMMA: usize = 17;
/// How far each refill displaces the rows: what a call left before it is not right after it.
pub(super) const SHIFT: usize = 97;
/// Periods. The second is for blocks of a multiple of the first: ranks would hold equal rows.
pub(super) const PERIODS: [usize; 2] = [251, 241];
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
    rows: Vec<i8>,
    columns: Vec<i8>,
    shift: usize,
}

/// Sums over a stretch of the depth.
#[derive(Clone, Debug)]
pub(super) struct Table {
    period: usize,
    sums: Vec<f64>,
}

/// A row-major matrix that a sequence or a table fills: how many columns, and how far the index moves from one to the next.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    dtype: Dtype,
    columns: usize,
    step: usize,
}

impl Pattern {
    /// Sequences for products of this depth, of blocks of so many rows.
    ///
    /// The largest sum is `amplitude^2 depth`, at most 2^24: f32 holds every whole number up to that. Types of 16 bits have
    /// amplitude 1, so that few sums exceed what they hold exactly.
    pub(super) fn new(seed: u64, depth: usize, block: usize, dtype: Dtype) -> Self {
        let period = PERIODS.into_iter().find(|period| !block.is_multiple_of(*period)).unwrap_or(PERIODS[0]);
        let mut sequence = sequences(seed, period, amplitude(depth, dtype));
        Self { rows: sequence(), columns: sequence(), shift: 0 }
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

    /// Fills A: these rows, and so many elements of the depth from `depth` on.
    pub(super) fn fill_rows(
        &self,
        to: &Slice,
        dtype: Dtype,
        rows: impl Iterator<Item = usize>,
        depth: usize,
        len: usize,
    ) {
        let starts = rows.map(|row| self.row(row) + depth);
        fill(to, Matrix { dtype, columns: len, step: 1 }, &self.rows, starts);
    }

    /// Fills B: `len` rows of the depth from `depth` on, so many columns, for an expert.
    pub(super) fn fill_columns(
        &self,
        to: &Slice,
        dtype: Dtype,
        depth: usize,
        len: usize,
        columns: usize,
        expert: usize,
    ) {
        let starts = (depth..depth + len).map(|row| row + self.column(expert));
        fill(to, Matrix { dtype, columns, step: BETA }, &self.columns, starts);
    }

    /// Compares with A.
    pub(super) fn compare_rows(
        &self,
        at: &Slice,
        dtype: Dtype,
        rows: impl Iterator<Item = usize>,
        depth: usize,
        len: usize,
        found: &mut Comparison<'_>,
    ) {
        let values: Vec<f64> = self.rows.iter().map(|value| f64::from(*value)).collect();
        let starts = rows.map(|row| (0, self.row(row) + depth));
        compare(at, Matrix { dtype, columns: len, step: 1 }, &values, self.period(), starts, 0.0, found);
    }

    /// The sums of the depth's elements `depth..depth + len`.
    pub(super) fn table(&self, depth: usize, len: usize) -> Table {
        Table::new(&self.rows, &self.columns, depth, len)
    }

    /// Writes rows of a product.
    pub(super) fn fill_product(
        &self,
        to: &Slice,
        dtype: Dtype,
        rows: impl Iterator<Item = usize>,
        columns: usize,
        expert: usize,
        table: &Table,
    ) {
        with_element!(dtype, E => {
            // SAFETY: the slice is this rank's own, aligned as an allocation, and no operation is in flight.
            let all = unsafe { elements_mut::<E>(to) };
            for (row, line) in rows.zip(all.chunks_exact_mut(columns.max(1))) {
                let sums = table.row(self.row(row));
                let mut at = self.column(expert);
                for element in line {
                    *element = E::narrow(<E as Element>::Wide::of(sums[at]));
                    at = (at + BETA) % table.period;
                }
            }
        });
    }

    /// Compares rows of a product, each of this expert.
    pub(super) fn compare_product(
        &self,
        at: &Slice,
        dtype: Dtype,
        rows: impl Iterator<Item = (usize, usize)>,
        expected: Expected<'_>,
        found: &mut Comparison<'_>,
    ) {
        let Expected { columns, table, tolerance } = expected;
        let starts = rows.map(|(row, expert)| (self.row(row) * table.period, self.column(expert)));
        compare(at, Matrix { dtype, columns, step: BETA }, &table.sums, table.period, starts, tolerance, found);
    }
}

/// The largest number of operands whose products have sums over this depth that stay exact.
pub(super) fn amplitude(depth: usize, dtype: Dtype) -> i64 {
    let room = ((1u64 << 24) as f64 / depth.max(1) as f64).sqrt();
    let most = if dtype.bytes() == 2 { 1 } else { 7 };
    (room as i64).clamp(1, most)
}

/// Draws sequences of a period, one after the other.
pub(super) fn sequences(seed: u64, period: usize, amplitude: i64) -> impl FnMut() -> Vec<i8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        let next = |_| {
            // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators".
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let drawn = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
            (drawn as i64 % (2 * amplitude + 1) - amplitude) as i8
        };
        (0..period).map(next).collect()
    }
}

impl Table {
    /// Of two sequences of one period, over the depth's elements `depth..depth + len`.
    pub(super) fn new(rows: &[i8], columns: &[i8], depth: usize, len: usize) -> Self {
        let period = rows.len();
        let (whole, rest) = (len / period, len % period);
        // All periods add up to the same; what is left over begins where the stretch does.
        let sum = |x: usize, y: usize, count: usize| -> i64 {
            let product =
                |p: usize| i64::from(rows[(x + depth + p) % period]) * i64::from(columns[(y + depth + p) % period]);
            (0..count).map(product).sum()
        };
        let entry = |x: usize, y: usize| {
            let periods = if whole > 0 { sum(x, y, period) * whole as i64 } else { 0 };
            (periods + sum(x, y, rest)) as f64
        };
        let sums = (0..period).flat_map(|x| (0..period).map(move |y| (x, y))).map(|(x, y)| entry(x, y)).collect();
        Self { period, sums }
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

/// What a product must be: its columns, its sums, and how far an element may be off.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) columns: usize,
    pub(super) table: &'a Table,
    pub(super) tolerance: f64,
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

fn fill(to: &Slice, matrix: Matrix, sequence: &[i8], starts: impl Iterator<Item = usize>) {
    let period = sequence.len();
    with_element!(matrix.dtype, E => {
        let values: Vec<E> = sequence.iter().map(|value| E::narrow(<E as Element>::Wide::of(f64::from(*value)))).collect();
        // SAFETY: the slice is this rank's own, and no operation is in flight.
        let all = unsafe { elements_mut::<E>(to) };
        for (start, line) in starts.zip(all.chunks_exact_mut(matrix.columns.max(1))) {
            let mut at = start % period;
            for element in line {
                *element = values[at];
                at = (at + matrix.step) % period;
            }
        }
    });
}

/// Compares with values that repeat: row by row from an offset into them and a place in the period.
fn compare(
    at: &Slice,
    matrix: Matrix,
    values: &[f64],
    period: usize,
    starts: impl Iterator<Item = (usize, usize)>,
    tolerance: f64,
    found: &mut Comparison<'_>,
) {
    with_element!(matrix.dtype, E => {
        // SAFETY: no operation is in flight, so nobody writes.
        let all = unsafe { elements::<E>(at) };
        found.report.compared += all.len() as u64;
        let mut rows = 0;
        for ((base, start), line) in starts.zip(all.chunks_exact(matrix.columns.max(1))) {
            let mut place = start % period;
            for (column, element) in line.iter().enumerate() {
                found.compare(rows * matrix.columns + column, values[base + place], element.widen().f64(), tolerance);
                place = (place + matrix.step) % period;
            }
            rows += 1;
        }
        assert_eq!(rows * matrix.columns, all.len(), "every element is compared");
    });
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
            let mut pattern = Pattern::new(3, depth, rows, Dtype::F32);
            pattern.displace();
            let (a, b) = (slice(rows * depth, Dtype::F32), slice(depth * columns, Dtype::F32));
            pattern.fill_rows(&a, Dtype::F32, 40..40 + rows, 11, depth);
            pattern.fill_columns(&b, Dtype::F32, 11, depth, columns, 2);
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
                let expected = Expected { columns, table: &table, tolerance: 0.0 };
                pattern.compare_product(&c, Dtype::F32, rows, expected, &mut found);
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
            let pattern = Pattern::new(1, depth, 4, Dtype::F32);
            let most = pattern.rows.iter().chain(&pattern.columns).map(|value| i64::from(*value).abs()).max().unwrap();
            assert!(most >= 1 && most * most * depth as i64 <= 1 << 24, "{depth}: {most}");
        }
        for block in [251, 241, 512] {
            let pattern = Pattern::new(1, 64, block, Dtype::F32);
            assert_ne!(pattern.row(0), pattern.row(block), "the first rows of two ranks");
        }
    }
}
