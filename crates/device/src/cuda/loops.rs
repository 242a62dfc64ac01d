//! Loops over device memory, the chain that is followed from word to word, and multiplications in registers.

use std::sync::Arc;

use super::module::{Argument, Kernel, Threads};
use super::{CudaError, Gpu, Pinned, Result};
use crate::Slice;

/// kernels/loops.cu, compiled for sm_70 in ISA 7.8 (`cargo xtask ptx`).
pub const LOOPS: &str = include_str!("../../kernels/loops.ptx");

/// A loop of STREAM over f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// c = a.
    Copy,
    /// c = 3 a.
    Scale,
    /// c = a + b.
    Add,
    /// c = a + 3 b.
    Triad,
}

/// The kernels, loaded on a device.
#[derive(Debug)]
pub struct Loops {
    gpu: Arc<Gpu>,
    kernels: [Kernel; 7],
}

impl Loops {
    /// Loads them.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Self> {
        let names = ["loop_copy", "loop_scale", "loop_add", "loop_triad", "chase", "fma_32", "fma_64"];
        let kernels = gpu.load(LOOPS, names)?;
        Ok(Self { gpu: gpu.clone(), kernels })
    }

    /// Gives a loop to the device's stream. `b` is read by [`Loop::Add`] and [`Loop::Triad`].
    ///
    /// # Errors
    /// What the driver says; refused where an array is not this device's memory, not aligned to 16 bytes, or shorter than `c`.
    pub fn run(&self, which: Loop, [a, b, c]: [&Slice; 3]) -> Result<()> {
        let count = c.len() / 8;
        let reads: &[&Slice] = if matches!(which, Loop::Add | Loop::Triad) { &[a, b] } else { &[a] };
        for array in reads.iter().chain(&[c]) {
            let own = array.on_device("a loop")?;
            if !Arc::ptr_eq(own, &self.gpu) || !array.address().is_multiple_of(16) || array.len() < 8 * count {
                return Err(CudaError::refused("a loop", "an array of another device, place or length"));
            }
        }
        if count == 0 {
            return Ok(());
        }
        let mut arguments: Vec<Argument> =
            reads.iter().chain(&[c]).map(|array| Argument::Word(array.address() as u64)).collect();
        arguments.push(Argument::Word(count as u64));
        // SAFETY: each array holds `count` elements.
        unsafe {
            self.gpu.launch(
                &self.kernels[which as usize],
                Threads::Elements(count.div_ceil(2) as u64),
                &mut arguments,
                None,
            )
        }
    }

    /// Gives the stream one thread that follows a chain of words for so many steps, from its first on: each says which comes
    /// next. `end` then has the number of the last.
    ///
    /// # Errors
    /// What the driver says; refused where the chain is neither pinned nor device memory, or `end` is not a word of the device.
    pub fn chase(&self, chain: &Slice, steps: u64, end: &Slice) -> Result<()> {
        let reached = chain.gpu().is_some() || chain.region().owner::<Pinned>().is_some();
        end.on_device("chase")?;
        if !reached || end.len() < 8 || !chain.address().is_multiple_of(8) || !end.address().is_multiple_of(8) {
            return Err(CudaError::refused("chase", "memory that the device does not reach, or too little"));
        }
        let [chain_at, end_at] = [chain, end].map(|slice| Argument::Word(slice.address() as u64));
        let mut arguments = [chain_at, Argument::Word((chain.len() / 8) as u64), Argument::Word(steps), end_at];
        // SAFETY: the kernel reads words of the chain only, and writes one word.
        unsafe { self.gpu.launch(&self.kernels[4], Threads::One, &mut arguments, None) }
    }

    /// Gives the stream a thread for each element of `sums`, f32 or f64 (`bytes` of each): 8 chains of so many fused multiplications and
    /// additions, whose sum it leaves. What that is, depends on the element's number modulo 64: [`chains_f32`], [`chains_f64`].
    ///
    /// # Errors
    /// What the driver says; refused where the elements are not this device's memory.
    pub fn multiply_add(&self, bytes: usize, sums: &Slice, rounds: u32) -> Result<()> {
        let own = sums.on_device("fma")?;
        let which = match bytes {
            4 => 5,
            8 => 6,
            _ => return Err(CudaError::refused("fma", format!("elements of {bytes} bytes"))),
        };
        if !Arc::ptr_eq(own, &self.gpu) || !sums.address().is_multiple_of(bytes) {
            return Err(CudaError::refused("fma", "sums on another device, or at an odd place"));
        }
        let count = (sums.len() / bytes) as u64;
        let mut arguments = [Argument::Word(sums.address() as u64), Argument::Word(count), Argument::Half(rounds)];
        // SAFETY: the kernel writes so many elements.
        unsafe { self.gpu.launch(&self.kernels[which], Threads::Elements(count), &mut arguments, None) }
    }
}

/// Chains of a thread.
pub const CHAINS: u64 = 8;
/// Sums repeat after so many threads.
pub const REPEATED: usize = 64;

macro_rules! chains {
    ($name:ident, $type:ty) => {
        /// What a thread of this number leaves after so many rounds: the same operations, in the same order.
        pub fn $name(number: usize, rounds: u32) -> $type {
            let one: $type = 1.0;
            let (factor, term) = (one - one / 1024.0, one / 1000.0);
            let begin = |chain: u64| one + (number % REPEATED) as $type / REPEATED as $type + chain as $type / 8.0;
            let end = |chain: u64| (0..rounds).fold(begin(chain), |at, _| at.mul_add(factor, term));
            (0..CHAINS).map(end).fold(0.0, |sum, at| sum + at)
        }
    };
}

chains!(chains_f32, f32);
chains!(chains_f64, f64);
