//! Element types: one table, from which all else about them follows.

use crate::name::{Named, named, normalize};

/// What may be done with the elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtypeKind {
    /// Floating-point numbers.
    Float,
    /// Integers with a sign; sums wrap.
    Signed,
    /// Integers without a sign; sums wrap.
    Unsigned,
    /// Elements that are moved and never reduced: their bytes are all that matters.
    MovesOnly,
}

/// A line of the table: what is known of a type.
struct DtypeFacts {
    kind: DtypeKind,
    bytes: u64,
    exact_integers: u64,
    other_names: &'static [&'static str],
}

macro_rules! dtypes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal: $kind:ident, $bytes:literal, $exact:expr, [$($other:literal),*];)+) => {
        named! {
            /// An element type. Sizes are those of memory, not of arithmetic: `f16` and `bf16` are reduced in f32.
            pub enum Dtype("element type") {
                $($(#[$doc])* $variant = $name),+
            }
        }

        impl Dtype {
            const fn facts(self) -> DtypeFacts {
                match self {
                    $(Self::$variant => DtypeFacts {
                        kind: DtypeKind::$kind,
                        bytes: $bytes,
                        exact_integers: $exact,
                        other_names: &[$($other),*],
                    }),+
                }
            }
        }
    };
}

// Name, kind, bytes, exact integers, and the names in C, NumPy, PyTorch, MPI and nccl-tests.
dtypes! {
    /// IEEE 754 binary32.
    F32 = "f32": Float, 4, 1 << 24, ["float", "float32", "fp32", "single", "mpi_float"];
    /// IEEE 754 binary64.
    F64 = "f64": Float, 8, 1 << 53, ["double", "float64", "fp64", "mpi_double"];
    /// IEEE 754 binary16.
    F16 = "f16": Float, 2, 1 << 11, ["half", "float16", "fp16"];
    /// bfloat16: the upper half of an f32.
    Bf16 = "bf16": Float, 2, 1 << 8, ["bfloat16"];
    /// Signed byte; sums wrap.
    I8 = "i8": Signed, 1, i8::MAX as u64, ["int8", "mpi_int8_t"];
    /// Signed 32-bit integer; sums wrap.
    I32 = "i32": Signed, 4, i32::MAX as u64, ["int32", "int", "mpi_int", "mpi_int32_t"];
    /// Signed 64-bit integer; sums wrap.
    I64 = "i64": Signed, 8, i64::MAX as u64, ["int64", "mpi_long", "mpi_int64_t"];
    /// Unsigned byte; sums wrap.
    U8 = "u8": Unsigned, 1, u8::MAX as u64, ["uint8", "mpi_uint8_t"];
    /// Unsigned 32-bit integer; sums wrap.
    U32 = "u32": Unsigned, 4, u32::MAX as u64, ["uint32", "mpi_uint32_t"];
    /// Unsigned 64-bit integer; sums wrap.
    U64 = "u64": Unsigned, 8, u64::MAX, ["uint64", "mpi_uint64_t"];
    /// FP8 with 4 bits of exponent and 3 of mantissa; moved only.
    F8E4M3 = "f8e4m3": MovesOnly, 1, 1 << 4, ["fp8_e4m3", "float8_e4m3", "float8_e4m3fn"];
    /// FP8 with 5 bits of exponent and 2 of mantissa; moved only.
    F8E5M2 = "f8e5m2": MovesOnly, 1, 1 << 3, ["fp8_e5m2", "float8_e5m2"];
}

impl Dtype {
    /// Bytes of one element.
    pub const fn bytes(self) -> u64 {
        self.facts().bytes
    }

    /// What may be done with elements.
    pub const fn kind(self) -> DtypeKind {
        self.facts().kind
    }

    /// The largest N such that every integer in 0..=N is exact in this type: what a tolerance-free check may reach.
    pub const fn exact_integers(self) -> u64 {
        self.facts().exact_integers
    }

    /// Whether this is a floating-point type that is computed with.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), DtypeKind::Float)
    }

    /// Whether elements are reduced: added, multiplied, compared.
    pub const fn reduces(self) -> bool {
        !matches!(self.kind(), DtypeKind::MovesOnly)
    }

    /// The type by its name in another tool: `half`, `int8`, `MPI_FLOAT`, `float8_e4m3fn`.
    pub fn from_other_name(text: &str) -> Option<Self> {
        let wanted = normalize(text);
        let is_named = |dtype: &Self| dtype.facts().other_names.contains(&&*wanted);
        Self::ALL.iter().copied().find(is_named)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_means_one_type() {
        let mut names = HashSet::new();
        for dtype in Dtype::ALL.iter().copied() {
            assert!(names.insert(dtype.name()), "{dtype}");
            assert_eq!((dtype.name().parse(), Dtype::from_other_name(dtype.name())), (Ok(dtype), None));
            for other in dtype.facts().other_names {
                assert!(names.insert(other), "{other}");
                assert_eq!(normalize(other), *other, "names are compared in this form");
                assert_eq!(Dtype::from_other_name(&other.to_uppercase()), Some(dtype));
            }
        }
    }

    #[test]
    fn sizes_and_exact_integers_follow_from_names() {
        for dtype in Dtype::ALL {
            let (kind, digits) = dtype.name().split_at(dtype.name().find(|c: char| c.is_ascii_digit()).unwrap());
            let bits: u32 = digits.split('e').next().unwrap().parse().unwrap();
            assert_eq!(dtype.bytes() * 8, u64::from(bits), "{dtype}");
            let exact = dtype.exact_integers();
            match dtype.kind() {
                DtypeKind::Signed => assert_eq!((kind, exact), ("i", u64::MAX >> (65 - bits)), "{dtype}"),
                DtypeKind::Unsigned => assert_eq!((kind, exact), ("u", u64::MAX >> (64 - bits)), "{dtype}"),
                DtypeKind::Float | DtypeKind::MovesOnly => {
                    assert!(kind.ends_with('f') && exact.is_power_of_two(), "{dtype}");
                }
            }
        }
    }
}
