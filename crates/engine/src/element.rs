//! Element types that tensors are made of, and the wider types that arithmetic is done in.

use half::{bf16, f16};
use terms::Dtype;

/// A number that arithmetic is done in: f32 or f64.
pub trait Wide:
    Element<Wide = Self>
    + Default
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + std::iter::Sum
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The nearest of this type.
    fn from_f64(value: f64) -> Self;
    /// Exactly.
    fn f64(self) -> f64;
    /// The larger.
    fn larger(self, other: Self) -> Self;
    /// Square root.
    fn root(self) -> Self;
}

/// A number as it lies in memory.
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// What arithmetic on it is done in: f32 for f32, bf16, f16; f64 for f64.
    type Wide: Wide;
    /// Name of the number's type.
    const DTYPE: Dtype;
    /// Exactly.
    fn widen(self) -> Self::Wide;
    /// The nearest, ties to even.
    fn narrow(value: Self::Wide) -> Self;
}

macro_rules! wide {
    ($type:ty, $dtype:expr) => {
        impl Element for $type {
            type Wide = $type;
            const DTYPE: Dtype = $dtype;
            #[inline(always)]
            fn widen(self) -> $type {
                self
            }
            #[inline(always)]
            fn narrow(value: $type) -> $type {
                value
            }
        }
        impl Wide for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn root(self) -> Self {
                self.sqrt()
            }
        }
    };
}

wide!(f32, Dtype::F32);
wide!(f64, Dtype::F64);

impl Element for bf16 {
    type Wide = f32;
    const DTYPE: Dtype = Dtype::Bf16;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    // Branchless, so that loops become vector code; NaN stays NaN.
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
        let nan = (bits | 0x0040_0000) & 0xffff_0000;
        let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
        Self::from_bits(((if is_nan { nan } else { rounded }) >> 16) as u16)
    }
}

impl Element for f16 {
    type Wide = f32;
    const DTYPE: Dtype = Dtype::F16;
    #[inline(always)]
    fn widen(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Element for i32 {
    type Wide = f64;
    const DTYPE: Dtype = Dtype::I32;
    #[inline(always)]
    fn widen(self) -> f64 {
        self.into()
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as Self
    }
}
