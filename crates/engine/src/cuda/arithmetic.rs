//! In which types a product is computed.

use std::ffi::c_int;

use half::{bf16, f16};
use terms::Dtype;

/// The types of a product: of its operands, of its sums, and of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// f64 throughout.
    F64,
    /// f32 throughout: no tensor core rounds the operands.
    F32,
    /// f32 whose operands are rounded to 10 bits of mantissa.
    Tf32,
    /// bf16, with sums in f32.
    Bf16,
    /// f16, with sums in f32.
    F16,
    /// fp8 e4m3, with sums in f32 and a result in bf16.
    F8E4m3,
    /// Signed bytes, with sums and result in i32.
    I8,
}

/// Numbers of library_types.h and cublas_api.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codes {
    /// cudaDataType_t of the operands.
    pub(super) operand: c_int,
    /// cudaDataType_t of the result.
    pub(super) result: c_int,
    /// cublasComputeType_t.
    pub(super) compute: c_int,
    /// cudaDataType_t of the factors alpha and beta.
    pub(super) scale: c_int,
}

/// The number that an element's bytes stand for; NaN of types that nothing multiplies.
///
/// # Panics
/// With fewer bytes than the type has.
pub fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|place| bytes[place])
    }
    match dtype {
        Dtype::F64 => f64::from_ne_bytes(first(bytes)),
        Dtype::F32 => f64::from(f32::from_ne_bytes(first(bytes))),
        Dtype::Bf16 => bf16::from_ne_bytes(first(bytes)).to_f64(),
        Dtype::F16 => f16::from_ne_bytes(first(bytes)).to_f64(),
        Dtype::I8 => f64::from(i8::from_ne_bytes(first(bytes))),
        Dtype::I32 => f64::from(i32::from_ne_bytes(first(bytes))),
        Dtype::F8E4M3 => {
            let code = bytes[0];
            let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
            let size = match (exponent, code & 7) {
                (15, 7) => f64::NAN,
                (0, _) => mantissa / 512.0,
                _ => (8.0 + mantissa) * 2_f64.powi(exponent - 10),
            };
            if code >> 7 == 1 { -size } else { size }
        }
        _ => f64::NAN,
    }
}

const R_32F: c_int = 0;
const R_64F: c_int = 1;
const R_16F: c_int = 2;
const R_8I: c_int = 3;
const R_32I: c_int = 10;
const R_16BF: c_int = 14;
const R_8F_E4M3: c_int = 28;
const COMPUTE_32F: c_int = 68;
const COMPUTE_64F: c_int = 70;
const COMPUTE_32I: c_int = 72;
const COMPUTE_32F_FAST_TF32: c_int = 77;

impl Arithmetic {
    /// Every arithmetic.
    pub const ALL: [Self; 7] = [Self::F64, Self::F32, Self::Tf32, Self::Bf16, Self::F16, Self::F8E4m3, Self::I8];

    /// The arithmetic of operands of a type; None where nothing multiplies it. `tf32`: f32 by tensor cores.
    pub fn of(dtype: Dtype, tf32: bool) -> Option<Self> {
        match dtype {
            Dtype::F64 => Some(Self::F64),
            Dtype::F32 => Some(if tf32 { Self::Tf32 } else { Self::F32 }),
            Dtype::Bf16 => Some(Self::Bf16),
            Dtype::F16 => Some(Self::F16),
            Dtype::F8E4M3 => Some(Self::F8E4m3),
            Dtype::I8 => Some(Self::I8),
            _ => None,
        }
    }

    /// The type of the operands.
    pub fn operand(self) -> Dtype {
        match self {
            Self::F64 => Dtype::F64,
            Self::F32 | Self::Tf32 => Dtype::F32,
            Self::Bf16 => Dtype::Bf16,
            Self::F16 => Dtype::F16,
            Self::F8E4m3 => Dtype::F8E4M3,
            Self::I8 => Dtype::I8,
        }
    }

    /// The type of the result.
    pub fn result(self) -> Dtype {
        match self {
            Self::F8E4m3 => Dtype::Bf16,
            Self::I8 => Dtype::I32,
            other => other.operand(),
        }
    }

    /// The first compute capability with it.
    pub fn since(self) -> [u32; 2] {
        match self {
            Self::F64 | Self::F32 | Self::F16 => [7, 0],
            Self::I8 => [7, 5],
            Self::Bf16 | Self::Tf32 => [8, 0],
            Self::F8E4m3 => [8, 9],
        }
    }

    /// What the depth and the columns must be multiples of, and whether B must lie transposed, `[n, k]`: the library multiplies bytes
    /// only where the depth of both operands is contiguous.
    pub fn needs(self) -> (usize, bool) {
        match self {
            Self::F8E4m3 => (16, true),
            Self::I8 => (4, true),
            _ => (1, false),
        }
    }

    /// cudaDataType_t of f32.
    pub(super) const WIDE: c_int = R_32F;

    pub(super) fn codes(self) -> Codes {
        let codes = |operand, result, compute, scale| Codes { operand, result, compute, scale };
        match self {
            Self::F64 => codes(R_64F, R_64F, COMPUTE_64F, R_64F),
            Self::F32 => codes(R_32F, R_32F, COMPUTE_32F, R_32F),
            Self::Tf32 => codes(R_32F, R_32F, COMPUTE_32F_FAST_TF32, R_32F),
            Self::Bf16 => codes(R_16BF, R_16BF, COMPUTE_32F, R_32F),
            Self::F16 => codes(R_16F, R_16F, COMPUTE_32F, R_32F),
            Self::F8E4m3 => codes(R_8F_E4M3, R_16BF, COMPUTE_32F, R_32F),
            Self::I8 => codes(R_8I, R_32I, COMPUTE_32I, R_32I),
        }
    }

    /// A factor in the bytes of the scale type.
    pub(super) fn factor(self, value: u8) -> [u8; 8] {
        let mut bytes = [0; 8];
        match self.codes().scale {
            R_64F => bytes = f64::from(value).to_ne_bytes(),
            R_32I => bytes[..4].copy_from_slice(&i32::from(value).to_ne_bytes()),
            _ => bytes[..4].copy_from_slice(&f32::from(value).to_ne_bytes()),
        }
        bytes
    }
}
