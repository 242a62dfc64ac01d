//! Reductions that MPI has no operator for (of f16 and bf16, and averages), and those of bytes where a library's own are
//! wrong: Open MPI 4.1's sums saturate on processors with AVX, MPICH 4.0's minimum and maximum take bytes for signed.
//!
//! MPI combines two operands at a time, so an f16 or bf16 reduction is computed in f32 and rounded at *each* of its
//! steps, where `shm` and `reference` round once at the end: exact wherever the partial results are.

use std::ffi::{c_int, c_void};

use half::{bf16, f16};
use terms::{Dtype, Reduce};

use super::functions::{Handle, UserFunction};

/// The operators that the library is given, in the order of its handles.
pub(super) const USER: [(Dtype, Reduce, UserFunction); 12] = [
    (Dtype::F16, Reduce::Sum, f16_sum),
    (Dtype::F16, Reduce::Prod, f16_prod),
    (Dtype::F16, Reduce::Min, f16_min),
    (Dtype::F16, Reduce::Max, f16_max),
    (Dtype::Bf16, Reduce::Sum, bf16_sum),
    (Dtype::Bf16, Reduce::Prod, bf16_prod),
    (Dtype::Bf16, Reduce::Min, bf16_min),
    (Dtype::Bf16, Reduce::Max, bf16_max),
    (Dtype::U8, Reduce::Sum, u8_sum),
    (Dtype::U8, Reduce::Prod, u8_prod),
    (Dtype::U8, Reduce::Min, u8_min),
    (Dtype::U8, Reduce::Max, u8_max),
];

/// Which of [`USER`] can reduce this. An average is a sum that is divided afterwards.
pub(super) fn user_operator(dtype: Dtype, reduce: Reduce) -> Option<usize> {
    let reduce = if reduce == Reduce::Avg { Reduce::Sum } else { reduce };
    USER.iter().position(|(of, by, _)| (*of, *by) == (dtype, reduce))
}

/// A function that MPI calls: `inout[i] = inout[i] (op) in[i]`. Neither allocates nor panics.
macro_rules! user {
    ($name:ident, $type:ty, $combine:expr) => {
        extern "C" fn $name(input: *mut c_void, inout: *mut c_void, count: *mut c_int, _: *mut Handle) {
            let combine: fn($type, $type) -> $type = $combine;
            // SAFETY: MPI gives a readable count, and two buffers of as many elements that do not overlap. They may lie
            // at any address, so they are read and written without assuming alignment.
            unsafe {
                let (input, inout) = (input.cast::<$type>(), inout.cast::<$type>());
                for i in 0..usize::try_from(*count).unwrap_or(0) {
                    let (a, b) = (inout.add(i).read_unaligned(), input.add(i).read_unaligned());
                    inout.add(i).write_unaligned(combine(a, b));
                }
            }
        }
    };
}

user!(f16_sum, f16, |a, b| f16::from_f32(a.to_f32() + b.to_f32()));
user!(f16_prod, f16, |a, b| f16::from_f32(a.to_f32() * b.to_f32()));
user!(f16_min, f16, |a, b| f16::from_f32(a.to_f32().min(b.to_f32())));
user!(f16_max, f16, |a, b| f16::from_f32(a.to_f32().max(b.to_f32())));
user!(bf16_sum, bf16, |a, b| bf16::from_f32(a.to_f32() + b.to_f32()));
user!(bf16_prod, bf16, |a, b| bf16::from_f32(a.to_f32() * b.to_f32()));
user!(bf16_min, bf16, |a, b| bf16::from_f32(a.to_f32().min(b.to_f32())));
user!(bf16_max, bf16, |a, b| bf16::from_f32(a.to_f32().max(b.to_f32())));
user!(u8_sum, u8, u8::wrapping_add);
user!(u8_prod, u8, u8::wrapping_mul);
user!(u8_min, u8, u8::min);
user!(u8_max, u8, u8::max);

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
            Dtype::I32 => each::<i32>(at, count, |sum| (i64::from(sum) / i64::from(by)) as i32),
            Dtype::I64 => each::<i64>(at, count, |sum| sum / i64::from(by)),
            Dtype::U8 => each::<u8>(at, count, |sum| (u32::from(sum) / by) as u8),
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
                let ours = matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::U8);
                assert_eq!(user_operator(*dtype, *reduce).is_some(), ours, "{dtype} {reduce}");
            }
        }
        assert_eq!(user_operator(Dtype::Bf16, Reduce::Avg), user_operator(Dtype::Bf16, Reduce::Sum));
    }

    #[test]
    fn operators_combine_all_elements() {
        for (dtype, reduce, function) in USER.into_iter().filter(|(dtype, ..)| *dtype != Dtype::U8) {
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
    fn bytes_wrap_and_have_no_sign() {
        for (function, expected) in [(u8_sum as UserFunction, 44), (u8_prod, 32), (u8_min, 100), (u8_max, 200)] {
            let (mut input, mut inout) = ([200u8, 7], [100u8, 7]);
            function(input.as_mut_ptr().cast(), inout.as_mut_ptr().cast(), &mut 1, &mut 0);
            assert_eq!(inout, [expected, 7]);
        }
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
