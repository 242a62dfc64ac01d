//! What differs where ranks are the user's Python: which implementations they have, and the recipe that they are sent, in
//! which nothing is open.

use contract::fields::problem;
use contract::runtime::is_pytorch;
use record::Case;
use serde_json::{Value, json};
use terms::{FieldError, Named, Runtime};

use super::fields::PrimitiveFields;
use super::implementation::Implementation;
use super::resolve::resolved;
use super::task::{Options, Scheme, Task};
use super::{implementations, routed};

/// The runtime of a case. After [`contract::runtime::resolve`].
pub(super) fn runtime(case: &Case) -> Runtime {
    if is_pytorch(case) { Runtime::Pytorch } else { Runtime::Native }
}

/// Refuses an implementation that the case's ranks do not have.
pub(super) fn check_implementation(case: &Case, implementation: &Implementation) -> Result<(), FieldError> {
    let runtime = runtime(case);
    if implementation.runs_on(runtime) {
        return Ok(());
    }
    let message = format!("runtime `{runtime}` has no implementation `{}`", implementation.name);
    Err(problem("implementation", message, format!("valid values: {}", implementations::names_of(runtime))))
}

/// Refuses fields of the other runtime, and skips what torch does not do here.
pub(super) fn check(case: &mut Case) -> Result<(), FieldError> {
    contract::runtime::check(case, &[], contract::runtime::Native::GpusThroughHost)?;
    if is_pytorch(case) && routed::is_routed(&PrimitiveFields::of(case)?) {
        let message = "PyTorch ranks have one expert each, and a token goes to only one";
        return Err(problem(
            "experts",
            message,
            "leave out `experts` and `top_k`, and use `tokens: uniform` or `skewed`; or use `runtime: native`",
        ));
    }
    if is_pytorch(case) { contract::runtime::check_threads(case) } else { Ok(()) }
}

/// Adds everything that PyTorch's ranks must know, defaults included.
///
/// # Errors
/// As the check of a case of this benchmark.
pub fn add_recipe(case: &mut Case) -> Result<(), FieldError> {
    if !is_pytorch(case) {
        return Ok(());
    }
    let (implementation, options, task) = resolved(case, &PrimitiveFields::of(case)?)?;
    case.settings.insert("recipe", recipe(implementation.name, &options, &task));
    Ok(())
}

fn recipe(name: &str, options: &Options, task: &Task) -> Value {
    let computes = name != implementations::communication_only::VARIANT.name;
    let (flops, traffic_bytes) = if computes { (task.flops(), task.traffic_bytes()) } else { (0.0, 0) };
    let tokens: Vec<usize> = (0..task.ranks).map(|expert| task.routing.places(0, expert).len()).collect();
    json!({
        "operation": task.operation().0.name(),
        "step": name,
        "options": options,
        "scheme": scheme(task.scheme),
        "m": task.m,
        "n": task.n,
        "k": task.k,
        "dtype": task.dtype.name(),
        "ranks": task.ranks,
        "seed": task.seed,
        "tf32": task.means.tf32,
        "tokens": tokens,
        "flops": flops,
        "traffic_bytes": traffic_bytes,
    })
}

/// A scheme, as the Python package calls it.
fn scheme(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::GatherFirst => "gather_first",
        Scheme::GatherLast => "gather_last",
        Scheme::ScatterLast => "scatter_last",
        Scheme::ReduceLast => "reduce_last",
        Scheme::Attention => "attention",
        Scheme::Exchange => "exchange",
    }
}

#[cfg(test)]
mod tests;
