//! What differs where ranks are the user's Python: which tests they have, on which devices, and the recipe that they are
//! sent, in which nothing is open.

use contract::fields::{Sampling, problem};
use contract::runtime::is_pytorch;
use record::Case;
use serde_json::{Value, json};
use terms::{FieldError, Named, Runtime};

use super::compute::product_case;
use super::fields::{Area, CUDA, Fields, Test};
use super::memory;
use super::pairs::{messages, operation};
use super::resolve::{Task, task};
use super::tournament::rounds;

/// The backend that moves memory of GPUs.
const OF_GPUS: &str = "nccl";
/// What ranks meet by that move nothing.
const ALONE: &str = "gloo";

/// Whether torch's ranks have this test.
pub(super) fn has(test: Test, device: &str) -> bool {
    match test {
        Test::Copy | Test::Scale | Test::Add | Test::Triad | Test::Gemm | Test::All => true,
        Test::HostToDevice | Test::DeviceToHost => device == CUDA,
        _ => test.area() == Area::Pairs,
    }
}

/// Settles runtime, backend and device where one follows from the others: only PyTorch's ranks measure GPUs.
pub(super) fn resolve(case: &mut Case, fields: &Fields) -> Result<(), FieldError> {
    let device = fields.device.clone().unwrap_or_else(|| "cpu".to_owned());
    if device == CUDA {
        set_where_open(case, "runtime", &Value::from(Runtime::Pytorch.name()));
        // A rank by itself needs nothing between GPUs.
        let backend = if fields.test.area() == Area::Pairs { OF_GPUS } else { ALONE };
        if fields.test != Test::All && is_pytorch(case) {
            set_where_open(case, "backend", &backend.into());
        }
    }
    if fields.test == Test::All && device == CUDA {
        // Each test has its own backend.
        return Ok(());
    }
    if fields.test != Test::All {
        set_where_open(case, "device", &device.into());
    }
    contract::runtime::resolve(case, &[], contract::runtime::Native::Host)
}

fn set_where_open(case: &mut Case, name: &str, value: &Value) {
    if !case.parameters.contains_key(name) {
        case.parameters.insert(name.to_owned(), value.clone());
        case.world.insert(name.to_owned(), value.clone());
    }
}

/// Refuses what the case's ranks do not measure. After [`resolve`].
pub(super) fn check(case: &mut Case, fields: &Fields) -> Result<(), FieldError> {
    let (test, device) = (fields.test, fields.device.as_deref().unwrap_or("cpu"));
    if !is_pytorch(case) {
        if device != "cpu" {
            return Err(problem("device", "native ranks measure the CPU", "`runtime: pytorch` measures GPUs"));
        }
        if test.area() == Area::Transfer {
            let message = format!("{test} copies between the host and a GPU");
            return Err(problem("device", message, "`device: cuda` (needs PyTorch)"));
        }
        return contract::runtime::check(case, &[], contract::runtime::Native::Host);
    }
    if !has(test, device) {
        let message = format!("PyTorch's ranks have no test `{test}` of `{device}`");
        let all = Test::ALL.iter().filter(|test| has(**test, device)).map(|test| test.name());
        let hint = format!("valid values: {}", all.collect::<Vec<_>>().join(", "));
        return Err(problem("test", message, hint));
    }
    if device == CUDA && fields.threads.is_some() {
        return Err(problem("threads", "a GPU has no threads that one could choose", "leave it out"));
    }
    if test.area() == Area::Pairs && !Sampling::of(case)?.inject.is_empty() {
        let message = "faults strike messages of native ranks, and a tournament of PyTorch's is one call";
        return Err(problem("inject", message, "`runtime: native`"));
    }
    contract::runtime::check(case, &[], contract::runtime::Native::Host)?;
    contract::runtime::check_threads(case)
}

/// Adds everything that PyTorch's ranks must know, defaults included.
pub(super) fn add_recipe(case: &mut Case) -> Result<(), FieldError> {
    if is_pytorch(case) {
        let recipe = recipe(case, &task(case)?)?;
        case.settings.insert("recipe", recipe);
    }
    Ok(())
}

fn recipe(case: &Case, task: &Task) -> Result<Value, FieldError> {
    let test = task.test.name();
    Ok(match task.test.area() {
        Area::Compute => {
            let mut product = product_case(task, case);
            primitive::add_recipe(&mut product)?;
            let product = product.settings.shift_remove("recipe").unwrap_or_default();
            json!({"test": test, "operation": "barrier", "product": product})
        }
        Area::Memory => {
            let elements = memory::elements(task.test, task.bytes);
            json!({"test": test, "operation": "barrier", "elements": elements, "counted_bytes": task.test.counted_bytes(),
                   "seed": task.seed})
        }
        Area::Pairs => json!({"test": test, "operation": operation(task.test).name(), "bytes": task.bytes,
                              "rounds": rounds(task.ranks), "messages": messages(task.bytes), "seed": task.seed}),
        Area::Transfer => json!({"test": test, "operation": "barrier", "bytes": task.bytes, "seed": task.seed}),
        Area::Nodes | Area::Storage | Area::All => {
            let message = format!("PyTorch's ranks have no test `{test}`");
            return Err(problem("test", message, "`runtime: native`"));
        }
    })
}

#[cfg(test)]
mod tests;
