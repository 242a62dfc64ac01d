//! Reductions that MPI has no operator for (of f16 and bf16, and averages), and those of integers where a library's own
//! are wrong: Open MPI 4.1's sums of bytes saturate on processors with AVX, MPICH 4.0's minimum and maximum take bytes
//! for signed.
//!
//! MPI combines two operands at a time, so an f16 or bf16 reduction is computed in f32 and rounded at *each* of its
//! steps, where `shm` and `reference` round once at the end: exact wherever the partial results are.

use std::ffi::{c_int, c_void};

use half::{bf16, f16};
use terms::{Dtype, Reduce};

use super::functions::{MpiHandle, UserFunction};

/// Types whose operators may be ours.
const TYPES: usize = 8;

/// The operators that the library is given, in the order of its handles.
pub(super) const USER: [(Dtype, Reduce, UserFunction); 4 * TYPES] = {
    let of = [
        operators::<f16>(Dtype::F16),
        operators::<bf16>(Dtype::Bf16),
        operators::<i8>(Dtype::I8),
        operators::<i32>(Dtype::I32),
        operators::<i64>(Dtype::I64),
        operators::<u8>(Dtype::U8),
        operators::<u32>(Dtype::U32),
        operators::<u64>(Dtype::U64),
    ];
    let mut all = [of[0][0]; 4 * TYPES];
    let mut at = 0;
    while at < all.len() {
        all[at] = of[at / 4][at % 4];
        at += 1;
    }
    all
};

const fn operators<T: Operand>(dtype: Dtype) -> [(Dtype, Reduce, UserFunction); 4] {
    [
        (dtype, Reduce::Sum, sum::<T>),
        (dtype, Reduce::Prod, prod::<T>),
        (dtype, Reduce::Min, min::<T>),
        (dtype, Reduce::Max, max::<T>),
    ]
}

/// Which of [`USER`] can reduce this. An average is a sum that is divided afterwards.
pub(super) fn user_operator(dtype: Dtype, reduce: Reduce) -> Option<usize> {
    let reduce = if reduce == Reduce::Avg { Reduce::Sum } else { reduce };
    USER.iter().position(|(of, by, _)| (*of, *by) == (dtype, reduce))
}

/// The elements that Rankmark's own operators combine.
trait Operand: Copy {
    fn combine(reduce: Reduce, a: Self, b: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Operand for $type {
            #[inline(always)]
            fn combine(reduce: Reduce, a: Self, b: Self) -> Self {
                match reduce {
                    Reduce::Sum | Reduce::Avg => a.wrapping_add(b),
                    Reduce::Prod => a.wrapping_mul(b),
                    Reduce::Min => a.min(b),
                    Reduce::Max => a.max(b),
                }
            }
        }
    )*};
}
integers!(i8, i32, i64, u8, u32, u64);

macro_rules! small_floats {
    ($($type:ty),*) => {$(
        impl Operand for $type {
            #[inline(always)]
            fn combine(reduce: Reduce, a: Self, b: Self) -> Self {
                let (a, b) = (a.to_f32(), b.to_f32());
                Self::from_f32(match reduce {
                    Reduce::Sum | Reduce::Avg => a + b,
                    Reduce::Prod => a * b,
                    Reduce::Min => a.min(b),
                    Reduce::Max => a.max(b),
                })
            }
        }
    )*};
}
small_floats!(f16, bf16);

/// Functions that MPI calls: `inout[i] = inout[i] (op) in[i]`. They neither allocate nor panic.
macro_rules! user {
    ($($name:ident: $reduce:expr),*) => {$(
        extern "C" fn $name<T: Operand>(input: *mut c_void, inout: *mut c_void, count: *mut c_int, _: *mut MpiHandle) {
            // SAFETY: MPI gives a readable count, and two buffers of as many elements that do not overlap. They may lie
            // at any address, so they are read and written without assuming alignment.
            unsafe {
                let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
                for i in 0..usize::try_from(*count).unwrap_or(0) {
                    let (a, b) = (inout.add(i).read_unaligned(), input.add(i).read_unaligned());
                    inout.add(i).write_unaligned(T::combine($reduce, a, b));
                }
            }
        }
    )*};
}
user!(sum: Reduce::Sum, prod: Reduce::Prod, min: Reduce::Min, max: Reduce::Max);

/// Divides sums by the number of ranks; integers round towards zero.
///
/// # Safety
/// `at` must hold `count` elements that nobody else reads or writes meanwhile.
pub(super) unsafe fn divide(dtype: Dtype, at: *mut u8, count: usize, by: u32) {
    // SAFETY: as the caller promises.
    unsafe {
        match dtype {
            Dtype::F32 => each::<f32>(at, count, |sum| sum / by as f32),
            Dtype::F64 => each::<f64>(at, count, |sum| sum / f64::from(by)),
            Dtype::F16 => each::<f16>(at, count, |sum| f16::from_f32(sum.to_f32() / by as f32)),
            Dtype::Bf16 => each::<bf16>(at, count, |sum| bf16::from_f32(sum.to_f32() / by as f32)),
            Dtype::I8 => each::<i8>(at, count, |sum| (i64::from(sum) / i64::from(by)) as i8),
            Dtype::I32 => each::<i32>(at, count, |sum| (i64::from(sum) / i64::from(by)) as i32),
            Dtype::I64 => each::<i64>(at, count, |sum| sum / i64::from(by)),
            Dtype::U8 => each::<u8>(at, count, |sum| (u32::from(sum) / by) as u8),
            Dtype::U32 => each::<u32>(at, count, |sum| sum / by),
            Dtype::U64 => each::<u64>(at, count, |sum| sum / u64::from(by)),
            // Calls that reduce these are invalid.
            Dtype::F8E4M3 | Dtype::F8E5M2 => {}
        }
    }
}

unsafe fn each<T: Copy>(at: *mut u8, count: usize, f: impl Fn(T) -> T) {
    let at = at.cast::<T>();
    for i in 0..count {
        // SAFETY: inside the `count` elements that the caller promises.
        unsafe { at.add(i).write_unaligned(f(at.add(i).read_unaligned())) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::Named;

    #[test]
    fn types_that_need_them_have_operators() {
        for dtype in Dtype::ALL {
            for reduce in Reduce::ALL {
                let ours = dtype.reduces() && !matches!(dtype, Dtype::F32 | Dtype::F64);
                assert_eq!(user_operator(*dtype, *reduce).is_some(), ours, "{dtype} {reduce}");
            }
        }
        assert_eq!(user_operator(Dtype::Bf16, Reduce::Avg), user_operator(Dtype::Bf16, Reduce::Sum));
    }

    #[test]
    fn operators_combine_all_elements() {
        for (dtype, reduce, function) in USER.into_iter().filter(|(dtype, ..)| dtype.is_float()) {
            // Three elements at an odd address, and one behind them that must stay.
            let encode = |value: f32| match dtype {
                Dtype::F16 => f16::from_f32(value).to_ne_bytes(),
                _ => bf16::from_f32(value).to_ne_bytes(),
            };
            let row = |values: [f32; 4]| [vec![0u8], values.iter().flat_map(|value| encode(*value)).collect()].concat();
            let (mut input, mut inout) = (row([2.0, -3.0, 0.5, 9.0]), row([4.0, 5.0, -6.0, 7.0]));
            function(input[1..].as_mut_ptr().cast(), inout[1..].as_mut_ptr().cast(), &mut 3, &mut 0);
            let expected = match reduce {
                Reduce::Prod => [8.0, -15.0, -3.0, 7.0],
                Reduce::Min => [2.0, -3.0, -6.0, 7.0],
                Reduce::Max => [4.0, 5.0, 0.5, 7.0],
                _ => [6.0, 2.0, -5.5, 7.0],
            };
            assert_eq!(inout, row(expected), "{dtype} {reduce}");
        }
    }

    #[test]
    fn integers_wrap_and_have_the_sign_of_their_type() {
        // 200 and 100 where there is no sign; -56 and 100 where there is one.
        for (dtype, expected) in [(Dtype::U8, [44, 32, 100, 200]), (Dtype::I8, [44, 32, 200, 100])] {
            for (reduce, expected) in [Reduce::Sum, Reduce::Prod, Reduce::Min, Reduce::Max].into_iter().zip(expected) {
                let (mut input, mut inout) = ([200u8, 7], [100u8, 7]);
                let (.., function) = USER[user_operator(dtype, reduce).unwrap()];
                function(input.as_mut_ptr().cast(), inout.as_mut_ptr().cast(), &mut 1, &mut 0);
                assert_eq!(inout, [expected, 7], "{reduce} of {dtype}");
            }
        }
        let (.., greatest) = USER[user_operator(Dtype::U64, Reduce::Max).unwrap()];
        let (mut input, mut inout) = ([u64::MAX], [1u64]);
        greatest(input.as_mut_ptr().cast(), inout.as_mut_ptr().cast(), &mut 1, &mut 0);
        assert_eq!(inout, [u64::MAX]);
    }

    #[test]
    fn averages_round_towards_zero() {
        let mut values = [-7i32, 7, 9];
        // SAFETY: the array's first two elements.
        unsafe { divide(Dtype::I32, values.as_mut_ptr().cast(), 2, 2) };
        assert_eq!(values, [-3, 3, 9]);
        let mut bytes = [1u8];
        // SAFETY: the array's only element.
        unsafe { divide(Dtype::U8, bytes.as_mut_ptr(), 1, 256) };
        assert_eq!(bytes, [0]);
    }
}
