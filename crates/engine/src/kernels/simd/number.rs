//! Elements that kernels load and store: conversions without branches, so that loops over them become vector code.
//! [`Element::widen`] of f16 asks the processor for F16C at each element, which keeps a loop scalar.

use half::{bf16, f16};

use super::Real;
use crate::Element;

/// An element that arithmetic is done on after widening.
#[expect(private_bounds, reason = "implemented here alone")]
pub trait Number: Element<Wide: Real> + Default {
    /// Exactly.
    fn load(self) -> Self::Wide;
    /// The nearest, ties to even.
    fn store(value: Self::Wide) -> Self;
    /// The nearest to an f64, ties to even, rounded once.
    fn nearest(value: f64) -> Self;
}

macro_rules! same {
    ($type:ty) => {
        impl Number for $type {
            #[inline(always)]
            fn load(self) -> $type {
                self
            }
            #[inline(always)]
            fn store(value: $type) -> $type {
                value
            }
            #[inline(always)]
            fn nearest(value: f64) -> $type {
                value as $type
            }
        }
    };
}

same!(f32);
same!(f64);

impl Number for bf16 {
    #[inline(always)]
    fn load(self) -> f32 {
        self.widen()
    }
    #[inline(always)]
    fn store(value: f32) -> Self {
        Self::narrow(value)
    }
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        Self::store(round_to_odd(value))
    }
}

impl Number for f16 {
    // Shifted into the place of an f32's bits, the exponent is 112 too small: a multiplication corrects it, subnormal
    // numbers included. After F. Giesen, "half to float done quic", https://gist.github.com/rygorous/2144712.
    #[inline(always)]
    fn load(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
        // From 2^16 on it was an infinity or NaN.
        let special = if scaled >= 65536.0 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled.to_bits() | special | ((bits & 0x8000) << 16))
    }
    // After F. Giesen, `float_to_half_fast3_rtne`, https://gist.github.com/rygorous/2156668.
    #[inline(always)]
    fn store(value: f32) -> Self {
        let bits = value.to_bits();
        let size = bits & 0x7fff_ffff;
        let sign = (bits >> 16) & 0x8000;
        // Rounds up when the dropped bits are more than a half, or a half and the last kept bit is odd.
        let odd = (size >> 13) & 1;
        let normal = size.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
        // Adding 0.5 leaves a subnormal's bits, rounded by the addition, in the low places.
        let magic = 126 << 23;
        let subnormal = (f32::from_bits(size) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
        let special = if size > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        let finite = if size < (113 << 23) { subnormal } else { normal };
        let result = if size >= (127 + 16) << 23 { special } else { finite };
        Self::from_bits((result | sign) as u16)
    }
    #[inline(always)]
    fn nearest(value: f64) -> Self {
        Self::store(round_to_odd(value))
    }
}

/// To f32 such that rounding the result again gives what rounding once would: truncated, the last bit set if anything
/// was cut off (S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums", 2008: two bits to spare
/// suffice).
#[inline(always)]
fn round_to_odd(value: f64) -> f32 {
    let near = value as f32;
    let inexact = f64::from(near) != value;
    let above = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(above)) | u32::from(inexact))
}
