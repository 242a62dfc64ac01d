//! Kernels over the rows of matrices in device memory: filling and comparing with tables of values, adding, gathering, combining, and
//! the softmax of attention.

use std::sync::{Arc, Mutex, PoisonError};

use device::cuda::{Argument, Gpu, Kernel, Stream, Threads};
use device::{Region, Slice};
use terms::{Dtype, Named};

use super::ProductError;
use crate::cuda::error::Result;

/// kernels/rows.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const ROWS: &str = include_str!("../../kernels/rows.ptx");

/// Element types that rows are filled with, and those that are also added and combined.
const TYPES: [Dtype; 7] = [Dtype::F64, Dtype::F32, Dtype::Bf16, Dtype::F16, Dtype::F8E4M3, Dtype::I8, Dtype::I32];
const FLOATS: usize = 4;
/// Bytes of words that rows are gathered in.
const WORDS: [usize; 3] = [2, 4, 8];

/// How many wrong elements a kernel keeps the indices of.
const KEPT: usize = 8;
/// `FoundRows` of rows.cu: a count, how many were kept (and as much unused), their indices.
const FOUND_BYTES: usize = 16 + 8 * KEPT;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Elements that differ.
    pub wrong: u64,
    /// Indices of some of them, ascending.
    pub first: Vec<u64>,
}

/// A row-major matrix whose rows repeat values of a table: element (r, c) is `values[base(r) + (start(r) + step c) % period]`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// Whole rows.
    pub at: &'a Slice,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Elements of a row.
    pub columns: usize,
    /// f64, on the device.
    pub values: &'a Slice,
    /// Base and start of each row, as pairs of u32, on the device: [`Rows::lines`].
    pub lines: &'a Slice,
    /// How far the place moves from column to column.
    pub step: usize,
    /// Where it begins again.
    pub period: usize,
}

/// The kernels, loaded on a device.
#[derive(Debug)]
pub struct Rows {
    gpu: Arc<Gpu>,
    fill: [Kernel; 7],
    compare: [Kernel; 7],
    add: [Kernel; FLOATS],
    combine: [Kernel; FLOATS],
    gather: [Kernel; 3],
    attention: [Kernel; 3],
    found: Mutex<Option<Slice>>,
}

fn refused<T>(what: String) -> Result<T> {
    Err(ProductError::Refused(what))
}

fn word(slice: &Slice) -> Argument {
    Argument::Word(slice.address() as u64)
}

fn half(number: usize) -> Result<Argument> {
    u32::try_from(number).map(Argument::Half).or_else(|_| refused(format!("{number} is past 32 bits")))
}

/// Refuses less memory than a kernel goes through.
fn holds(slice: &Slice, bytes: usize, what: &str) -> Result<()> {
    let reached = slice.gpu().is_some() || slice.region().reaching().is_some();
    match reached && slice.len() >= bytes {
        true => Ok(()),
        false => {
            refused(format!("{what}: {} bytes of {:?}, where {bytes} are needed", slice.len(), slice.region().space()))
        }
    }
}

impl Rows {
    /// Loads them.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Self> {
        fn load_kernels<const N: usize>(gpu: &Arc<Gpu>, names: [String; N]) -> Result<[Kernel; N]> {
            let borrowed: [&str; N] = std::array::from_fn(|place| names[place].as_str());
            Ok(gpu.load(ROWS, borrowed)?)
        }
        let typed = |what: &str, place: usize| format!("{what}_rows_{}", TYPES[place].name());
        Ok(Self {
            gpu: gpu.clone(),
            fill: load_kernels(gpu, std::array::from_fn(|place| typed("fill", place)))?,
            compare: load_kernels(gpu, std::array::from_fn(|place| typed("compare", place)))?,
            add: load_kernels(gpu, std::array::from_fn(|place| typed("add", place)))?,
            combine: load_kernels(gpu, std::array::from_fn(|place| typed("combine", place)))?,
            gather: load_kernels(gpu, WORDS.map(|bytes| format!("gather_rows_{}", 8 * bytes)))?,
            attention: load_kernels(gpu, ["weigh", "scale_rows", "begin_states"].map(str::to_owned))?,
            found: Mutex::default(),
        })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Brings numbers to the device: the values of a table, weights.
    ///
    /// # Errors
    /// What the driver says.
    pub fn values(&self, values: &[f64]) -> Result<Slice> {
        self.upload(values.iter().flat_map(|value| value.to_ne_bytes()).collect())
    }

    /// Brings the base and the start of each row to the device.
    ///
    /// # Errors
    /// What the driver says; refused past 32 bits.
    pub fn lines(&self, lines: impl Iterator<Item = (usize, usize)>) -> Result<Slice> {
        let mut bytes = Vec::new();
        for (base, start) in lines {
            for number in [base, start] {
                let number = u32::try_from(number).or_else(|_| refused(format!("{number} is past 32 bits")))?;
                bytes.extend(number.to_ne_bytes());
            }
        }
        self.upload(bytes)
    }

    /// Brings numbers of rows to the device.
    ///
    /// # Errors
    /// As [`Rows::lines`].
    pub fn places(&self, places: impl Iterator<Item = usize>) -> Result<Slice> {
        let mut bytes = Vec::new();
        for place in places {
            let place = u32::try_from(place).or_else(|_| refused(format!("row {place} is past 32 bits")))?;
            bytes.extend(place.to_ne_bytes());
        }
        self.upload(bytes)
    }

    fn upload(&self, bytes: Vec<u8>) -> Result<Slice> {
        let slice = Region::cuda(&self.gpu, bytes.len())?.whole();
        slice.write(&bytes)?;
        Ok(slice)
    }

    /// The kernel for a type, and the arguments that filling and comparing begin with.
    fn arguments(&self, matrix: &Matrix<'_>) -> Result<(usize, u64, Vec<Argument>)> {
        let Matrix { at, dtype, columns, values, lines, step, period } = *matrix;
        let bytes = dtype.bytes() as usize;
        let Some(place) = TYPES.iter().position(|known| *known == dtype) else {
            return refused(format!("no kernel fills rows of {dtype}"));
        };
        let rows = at.len() / (columns * bytes).max(1);
        if columns == 0 || period == 0 || rows * columns * bytes != at.len() {
            return refused(format!("{} bytes are not rows of {columns} elements of {dtype}", at.len()));
        }
        holds(at, 0, "rows")?;
        holds(values, 8 * period, "values")?;
        holds(lines, 8 * rows, "lines")?;
        let numbers = [half(columns)?, half(step)?, half(period)?];
        let arguments = [&[word(at), word(values), word(lines), Argument::Word(rows as u64)], &numbers[..]].concat();
        Ok((place, (rows * columns) as u64, arguments))
    }

    /// Fills rows, in the order of the device's stream. Bases and values must fit: the kernel reads `base + period` values.
    ///
    /// # Errors
    /// What the driver says; refused for buffers that are too short.
    pub fn fill(&self, matrix: &Matrix<'_>) -> Result<()> {
        let (place, count, mut arguments) = self.arguments(matrix)?;
        // SAFETY: the kernel writes so many elements, which the slice holds, and reads a line of each row.
        unsafe { self.launch(&self.fill[place], count, &mut arguments, None) }
    }

    /// Compares rows, in the order of the device's stream, with elements that may be off by so much; NaN is wrong.
    ///
    /// # Errors
    /// As [`Rows::fill`].
    pub fn compare(&self, matrix: &Matrix<'_>, tolerance: f64) -> Result<Found> {
        let (place, count, arguments) = self.arguments(matrix)?;
        if count == 0 {
            return Ok(Found::default());
        }
        let mut kept = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match &*kept {
            Some(found) => found.clone(),
            None => kept.insert(Region::cuda(&self.gpu, FOUND_BYTES)?.whole()).clone(),
        };
        found.set(0)?;
        let mut arguments = [&arguments[..], &[Argument::Word(tolerance.to_bits()), word(&found)]].concat();
        // SAFETY: as in `fill`; what is found has the room that `FoundRows` of rows.cu takes.
        unsafe { self.launch(&self.compare[place], count, &mut arguments, None)? };
        let mut bytes = [0; FOUND_BYTES];
        found.read(&mut bytes)?;
        let word_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let count = (word_at(8) & 0xffff_ffff).min(KEPT as u64) as usize;
        let mut first: Vec<u64> = (0..count).map(|i| word_at(16 + 8 * i)).collect();
        first.sort_unstable();
        Ok(Found { wrong: word_at(0), first })
    }

    fn float(dtype: Dtype) -> Result<usize> {
        let known = TYPES[..FLOATS].iter().position(|known| *known == dtype);
        known.map_or_else(|| refused(format!("no kernel adds {dtype}")), Ok)
    }

    /// `to += from`, on a stream.
    ///
    /// # Errors
    /// As [`Rows::fill`].
    pub fn add(&self, dtype: Dtype, from: &Slice, to: &Slice, beside: Option<&Stream>) -> Result<()> {
        let kernel = &self.add[Self::float(dtype)?];
        holds(from, to.len(), "terms")?;
        holds(to, 0, "sums")?;
        let count = to.len() as u64 / dtype.bytes();
        // SAFETY: both hold so many elements.
        unsafe { self.launch(kernel, count, &mut [word(to), word(from), Argument::Word(count)], beside) }
    }

    /// Row i of `to` = row `index[i]` of `from`, of so many bytes each, on a stream.
    ///
    /// # Errors
    /// As [`Rows::fill`]; refused for rows of an odd number of bytes. The caller's indices must lie in `from`.
    pub fn gather(&self, bytes: usize, [from, index, to]: [&Slice; 3], beside: Option<&Stream>) -> Result<()> {
        let Some(place) = WORDS.iter().rposition(|word| bytes.is_multiple_of(*word)) else {
            return refused(format!("rows of {bytes} bytes"));
        };
        let rows = to.len() / bytes.max(1);
        holds(index, 4 * rows, "index")?;
        [(from, "rows"), (to, "rows")].into_iter().try_for_each(|(slice, what)| holds(slice, 0, what))?;
        let words = bytes / WORDS[place];
        let mut arguments = [word(to), word(from), word(index), Argument::Word(rows as u64), half(words)?];
        // SAFETY: `to` holds so many rows, `index` as many numbers; rows of `from` are the caller's promise.
        unsafe { self.launch(&self.gather[place], (rows * words) as u64, &mut arguments, beside) }
    }

    /// Row `targets[i]` of `to` = the sum of the `each` rows of `from` from `places[i * each]` on, each times its weight, on a stream.
    ///
    /// # Errors
    /// As [`Rows::gather`]. The caller's targets must lie in `to`.
    pub fn combine(
        &self,
        (dtype, columns, each): (Dtype, usize, usize),
        [from, targets, places, weights, to]: [&Slice; 5],
        beside: Option<&Stream>,
    ) -> Result<()> {
        let kernel = &self.combine[Self::float(dtype)?];
        let rows = targets.len() / 4;
        holds(places, 4 * rows * each, "places")?;
        holds(weights, 8 * rows * each, "weights")?;
        [(from, "rows"), (to, "rows"), (targets, "targets")]
            .into_iter()
            .try_for_each(|(slice, what)| holds(slice, 0, what))?;
        let sizes = [Argument::Word(rows as u64), half(columns)?, half(each)?];
        let mut arguments = [&[word(to), word(from), word(targets), word(places), word(weights)], &sizes[..]].concat();
        // SAFETY: as in `gather`; rows of `to` too are the caller's promise.
        unsafe { self.launch(kernel, (rows * columns) as u64, &mut arguments, beside) }
    }

    /// No query has seen a key: of each, its largest score and the sum of its weights.
    ///
    /// # Errors
    /// As [`Rows::fill`].
    pub fn begin_states(&self, states: &Slice, beside: Option<&Stream>) -> Result<()> {
        holds(states, 0, "states")?;
        let queries = states.len() as u64 / 8;
        // SAFETY: two f32 for each query.
        unsafe { self.launch(&self.attention[2], queries, &mut [word(states), Argument::Word(queries)], beside) }
    }

    /// Turns scores `[heads, keys, queries]` of f32 into weights relative to the largest score so far, and says in `kept` what is left of
    /// the weights before.
    ///
    /// # Errors
    /// As [`Rows::fill`].
    pub fn weigh(
        &self,
        [heads, queries, keys]: [usize; 3],
        scale: f32,
        [scores, states, kept]: [&Slice; 3],
        beside: Option<&Stream>,
    ) -> Result<()> {
        let count = heads * queries;
        holds(scores, 4 * count * keys, "scores")?;
        holds(states, 8 * count, "states")?;
        holds(kept, 4 * count, "factors")?;
        let sizes = [Argument::Word(heads as u64), half(queries)?, half(keys)?, Argument::Half(scale.to_bits())];
        let mut arguments = [&[word(scores), word(states), word(kept)], &sizes[..]].concat();
        // SAFETY: all hold what the kernel goes through.
        unsafe { self.launch(&self.attention[0], count as u64, &mut arguments, beside) }
    }

    /// Multiplies each row of f32 by its factor; `divides`: by one over the sum of weights in its state.
    ///
    /// # Errors
    /// As [`Rows::fill`].
    pub fn scale(
        &self,
        columns: usize,
        divides: bool,
        [rows, factors]: [&Slice; 2],
        beside: Option<&Stream>,
    ) -> Result<()> {
        let count = rows.len() / (4 * columns).max(1);
        holds(rows, 0, "rows")?;
        holds(factors, if divides { 8 } else { 4 } * count, "factors")?;
        let sizes = [Argument::Word(count as u64), half(columns)?, Argument::Half(u32::from(divides))];
        let mut arguments = [&[word(rows), word(factors)], &sizes[..]].concat();
        // SAFETY: as in `weigh`.
        unsafe { self.launch(&self.attention[1], (count * columns) as u64, &mut arguments, beside) }
    }

    /// # Safety
    /// As [`Gpu::launch`].
    unsafe fn launch(
        &self,
        kernel: &Kernel,
        count: u64,
        arguments: &mut [Argument],
        beside: Option<&Stream>,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the caller's.
        Ok(unsafe { self.gpu.launch(kernel, Threads::Elements(count), arguments, beside) }?)
    }
}
