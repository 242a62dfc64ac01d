//! From the fields of a case to its implementation and its task.

use contract::fields::problem;
use record::Case;
use terms::{FieldError, Space};

use super::fields::{IMPLEMENTATION, PrimitiveFields};
use super::implementation::Implementation;
use super::task::{Means, Options, Task, scheme, word};
use super::words::{Order, Products};
use super::{implementations, routed};

/// Name and options of a case's implementation.
///
/// # Errors
/// When the text is none: it was not read from a plan.
pub(super) fn chosen(text: &str) -> Result<(&'static str, Options), FieldError> {
    let field = IMPLEMENTATION.named("implementation");
    let unknown = |message: String| problem("implementation", message, "`rankmark primitive --help` lists them");
    record::plan::chosen(&field, text).map(|(variant, options)| (variant.name, options)).map_err(unknown)
}

/// Rank 0's part of a case with these fields.
///
/// # Errors
/// The first field with a value that cannot be read.
pub(super) fn task(case: &Case, fields: &PrimitiveFields) -> Result<Task, FieldError> {
    let (_, options) = chosen(&fields.implementation)?;
    let [m, n, k] = [fields.m, fields.n, fields.k].map(|size| size.unwrap_or(1) as usize);
    Ok(Task {
        m,
        n,
        k,
        dtype: fields.dtype,
        ranks: fields.ranks as usize,
        rank: 0,
        threads: fields.threads.unwrap_or(1) as usize,
        seed: fields.seed,
        routing: routed::routing(case, fields)?,
        scheme: scheme(fields.primitive, word(&options, "order").unwrap_or(Order::Before)),
        means: Means {
            space: if contract::is_on_gpus(case) { Space::Cuda } else { Space::Host },
            tf32: fields.matmul == Products::Tf32,
            is_tuned: fields.tuned,
            library: fields.cublas_library.clone(),
            drawn: fields.data,
        },
    })
}

/// The implementation of a case with these fields, its options, and what it computes.
///
/// # Errors
/// The first field with a value that cannot be read.
pub(super) fn resolved(
    case: &Case,
    fields: &PrimitiveFields,
) -> Result<(&'static Implementation, Options, Task), FieldError> {
    let (name, options) = chosen(&fields.implementation)?;
    let unknown = || problem("implementation", format!("there is no implementation `{name}`"), "see `--help`");
    let implementation = implementations::named(name).ok_or_else(unknown)?;
    let task = (implementation.task)(task(case, fields)?, &options);
    Ok((implementation, options, task))
}
