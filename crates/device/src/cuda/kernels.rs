//! The kernels that fill and compare buffers where they lie.

use std::ffi::{CString, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::Handle;
use super::{CudaError, Gpu, Result};
use crate::{Region, Slice};

/// kernels/check.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const PTX: &str = include_str!("../../kernels/check.ptx");

/// Threads of a block, and blocks at most: enough to keep any device's memory busy; each thread goes on by all of them.
const THREADS: u32 = 256;
const BLOCKS: u64 = 2048;

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
pub(super) struct Kernels {
    fill: [Handle; 4],
    compare: [Handle; 4],
    found: Mutex<Option<Arc<Region>>>,
}

/// An argument of a kernel.
#[derive(Clone, Copy)]
enum Argument {
    Word(u64),
    Half(u32),
}

impl Argument {
    fn bytes(self) -> usize {
        match self {
            Self::Word(_) => 8,
            Self::Half(_) => 4,
        }
    }
}

impl Kernels {
    pub(super) fn load(gpu: &Gpu) -> Result<Self> {
        let functions = &gpu.driver.functions;
        let text = CString::new(PTX).map_err(|_| CudaError::refused("cuModuleLoadData", "a zero byte in the PTX"))?;
        let mut module = ptr::null_mut();
        // SAFETY: as cuda.h declares it: a terminated text of PTX. The module is never unloaded; the context takes it along.
        let loaded = unsafe { (functions.module_load)(&mut module, text.as_ptr().cast()) };
        gpu.driver.succeeded("cuModuleLoadData", loaded)?;
        let of = |name: &str| -> Result<[Handle; 4]> {
            let mut all = [ptr::null_mut(); 4];
            for (function, width) in all.iter_mut().zip(WIDTHS) {
                let name = CString::new(format!("{name}_{}", 8 * width)).unwrap_or_default();
                // SAFETY: as cuda.h declares it; the out-pointer is valid, and the name is a terminated string.
                let found = unsafe { (functions.module_function)(function, module, name.as_ptr()) };
                gpu.driver.succeeded("cuModuleGetFunction", found)?;
            }
            Ok(all)
        };
        Ok(Self { fill: of("fill")?, compare: of("compare")?, found: Mutex::default() })
    }
}

/// Sizes of the parameters of a kernel, from its text.
fn parameters(kernel: &str) -> Vec<usize> {
    let head = format!(".entry {kernel}(");
    let Some(begin) = PTX.find(&head).map(|at| at + head.len()) else { return Vec::new() };
    let list = PTX[begin..].split(')').next().unwrap_or_default();
    list.split(',')
        .filter_map(|each| each.trim().strip_prefix(".param .u")?.split(' ').next()?.parse::<usize>().ok())
        .map(|bits| bits / 8)
        .collect()
}

/// Which of [`WIDTHS`] an element is.
fn width(element: usize) -> Result<usize> {
    let known = WIDTHS.iter().position(|width| *width == element);
    known.ok_or_else(|| CudaError::refused("a kernel", format!("there is none for elements of {element} bytes")))
}

impl Gpu {
    /// Gives a kernel to the stream, after its arguments were compared with its text.
    ///
    /// # Safety
    /// The arguments are what the kernel of this name expects: addresses of device memory of the lengths that it goes through.
    unsafe fn launch(&self, (function, name): (Handle, &str), count: u64, arguments: &mut [Argument]) -> Result<()> {
        let given: Vec<usize> = arguments.iter().map(|argument| argument.bytes()).collect();
        let expected = parameters(name);
        if given != expected {
            return Err(CudaError::refused(
                "cuLaunchKernel",
                format!("{name} takes {expected:?} bytes, not {given:?}"),
            ));
        }
        let blocks = count.div_ceil(u64::from(THREADS)).clamp(1, BLOCKS) as c_uint;
        let mut places: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|argument| match argument {
                Argument::Word(word) => ptr::from_mut(word).cast(),
                Argument::Half(half) => ptr::from_mut(half).cast(),
            })
            .collect();
        // SAFETY: as cuda.h declares it: the driver copies the arguments, whose number and sizes are those of the kernel.
        let launched = unsafe {
            let none = ptr::null_mut();
            (self.driver.functions.launch)(
                function,
                blocks,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                self.stream,
                places.as_mut_ptr(),
                none,
            )
        };
        self.driver.succeeded("cuLaunchKernel", launched)
    }
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
        let name = format!("fill_{}", 8 * with.element);
        let mut arguments = self.arguments(with.table, numbers);
        // SAFETY: the kernel writes `count` elements, which the slice holds, and reads a period, which the table holds.
        unsafe { gpu.launch((gpu.kernels()?.fill[width], &name), count, &mut arguments) }
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
        let name = format!("compare_{}", 8 * with.element);
        let place_of_found = Argument::Word(found.address() as u64);
        let mut arguments = [&self.arguments(with.table, numbers)[..], &[place_of_found]].concat();
        // SAFETY: the kernel reads `count` elements, which the slice holds, and a period, which the table holds; what it found
        // has the room that `Found` of check.cu takes.
        unsafe { gpu.launch((kernels.compare[width], &name), count, &mut arguments)? };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_those_of_the_text() {
        assert_eq!(parameters("fill_8"), [8, 8, 8, 4, 4]);
        assert_eq!(parameters("compare_64"), [8, 8, 8, 4, 4, 8]);
        assert_eq!(parameters("no_such_kernel"), []);
        for width in WIDTHS {
            assert_eq!(parameters(&format!("fill_{}", 8 * width)).len(), 5);
        }
    }

    #[test]
    fn the_text_runs_on_old_drivers_and_devices() {
        assert!(PTX.contains(".version 7.8\n") && PTX.contains(".target sm_70\n"));
    }
}
