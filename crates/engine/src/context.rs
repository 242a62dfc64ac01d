//! What kernels run with: threads, scratch memory, and the few numbers that change from step to step.

use std::cell::UnsafeCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::cores::run_on;

/// The threads of a rank. With one, everything runs on the caller.
pub struct Threads {
    pool: Option<rayon::ThreadPool>,
    count: usize,
}

impl Threads {
    /// `count` threads, pinned to these cores in turn if there are any: thread 0 to the first.
    ///
    /// # Errors
    /// When the system does not give them.
    pub fn new(count: usize, cores: &[u32]) -> Result<Self, crate::Error> {
        let count = count.max(1);
        if count == 1 {
            return Ok(Self { pool: None, count });
        }
        let cores = cores.to_vec();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(|index| format!("engine-{index}"))
            .start_handler(move |index| run_on(cores.get(index % cores.len().max(1)).copied().as_slice()))
            .build()
            .map_err(|error| crate::Error::Threads { count, message: error.to_string() })?;
        Ok(Self { pool: Some(pool), count })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` inside the pool, so that what it splits runs there. Whole steps run in one call.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

/// A line of the cache, and aligned as one: a vector that lies across two lines takes twice as long to load.
#[repr(align(64))]
struct CacheLine(#[expect(dead_code, reason = "memory only")] [u64; 8]);

/// Temporary memory of the parts of one operation: `parts` areas of equal size, kept from step to step.
pub struct Scratch {
    /// In lines.
    area: usize,
    memory: Vec<UnsafeCell<CacheLine>>,
}

// SAFETY: areas are handed out by part, and a part runs on one thread (see `Context::area`).
unsafe impl Sync for Scratch {}

impl Scratch {
    /// `parts` areas of at least `bytes` each.
    pub fn new(parts: usize, bytes: usize) -> Self {
        let area = bytes.div_ceil(64);
        Self { area, memory: (0..parts * area).map(|_| UnsafeCell::new(CacheLine([0; 8]))).collect() }
    }

    /// Bytes of one area.
    pub fn bytes(&self) -> usize {
        self.area * 64
    }
}

/// The numbers that change from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// From 1: AdamW's bias correction and dropout count with it.
    pub number: u64,
    /// Seed of dropout.
    pub seed: u64,
}

terms::named! {
    /// How products of f32 are computed. Names as in XLA's dot algorithms.
    pub enum Matmul("matmul algorithm") {
        /// The fastest that this CPU has.
        Auto = "auto",
        /// By fused multiply-additions of f32.
        Fma = "fma",
        /// As six products of bf16, added up in f32, on AMX: as exact as `fma`, but for the ends of the range.
        Bf16x6 = "bf16x6",
    }
}

/// What an operation runs with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// How many threads the surrounding pool has.
    pub threads: usize,
    /// Temporary memory.
    pub scratch: &'a Scratch,
    /// Numbers of this step.
    pub step: Step,
    /// How products of f32 are computed.
    pub matmul: Matmul,
}

impl Context<'_> {
    /// Runs `work(part, range)` for consecutive ranges that cover `0..items`, at most one a thread, each a multiple of
    /// `grain` items long but for the last. Few items run on the calling thread. Parts count from 0.
    pub fn split(&self, items: usize, grain: usize, work: impl Fn(usize, Range<usize>) + Sync) {
        self.split_by(items, grain, &work);
    }

    /// Not generic, so that rayon's part of it is compiled once and not for each kernel and type.
    fn split_by(&self, items: usize, grain: usize, work: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let grains = items.div_ceil(grain.max(1));
        let parts = self.threads.min(grains).max(1);
        if parts == 1 {
            return work(0, 0..items);
        }
        let each = grains.div_ceil(parts) * grain.max(1);
        (0..parts).into_par_iter().with_max_len(1).for_each(|part| {
            let range = (part * each).min(items)..((part + 1) * each).min(items);
            if !range.is_empty() {
                work(part, range);
            }
        });
    }

    /// `len` elements of scratch for part `part` of the running operation; what they hold is undefined.
    ///
    /// # Safety
    /// One thread at a time uses a part's area, and takes it once.
    ///
    /// # Panics
    /// When the area is smaller: [`crate::scratch_bytes`] must know of every use.
    #[expect(clippy::mut_from_ref, reason = "areas are disjoint by part")]
    pub unsafe fn area<E: crate::Element>(&self, part: usize, len: usize) -> &mut [E] {
        let bytes = len * size_of::<E>();
        assert!(bytes <= self.scratch.bytes(), "{bytes} bytes of scratch asked for, {} there", self.scratch.bytes());
        let first = self.scratch.memory[part * self.scratch.area..(part + 1) * self.scratch.area].as_ptr();
        // SAFETY: inside the area, aligned as a line is, any bits are an E; disjoint by part, which is the caller's.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(first).cast::<E>(), len) }
    }
}
