//! What an element is in memory and in arithmetic, and what each operator does to two of them.
//!
//! Everything here is branch-free on the value, so that the compiler makes vectors of it.
//!
//! NaN: `min` and `max` are those of `f32::min` and `f32::max`: a NaN loses against a number, and the result is NaN only
//! where all inputs are. Of two equal values (zeros of both signs) the earlier rank's stays.

/// How an element lies in memory, and the type that it is reduced in.
pub(super) trait Element: Copy {
    type Wide: Number;
    const ZERO: Self;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

/// What is reduced.
pub(super) trait Number: Copy {
    const ZERO: Self;
    /// How to divide by the number of ranks.
    type Divisor: Copy;
    fn divisor(ranks: usize) -> Self::Divisor;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
    fn divide(self, by: Self::Divisor) -> Self;
}

/// An operator.
pub(super) trait Operator<N: Number> {
    fn combine(a: N, b: N) -> N;
    #[inline(always)]
    fn finish(all: N, _by: N::Divisor) -> N {
        all
    }
}

macro_rules! operators {
    ($($name:ident: $method:ident),*) => {$(
        pub(super) struct $name;
        impl<N: Number> Operator<N> for $name {
            #[inline(always)]
            fn combine(a: N, b: N) -> N {
                a.$method(b)
            }
        }
    )*};
}
operators!(Sum: add, Prod: mul, Min: least, Max: greatest);

pub(super) struct Avg;
impl<N: Number> Operator<N> for Avg {
    #[inline(always)]
    fn combine(a: N, b: N) -> N {
        a.add(b)
    }
    #[inline(always)]
    fn finish(all: N, by: N::Divisor) -> N {
        all.divide(by)
    }
}

macro_rules! floats {
    ($($float:ty),*) => {$(
        impl Number for $float {
            const ZERO: Self = 0.0;
            type Divisor = Self;
            #[inline(always)]
            fn divisor(ranks: usize) -> Self {
                ranks as Self
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                // `!=` finds the NaN; the negated comparison would be shorter and would keep a NaN first operand.
                if other < self || self != self { other } else { self }
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                if other > self || self != self { other } else { self }
            }
            #[inline(always)]
            fn divide(self, by: Self) -> Self {
                self / by
            }
        }
        impl Element for $float {
            type Wide = Self;
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
        }
    )*};
}
floats!(f32, f64);

macro_rules! integers {
    ($($integer:ty: $wider:ty),*) => {$(
        impl Number for $integer {
            const ZERO: Self = 0;
            /// Wider than a byte, since there can be more than 255 ranks.
            type Divisor = $wider;
            #[inline(always)]
            fn divisor(ranks: usize) -> $wider {
                ranks as $wider
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                if other < self { other } else { self }
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                if other > self { other } else { self }
            }
            #[inline(always)]
            fn divide(self, by: $wider) -> Self {
                // Never by zero: the number of ranks.
                (<$wider>::from(self) / by.max(1)) as Self
            }
        }
        impl Element for $integer {
            type Wide = Self;
            const ZERO: Self = 0;
            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
        }
    )*};
}
integers!(i8: i32, i32: i32, i64: i64, u8: u32, u32: u32, u64: u64);

/// bfloat16, as its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Bf16(u16);

impl Element for Bf16 {
    type Wide = f32;
    const ZERO: Self = Self(0);
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
    /// To nearest, ties to even; a NaN keeps its sign and upper payload and becomes quiet.
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        Self(if wide.is_nan() { quiet } else { rounded } as u16)
    }
}

/// binary16, as its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

impl Element for F16 {
    type Wide = f32;
    const ZERO: Self = Self(0);

    /// Shifts the exponent into place and scales by 2^112, which also normalises subnormals; infinity and NaN would
    /// become finite, and get their exponent back.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.0);
        let magnitude = (bits & 0x7fff) << 13;
        let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
        let special = magnitude | 0x7f80_0000;
        let finite = magnitude < (0x7c00 << 13);
        // A NaN that comes from memory becomes quiet, as the processor's own conversion makes it.
        let quiet = if magnitude > (0x7c00 << 13) { 0x0040_0000 } else { 0 };
        f32::from_bits(((bits & 0x8000) << 16) | if finite { scaled } else { special | quiet })
    }

    /// To nearest, ties to even; too large becomes infinity; a NaN becomes quiet.
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        // Normal: rebias the exponent by -112 and round the 13 bits that go.
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + ((magnitude >> 13) & 1)) >> 13;
        // Subnormal: adding 0.5 lines the bits up at 2^-24 and rounds in hardware.
        let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
        let infinite = 0x7c00;
        let nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
        let finite = if magnitude < (113 << 23) { subnormal } else { normal };
        // From 65520 on the nearest is infinity.
        let number = if magnitude >= 0x477f_f000 { infinite } else { finite };
        Self((sign | if magnitude > 0x7f80_0000 { nan } else { number }) as u16)
    }
}
