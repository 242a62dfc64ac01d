//! The kernels that fill and compare buffers where they lie.

use std::sync::{Arc, Mutex, PoisonError};

use super::module::{Argument, Kernel, Threads, load};
use super::{CudaError, Gpu, Result};
use crate::{Region, Slice};

/// kernels/check.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const CHECK: &str = include_str!("../../kernels/check.ptx");

/// How many wrong elements a kernel keeps the indices of.
const KEPT: usize = 8;
/// `Found` of check.cu: a count, how many were kept (and as much unused), their indices.
const FOUND_BYTES: usize = 16 + 8 * KEPT;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Elements that differ.
    pub wrong: u64,
    /// Indices of some of them, ascending.
    pub first: Vec<u64>,
}

/// Widths of elements, in bytes, that there are kernels for.
const WIDTHS: [usize; 4] = [1, 2, 4, 8];

/// The kernels, loaded on a device, and the place for what they find.
#[derive(Debug)]
pub(super) struct Kernels {
    fill: [Kernel; 4],
    compare: [Kernel; 4],
    found: Mutex<Option<Arc<Region>>>,
}

impl Kernels {
    pub(super) fn load(gpu: &Gpu) -> Result<Self> {
        let [fill_8, fill_16, fill_32, fill_64, compare_8, compare_16, compare_32, compare_64] = load(
            gpu,
            CHECK,
            ["fill_8", "fill_16", "fill_32", "fill_64", "compare_8", "compare_16", "compare_32", "compare_64"],
        )?;
        Ok(Self {
            fill: [fill_8, fill_16, fill_32, fill_64],
            compare: [compare_8, compare_16, compare_32, compare_64],
            found: Mutex::default(),
        })
    }
}

/// Which of [`WIDTHS`] an element is.
fn width(element: usize) -> Result<usize> {
    let known = WIDTHS.iter().position(|width| *width == element);
    known.ok_or_else(|| CudaError::refused("a kernel", format!("there is none for elements of {element} bytes")))
}

/// A sequence of elements that repeats, in device memory.
#[derive(Clone, Copy, Debug)]
pub struct Repeated<'a> {
    /// One period.
    pub table: &'a Slice,
    /// Bytes of an element.
    pub element: usize,
    /// The element that it begins with.
    pub phase: usize,
}

impl Repeated<'_> {
    /// `[elements, period, phase]` for a buffer of these bytes.
    fn numbers(&self, bytes: usize) -> Result<[u64; 3]> {
        let period = self.table.len() / self.element.max(1);
        if period == 0 || self.phase >= period || !bytes.is_multiple_of(self.element) {
            let said = format!("{bytes} bytes of {} each from element {} of {period}", self.element, self.phase);
            return Err(CudaError::refused("a kernel", said));
        }
        Ok([(bytes / self.element) as u64, period as u64, self.phase as u64])
    }
}

impl Slice {
    /// The arguments that all kernels begin with.
    fn arguments(&self, table: &Slice, [count, period, phase]: [u64; 3]) -> [Argument; 5] {
        let [own, table] = [self, table].map(|slice| Argument::Word(slice.address() as u64));
        [own, table, Argument::Word(count), Argument::Half(period as u32), Argument::Half(phase as u32)]
    }

    /// Fills device memory with a sequence, in the stream's order.
    ///
    /// # Errors
    /// What the driver says; refused for memory of the host, and for lengths that are not of whole elements.
    pub fn fill(&self, with: Repeated<'_>) -> Result<()> {
        let gpu = self.on_device("fill")?;
        with.table.on_device("fill")?;
        let (numbers, width) = (with.numbers(self.len())?, width(with.element)?);
        let [count, ..] = numbers;
        if count == 0 {
            return Ok(());
        }
        let mut arguments = self.arguments(with.table, numbers);
        // SAFETY: the kernel writes `count` elements, which the slice holds, and reads a period, which the table holds.
        unsafe { gpu.launch(&gpu.kernels()?.fill[width], Threads::Elements(count), &mut arguments, None) }
    }

    /// Compares device memory with a sequence, bit by bit, after all that the stream was given before.
    ///
    /// # Errors
    /// As [`Slice::fill`].
    pub fn compare(&self, with: Repeated<'_>) -> Result<Found> {
        let gpu = self.on_device("compare")?;
        with.table.on_device("compare")?;
        let (numbers, width) = (with.numbers(self.len())?, width(with.element)?);
        let [count, ..] = numbers;
        if count == 0 {
            return Ok(Found::default());
        }
        let kernels = gpu.kernels()?;
        let mut place = kernels.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match &*place {
            Some(found) => found.clone(),
            None => place.insert(Region::cuda(gpu, FOUND_BYTES)?).clone(),
        }
        .whole();
        found.set(0)?;
        let place_of_found = Argument::Word(found.address() as u64);
        let mut arguments = [&self.arguments(with.table, numbers)[..], &[place_of_found]].concat();
        // SAFETY: the kernel reads `count` elements, which the slice holds, and a period, which the table holds; what it found
        // has the room that `Found` of check.cu takes.
        unsafe { gpu.launch(&kernels.compare[width], Threads::Elements(count), &mut arguments, None)? };
        let mut bytes = [0; FOUND_BYTES];
        found.read(&mut bytes)?;
        Ok(of_bytes(&bytes))
    }
}

fn of_bytes(bytes: &[u8; FOUND_BYTES]) -> Found {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    // The count of those kept and its unused neighbour are one little-endian word.
    let kept = (word(8) & 0xffff_ffff).min(KEPT as u64) as usize;
    let mut first: Vec<u64> = (0..kept).map(|i| word(16 + 8 * i)).collect();
    first.sort_unstable();
    Found { wrong: word(0), first }
}
