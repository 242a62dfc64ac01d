//! Element types.

use crate::name::named;

named! {
    /// An element type. Sizes are those of memory, not of arithmetic: `f16` and `bf16` are reduced in f32.
    pub enum Dtype("element type") {
        /// IEEE 754 binary32.
        F32 = "f32",
        /// IEEE 754 binary64.
        F64 = "f64",
        /// IEEE 754 binary16.
        F16 = "f16",
        /// bfloat16: the upper half of an f32.
        Bf16 = "bf16",
        /// Signed 32-bit integer; sums wrap.
        I32 = "i32",
        /// Signed 64-bit integer; sums wrap.
        I64 = "i64",
        /// Unsigned byte; sums wrap.
        U8 = "u8",
    }
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The largest N such that every integer in 0..=N is exact in this type: what a tolerance-free check may reach.
    pub const fn exact_integers(self) -> u64 {
        match self {
            Self::Bf16 => 1 << 8,
            Self::U8 => u8::MAX as u64,
            Self::F16 => 1 << 11,
            Self::F32 => 1 << 24,
            Self::I32 => i32::MAX as u64,
            Self::F64 => 1 << 53,
            Self::I64 => i64::MAX as u64,
        }
    }

    /// Whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::F16 | Self::Bf16)
    }
}
