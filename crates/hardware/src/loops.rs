//! The loops over arrays: in the widest vectors of the processor, with plain stores, as a C compiler makes STREAM's.

use std::hint::black_box;

use super::fields::Test;

/// STREAM's factor.
pub(super) const FACTOR: f64 = 3.0;

/// A thread's part of the arrays. A loop over two arrays has no `b`, but for `reduce_broadcast`, which has no `c`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayPart {
    pub(super) a: *mut f64,
    pub(super) b: *mut f64,
    pub(super) c: *mut f64,
    pub(super) len: usize,
}

/// Runs a loop over its arrays, `passes` times.
///
/// # Safety
/// The arrays that the loop has are valid for `len` elements, do not overlap, and nobody else uses them meanwhile.
pub(super) unsafe fn run(test: Test, part: ArrayPart, passes: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions; the rest is the caller's.
            return unsafe { avx512(test, part, passes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2(test, part, passes) };
        }
    }
    // SAFETY: the caller's.
    unsafe { plain(test, part, passes) }
}

macro_rules! instance {
    ($name:ident, $(#[$attribute:meta])*) => {
        /// # Safety
        /// As [`run`]; the processor has the instructions.
        $(#[$attribute])*
        unsafe fn $name(test: Test, part: ArrayPart, passes: u32) {
            for _ in 0..passes {
                // Opaque, so that no pass is left out because the one before it did the same.
                let ArrayPart { a, b, c, len } = black_box(part);
                // SAFETY: the caller's.
                unsafe {
                    match test {
                        Test::Copy => (0..len).for_each(|i| *c.add(i) = *a.add(i)),
                        Test::Scale => (0..len).for_each(|i| *c.add(i) = FACTOR * *a.add(i)),
                        Test::Add => (0..len).for_each(|i| *c.add(i) = *a.add(i) + *b.add(i)),
                        Test::Triad => (0..len).for_each(|i| *c.add(i) = *a.add(i) + FACTOR * *b.add(i)),
                        Test::ReduceBroadcast => (0..len).for_each(|i| {
                            let mean = 0.5 * (*a.add(i) + *b.add(i));
                            *a.add(i) = mean;
                            *b.add(i) = mean;
                        }),
                        _ => {}
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instance!(avx512, #[target_feature(enable = "avx512f,fma")]);
#[cfg(target_arch = "x86_64")]
instance!(avx2, #[target_feature(enable = "avx2,fma")]);
instance!(plain,);
