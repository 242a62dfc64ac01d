//! Loops in several versions: each kernel is written once, plainly, and compiled for AVX-512, for AVX2 with FMA, and
//! for what every processor of the target has. The version is chosen when the kernel is called.
//!
//! Loops are left to the compiler to vectorise, instead of intrinsics for each set: what it needs is that sums go into
//! arrays of lanes ([`lanes`]), that nothing branches ([`Real`] has such functions), and that memory which may overlap
//! is staged through local blocks ([`Raw`]).

pub(crate) mod lanes;
mod math;
mod number;
mod raw;

use std::cell::Cell;

pub(crate) use math::Real;
pub use math::{evaluate, normal};
pub use number::Number;
pub(crate) use raw::Raw;

/// Which version of kernels runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
    /// AVX2 and FMA.
    Avx2,
    /// Whatever the target guarantees.
    Portable,
}

/// What a kernel's body may assume of the version that it is compiled for.
pub(crate) trait Isa: Copy {
    /// Whether a fused multiply-add is one instruction. Elsewhere it would be a call of the C library.
    const FUSED: bool;

    /// `a b + c`, rounded once where that is one instruction.
    #[inline(always)]
    fn fma<T: Real>(a: T, b: T, c: T) -> T {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }
}

/// See [`Level::Avx512`].
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "versions of x86-64"))]
pub(crate) struct Avx512;

/// See [`Level::Avx2`].
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "versions of x86-64"))]
pub(crate) struct Avx2;

/// See [`Level::Portable`].
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Isa for Avx512 {
    const FUSED: bool = true;
}

impl Isa for Avx2 {
    const FUSED: bool = true;
}

impl Isa for Portable {
    const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
}

/// What this processor can do.
fn detect() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        // All that `versions` enables: a version runs only where each of them is there.
        if !(is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi2"))
        {
            return Level::Portable;
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            return Level::Avx512;
        }
        Level::Avx2
    }
    #[cfg(not(target_arch = "x86_64"))]
    Level::Portable
}

thread_local! {
    /// What [`level`] found. Of a thread, so that [`at_level`] changes no other's.
    static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
}

/// Runs `work` with kernels of this version on this thread, to compare versions; None if the processor lacks it.
pub fn at_level<R>(level: Level, work: impl FnOnce() -> R) -> Option<R> {
    let able = match detect() {
        Level::Avx512 => true,
        Level::Avx2 => level != Level::Avx512,
        Level::Portable => level == Level::Portable,
    };
    able.then(|| {
        let before = LEVEL.replace(Some(level));
        let result = work();
        LEVEL.set(before);
        result
    })
}

/// The version that kernels run in.
#[inline]
pub(crate) fn level() -> Level {
    LEVEL.get().unwrap_or_else(|| {
        let found = detect();
        LEVEL.set(Some(found));
        found
    })
}

/// Makes a function of a body that is generic over the instruction set, compiled once for each [`Level`] and called by
/// [`level`]: `versions! { fn name<I, E: Number>(x: &[E]) -> E::Wide { ... } }`. The first parameter names the set
/// ([`Isa`]) in the body and is not given by callers. Code called from the body must be `#[inline(always)]`, or it is
/// compiled for the plain target.
macro_rules! versions {
    ($(#[$note:meta])* $visibility:vis fn $name:ident<$isa:ident $(, $parameter:ident: $bound:path)*>(
        $($argument:ident: $type:ty),* $(,)?
    ) $(-> $output:ty)? $body:block) => {
        $(#[$note])*
        $visibility fn $name<$($parameter: $bound),*>($($argument: $type),*) $(-> $output)? {
            #[inline(always)]
            fn body<$isa: $crate::kernels::simd::Isa $(, $parameter: $bound)*>(
                $($argument: $type),*
            ) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
            fn avx512<$($parameter: $bound),*>($($argument: $type),*) $(-> $output)? {
                body::<$crate::kernels::simd::Avx512 $(, $parameter)*>($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi2")]
            fn avx2<$($parameter: $bound),*>($($argument: $type),*) $(-> $output)? {
                body::<$crate::kernels::simd::Avx2 $(, $parameter)*>($($argument),*)
            }

            match $crate::kernels::simd::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level` found all these features.
                $crate::kernels::simd::Level::Avx512 => unsafe { avx512::<$($parameter),*>($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::kernels::simd::Level::Avx2 => unsafe { avx2::<$($parameter),*>($($argument),*) },
                _ => body::<$crate::kernels::simd::Portable $(, $parameter)*>($($argument),*),
            }
        }
    };
}

/// Runs code with `E` standing for the element type that a dtype names: `typed!(dtype, E => norm::forward::<E>(...))`.
macro_rules! typed {
    ($dtype:expr, $element:ident => $code:expr) => {
        match $dtype {
            terms::Dtype::F32 => {
                type $element = f32;
                $code
            }
            terms::Dtype::F64 => {
                type $element = f64;
                $code
            }
            terms::Dtype::Bf16 => {
                type $element = half::bf16;
                $code
            }
            terms::Dtype::F16 => {
                type $element = half::f16;
                $code
            }
            other => panic!("no kernel computes with {other}: a bug in the program"),
        }
    };
}

pub(crate) use {typed, versions};
