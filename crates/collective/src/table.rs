//! Repeating sequences of elements, computed in pieces when they are first read: a small message reads a small part of the
//! period, and computing the rest on every rank would dominate the start of many ranks.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use device::cuda::Gpu;
use device::{Region, Slice};
use terms::Dtype;

use super::number::Number;
use super::pattern::PERIOD;

/// Elements that are computed at a time: few enough for small messages, enough for copies at full speed.
const PIECE: usize = 512;

/// The pieces of one period, each empty until it is read.
struct Pieces<T>(Vec<OnceLock<Vec<T>>>);

impl<T> Pieces<T> {
    fn new() -> Self {
        Self((0..PERIOD.div_ceil(PIECE)).map(|_| OnceLock::new()).collect())
    }

    /// The piece that holds element `at`, made of the elements that it spans.
    fn piece(&self, at: usize, make: impl FnOnce(Range<u64>) -> Vec<T>) -> &[T] {
        let number = at / PIECE;
        let begin = number * PIECE;
        self.0[number].get_or_init(|| make(begin as u64..(begin + PIECE).min(PERIOD) as u64))
    }
}

/// A number for each element of the period.
pub(crate) struct Numbers {
    pieces: Pieces<Number>,
    value: Box<dyn Fn(u64) -> Number + Send + Sync>,
}

impl Numbers {
    pub(crate) fn new(value: impl Fn(u64) -> Number + Send + Sync + 'static) -> Self {
        Self { pieces: Pieces::new(), value: Box::new(value) }
    }

    /// The number at this element of the period.
    pub(crate) fn at(&self, index: u64) -> Number {
        let index = index as usize;
        self.pieces.piece(index, |range| range.map(&self.value).collect())[index % PIECE]
    }
}

/// The elements of one period, as bytes.
pub(crate) struct PeriodTable {
    dtype: Dtype,
    pieces: Pieces<u8>,
    value: Box<dyn Fn(u64) -> Number + Send + Sync>,
    /// The whole period in memory of the rank's GPU, once a buffer there was filled or compared.
    on_gpu: OnceLock<Slice>,
}

impl PeriodTable {
    /// The table of these values.
    pub(crate) fn new(dtype: Dtype, value: impl Fn(u64) -> Number + Send + Sync + 'static) -> Self {
        Self { dtype, pieces: Pieces::new(), value: Box::new(value), on_gpu: OnceLock::new() }
    }

    /// The whole period in memory of this GPU, which is the only one that the rank has.
    ///
    /// # Errors
    /// What the driver says.
    pub(crate) fn on(&self, gpu: &Arc<Gpu>) -> device::cuda::Result<&Slice> {
        if let Some(there) = self.on_gpu.get() {
            return Ok(there);
        }
        let bytes = self.bytes();
        let copy = Region::cuda(gpu, bytes.len())?.whole();
        copy.write(&bytes)?;
        Ok(self.on_gpu.get_or_init(|| copy))
    }

    /// Bytes of an element.
    pub(crate) fn element(&self) -> usize {
        self.dtype.bytes() as usize
    }

    /// The bytes from element `at` of the period to the end of its piece: never empty.
    pub(crate) fn read(&self, at: usize) -> &[u8] {
        let encode = |range: Range<u64>| {
            let mut bytes = Vec::with_capacity((range.end - range.start) as usize * self.element());
            range.for_each(|index| (self.value)(index).encode(self.dtype, &mut bytes));
            bytes
        };
        &self.pieces.piece(at, encode)[at % PIECE * self.element()..]
    }

    /// The whole period.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        (0..PERIOD).step_by(PIECE).flat_map(|at| self.read(at).to_vec()).collect()
    }
}

impl fmt::Debug for PeriodTable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Table").field("dtype", &self.dtype).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_table_computes_what_is_read_and_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let table = PeriodTable::new(Dtype::I32, move |index| {
            counter.fetch_add(1, Ordering::Relaxed);
            Number::Whole(index as i64 * 3)
        });
        let at = |element: usize| i32::from_ne_bytes(table.read(element)[..4].try_into().unwrap());
        assert_eq!((at(5), at(6), at(PIECE - 1)), (15, 18, 3 * (PIECE as i32 - 1)));
        assert_eq!(asked.load(Ordering::Relaxed), PIECE, "one piece, computed once");
        assert_eq!(at(PERIOD - 1), 3 * (PERIOD as i32 - 1));
        assert_eq!(table.read(PERIOD - 1).len(), 4, "a read ends with the period");
        assert_eq!(table.bytes().len(), PERIOD * 4);
        assert_eq!(asked.load(Ordering::Relaxed), PERIOD);
    }
}
