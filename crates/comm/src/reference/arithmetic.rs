//! What a reduction means: the one definition that every backend is checked against. Plain loops over bytes.
//!
//! Ranks are folded in rank order. f16 and bf16 accumulate in f32 and are rounded once (to nearest, ties to even).
//! Integers wrap. `avg` is the (wrapped) sum divided by the number of ranks; integers round towards zero. `min` and
//! `max` are Rust's `f32::min` and `f32::max`, which pass over NaN.

use half::{bf16, f16};
use terms::{Dtype, Reduce};

/// An element type and the type that it is accumulated in.
trait Accumulated {
    /// Bytes of one element.
    const BYTES: usize;
    /// What it is accumulated in.
    type Sum: Copy;
    fn read(bytes: &[u8]) -> Self::Sum;
    fn write(value: Self::Sum, to: &mut Vec<u8>);
    fn combine(reduce: Reduce, a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn divide(sum: Self::Sum, ranks: u32) -> Self::Sum;
}

macro_rules! float {
    ($type:ty, $sum:ty, $bytes:literal, $round:path) => {
        impl Accumulated for $type {
            const BYTES: usize = $bytes;
            type Sum = $sum;

            fn read(bytes: &[u8]) -> $sum {
                <$sum>::from(<$type>::from_ne_bytes(bytes.try_into().expect("one element")))
            }

            fn write(value: $sum, to: &mut Vec<u8>) {
                to.extend_from_slice(&$round(value).to_ne_bytes());
            }

            fn combine(reduce: Reduce, a: $sum, b: $sum) -> $sum {
                match reduce {
                    Reduce::Sum | Reduce::Avg => a + b,
                    Reduce::Prod => a * b,
                    Reduce::Min => a.min(b),
                    Reduce::Max => a.max(b),
                }
            }

            fn divide(sum: $sum, ranks: u32) -> $sum {
                sum / ranks as $sum
            }
        }
    };
}

macro_rules! integer {
    ($type:ty, $bytes:literal) => {
        impl Accumulated for $type {
            const BYTES: usize = $bytes;
            type Sum = $type;

            fn read(bytes: &[u8]) -> $type {
                <$type>::from_ne_bytes(bytes.try_into().expect("one element"))
            }

            fn write(value: $type, to: &mut Vec<u8>) {
                to.extend_from_slice(&value.to_ne_bytes());
            }

            fn combine(reduce: Reduce, a: $type, b: $type) -> $type {
                match reduce {
                    Reduce::Sum | Reduce::Avg => a.wrapping_add(b),
                    Reduce::Prod => a.wrapping_mul(b),
                    Reduce::Min => a.min(b),
                    Reduce::Max => a.max(b),
                }
            }

            fn divide(sum: $type, ranks: u32) -> $type {
                // In i128, where every element and every number of ranks fits: 256 would be zero in u8.
                (i128::from(sum) / i128::from(ranks)) as $type
            }
        }
    };
}

float!(f32, f32, 4, std::convert::identity);
float!(f64, f64, 8, std::convert::identity);
float!(f16, f32, 2, f16::from_f32);
float!(bf16, f32, 2, bf16::from_f32);
integer!(i8, 1);
integer!(i32, 4);
integer!(i64, 8);
integer!(u8, 1);
integer!(u32, 4);
integer!(u64, 8);

/// The reduction of `inputs` (one per rank, in rank order, of equal length), appended to `output`.
pub(crate) fn reduce(dtype: Dtype, reduce: Reduce, inputs: &[&[u8]], output: &mut Vec<u8>) {
    match dtype {
        Dtype::F32 => fold::<f32>(reduce, inputs, output),
        Dtype::F64 => fold::<f64>(reduce, inputs, output),
        Dtype::F16 => fold::<f16>(reduce, inputs, output),
        Dtype::Bf16 => fold::<bf16>(reduce, inputs, output),
        Dtype::I8 => fold::<i8>(reduce, inputs, output),
        Dtype::I32 => fold::<i32>(reduce, inputs, output),
        Dtype::I64 => fold::<i64>(reduce, inputs, output),
        Dtype::U8 => fold::<u8>(reduce, inputs, output),
        Dtype::U32 => fold::<u32>(reduce, inputs, output),
        Dtype::U64 => fold::<u64>(reduce, inputs, output),
        Dtype::F8E4M3 | Dtype::F8E5M2 => unreachable!("a call that reduces {dtype} is invalid"),
    }
}

fn fold<T: Accumulated>(reduce: Reduce, inputs: &[&[u8]], output: &mut Vec<u8>) {
    let Some((first, others)) = inputs.split_first() else { return };
    output.reserve(first.len());
    for at in (0..first.len()).step_by(T::BYTES) {
        let element = |input: &[u8]| T::read(&input[at..at + T::BYTES]);
        let mut value = element(first);
        for other in others {
            value = T::combine(reduce, value, element(other));
        }
        if reduce == Reduce::Avg {
            value = T::divide(value, inputs.len() as u32);
        }
        T::write(value, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<const N: usize>(dtype: Dtype, op: Reduce, inputs: &[[u8; N]]) -> Vec<u8> {
        let inputs: Vec<&[u8]> = inputs.iter().map(<[u8; N]>::as_slice).collect();
        let mut output = Vec::new();
        reduce(dtype, op, &inputs, &mut output);
        output
    }

    #[test]
    fn integers_wrap_and_averages_round_towards_zero() {
        assert_eq!(reduced(Dtype::U8, Reduce::Sum, &[[200], [100]]), [44]);
        assert_eq!(reduced(Dtype::U8, Reduce::Avg, &vec![[1]; 256]), [0]);
        let inputs = [(-3i32).to_ne_bytes(), (-4i32).to_ne_bytes()];
        assert_eq!(reduced(Dtype::I32, Reduce::Avg, &inputs), (-3i32).to_ne_bytes());
        assert_eq!(reduced(Dtype::I8, Reduce::Sum, &[[100], [100]]), (-56i8).to_ne_bytes());
        assert_eq!(reduced(Dtype::I8, Reduce::Min, &[[200], [100]]), [200]);
        let inputs = [u64::MAX.to_ne_bytes(), 0u64.to_ne_bytes()];
        assert_eq!(reduced(Dtype::U64, Reduce::Avg, &inputs), (u64::MAX / 2).to_ne_bytes());
        assert_eq!(reduced(Dtype::U64, Reduce::Max, &inputs), u64::MAX.to_ne_bytes());
        let inputs = [u32::MAX.to_ne_bytes(), 0u32.to_ne_bytes()];
        assert_eq!(reduced(Dtype::U32, Reduce::Avg, &inputs), (u32::MAX / 2).to_ne_bytes());
        let inputs = [i64::MAX.to_ne_bytes(), 2i64.to_ne_bytes()];
        assert_eq!(reduced(Dtype::I64, Reduce::Prod, &inputs), (-2i64).to_ne_bytes());
    }

    #[test]
    fn small_floats_are_rounded_once() {
        // 1 + u + u is 1 + 2u when rounded once, and 1 when each addition rounds (u = half a unit in the last place).
        let u = bf16::EPSILON.to_f32() / 2.0;
        let inputs = [1.0, u, u].map(|value| bf16::from_f32(value).to_ne_bytes());
        assert_eq!(reduced(Dtype::Bf16, Reduce::Sum, &inputs), bf16::from_f32(1.0 + 2.0 * u).to_ne_bytes());
        let u = f16::EPSILON.to_f32() / 2.0;
        let inputs = [1.0, u, u].map(|value| f16::from_f32(value).to_ne_bytes());
        assert_eq!(reduced(Dtype::F16, Reduce::Sum, &inputs), f16::from_f32(1.0 + 2.0 * u).to_ne_bytes());
    }

    #[test]
    fn ranks_are_folded_in_order() {
        let (big, one) = (1e8f32, 1.0f32);
        let forwards = [big, -big, one].map(f32::to_ne_bytes);
        let backwards = [one, big, -big].map(f32::to_ne_bytes);
        assert_eq!(reduced(Dtype::F32, Reduce::Sum, &forwards), one.to_ne_bytes());
        assert_eq!(reduced(Dtype::F32, Reduce::Sum, &backwards), 0f32.to_ne_bytes());
        let inputs = [f32::NAN, 2.0, 1.0].map(f32::to_ne_bytes);
        assert_eq!(reduced(Dtype::F32, Reduce::Min, &inputs), 1f32.to_ne_bytes());
    }
}
