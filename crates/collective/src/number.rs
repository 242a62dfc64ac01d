//! Elements as numbers and as bytes: what patterns and checks are written in. Tables are short, so this is not fast.

use half::{bf16, f16};
use terms::Dtype;

/// An element's value: floats of every width as f64, integers of every width and bytes that only move as i64 (wrapped to
/// the type's width when encoded).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Float(f64),
    Whole(i64),
}

impl Number {
    /// `value` as the kind of number that `dtype` holds.
    pub(crate) fn new(dtype: Dtype, value: u64) -> Self {
        if dtype.is_float() { Self::Float(value as f64) } else { Self::Whole(value as i64) }
    }

    /// Appends the element's bytes.
    pub(crate) fn encode(self, dtype: Dtype, to: &mut Vec<u8>) {
        match (dtype, self) {
            (Dtype::F32, Self::Float(value)) => to.extend((value as f32).to_ne_bytes()),
            (Dtype::F64, Self::Float(value)) => to.extend(value.to_ne_bytes()),
            // Through f32, as torch does: `from_f64` drops bits that decide a tie, and not the same ones on all processors.
            (Dtype::F16, Self::Float(value)) => to.extend(f16::from_f32(value as f32).to_ne_bytes()),
            (Dtype::Bf16, Self::Float(value)) => to.extend(bf16::from_f32(value as f32).to_ne_bytes()),
            (Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2, Self::Whole(value)) => to.push(value as u8),
            (Dtype::I32 | Dtype::U32, Self::Whole(value)) => to.extend((value as i32).to_ne_bytes()),
            (Dtype::I64 | Dtype::U64, Self::Whole(value)) => to.extend(value.to_ne_bytes()),
            (dtype, number) => unreachable!("{number:?} is not of type {dtype}"),
        }
    }
}

/// An element's bytes as text, as the type's own Display gives it; those that only move as bits.
pub(crate) fn show(dtype: Dtype, bytes: &[u8]) -> String {
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes[i])
    }
    match dtype {
        Dtype::F32 => f32::from_ne_bytes(array(bytes)).to_string(),
        Dtype::F64 => f64::from_ne_bytes(array(bytes)).to_string(),
        Dtype::F16 => f16::from_ne_bytes(array(bytes)).to_string(),
        Dtype::Bf16 => bf16::from_ne_bytes(array(bytes)).to_string(),
        Dtype::I8 => i8::from_ne_bytes(array(bytes)).to_string(),
        Dtype::I32 => i32::from_ne_bytes(array(bytes)).to_string(),
        Dtype::I64 => i64::from_ne_bytes(array(bytes)).to_string(),
        Dtype::U8 => bytes[0].to_string(),
        Dtype::U32 => u32::from_ne_bytes(array(bytes)).to_string(),
        Dtype::U64 => u64::from_ne_bytes(array(bytes)).to_string(),
        Dtype::F8E4M3 | Dtype::F8E5M2 => format!("{:#04x}", bytes[0]),
    }
}
