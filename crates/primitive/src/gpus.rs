//! What differs where native ranks multiply on GPUs: types, numbers, the library; and what means nothing elsewhere.

use contract::fields::problem;
use contract::runtime::{PRODUCTS, is_pytorch};
use record::Case;
use serde_json::Value;
use terms::{Dtype, FieldError};

use super::fields::PrimitiveFields;
use super::implementations::compute_only;
use super::resolve::task;
use super::routed::divides;
use super::task::Scheme;
use super::words::{Drawn, Primitive, Products};

/// Products of any two signed bytes whose sum fits 32 bits: at most 2^14 each.
const MOST_OF_I8: usize = (1 << 17) - 1;
/// Sides of a product of f8e4m3: rows of 16 bytes, as tensor cores read them.
const ROWS_OF_F8: usize = 16;

/// Settles runtime, backend and device of a case of products.
///
/// # Errors
/// As [`contract::runtime::resolve`].
pub fn resolve(case: &mut Case) -> Result<(), FieldError> {
    contract::runtime::resolve_products(case, &[], &[contract::runtime::CUBLAS])
}

/// Refuses what means nothing on these ranks. `implementation`: its name, where it is one.
///
/// # Errors
/// The first field that does not fit.
pub(super) fn check(case: &Case, implementation: Option<&str>) -> Result<(), FieldError> {
    let fields = PrimitiveFields::of(case)?;
    let (on_gpus, is_ours) = (contract::is_on_gpus(case), !is_pytorch(case));
    check_tf32(&fields, on_gpus)?;
    for name in PRODUCTS.iter().filter(|name| case.value(name).is_some_and(|value| *value != Value::Bool(false))) {
        if !(on_gpus && is_ours) {
            return Err(problem(name, format!("`{name}` is for native ranks on GPUs"), "`device: cuda`"));
        }
    }
    if on_gpus && is_ours && fields.threads.is_some() {
        return Err(problem("threads", "products on GPUs do not use threads", "leave it out"));
    }
    check_kind(case, &fields, implementation, on_gpus && is_ours)
}

fn check_tf32(fields: &PrimitiveFields, on_gpus: bool) -> Result<(), FieldError> {
    if fields.matmul == Products::Auto {
        return Ok(());
    }
    if !on_gpus {
        return Err(problem("matmul", "tf32 is for products on GPUs", "`device: cuda`"));
    }
    if fields.dtype != Dtype::F32 {
        let message = format!("tf32 applies to f32 inputs; this case uses {}", fields.dtype);
        return Err(problem("matmul", message, "`dtype: f32`"));
    }
    if fields.primitive == Primitive::CpRing {
        return Err(problem("matmul", "attention multiplies in f32: its scores must not be rounded", "leave it out"));
    }
    Ok(())
}

/// Types of one byte, and random numbers: for products that nobody sends.
fn check_kind(
    case: &Case,
    fields: &PrimitiveFields,
    implementation: Option<&str>,
    is_there: bool,
) -> Result<(), FieldError> {
    let is_small = fields.dtype.bytes() == 1;
    if !is_small && fields.data == Drawn::Exact {
        return Ok(());
    }
    let is_plain = !matches!(fields.primitive, Primitive::CpRing | Primitive::EpAllToAll);
    // Of all implementations, those that cannot are skipped one by one.
    let is_alone = implementation.is_none_or(|name| name == compute_only::VARIANT.name);
    if !is_there || !is_plain || !is_alone {
        let what = "native ranks multiply on GPUs, with `compute_only` of tp_columnwise, tp_rowwise and dp_all_reduce";
        return Err(match is_small {
            true => problem(
                "dtype",
                format!("{} is supported only where {what}", fields.dtype),
                "valid values: f32, f64, bf16, f16",
            ),
            false => problem("data", format!("random numbers are supported only where {what}"), "`data: exact`"),
        });
    }
    let task = task(case, fields)?;
    let depth = task.whole_depth();
    if fields.dtype == Dtype::I8 && fields.data == Drawn::Random && depth > MOST_OF_I8 {
        let message = format!("sums of {depth} products of any two bytes do not fit 32 bits");
        return Err(problem("k", message, format!("at most {MOST_OF_I8} over all ranks, or `data: exact`")));
    }
    if fields.dtype == Dtype::F8E4M3 {
        let depth = if task.scheme == Scheme::ScatterLast { task.depth() } else { task.k };
        divides("k", depth, ROWS_OF_F8, "the 16 of f8e4m3 on tensor cores")?;
        divides("n", task.n, ROWS_OF_F8, "the 16 of f8e4m3 on tensor cores")?;
    }
    Ok(())
}
