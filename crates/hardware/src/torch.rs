//! Who runs a test: native ranks, or the user's Python. Which tests those have, on which devices, and the recipe that they are sent,
//! in which nothing is open.

use contract::fields::{Execution, Sampling, problem};
use contract::runtime::{Native, is_pytorch};
use record::Case;
use serde_json::{Value, json};
use terms::{Dtype, FieldError, Named, Runtime};

use super::compute::product_case;
use super::fields::{Area, CUDA, HardwareFields, Test};
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
        _ => test.area() == Area::Pairs && test != Test::PeerCopy,
    }
}

/// Whether native ranks have this test on GPUs.
pub(super) fn native_has(test: Test) -> bool {
    match test.area() {
        Area::Memory => test != Test::ReduceBroadcast,
        Area::Compute | Area::Transfer | Area::Pairs | Area::Results | Area::All => true,
        Area::Nodes | Area::Storage => false,
    }
}

/// Where native ranks may have the test's buffers.
fn native(test: Test) -> Native {
    match test.area() {
        // Nothing is moved.
        Area::Compute | Area::Results => Native::GpusThroughHost,
        _ if native_has(test) => Native::Gpus,
        _ => Native::Host,
    }
}

/// Settles runtime, backend and device where one follows from the others. Tests of GPUs that native ranks lack are PyTorch's.
pub(super) fn resolve(case: &mut Case, fields: &HardwareFields) -> Result<(), FieldError> {
    let device = fields.device.clone().unwrap_or_else(|| "cpu".to_owned());
    if device == CUDA {
        if !native_has(fields.test) || Execution::of(case)?.python.is_some() {
            set_where_open(case, "runtime", &Value::from(Runtime::Pytorch.name()));
        }
        if fields.test == Test::All {
            // Each test has its own backend.
            return Ok(());
        }
        if is_pytorch(case) {
            // A rank by itself needs nothing between GPUs.
            let backend = if fields.test.area() == Area::Pairs { OF_GPUS } else { ALONE };
            set_where_open(case, "backend", &backend.into());
        }
    }
    if fields.test != Test::All {
        set_where_open(case, "device", &device.into());
    }
    match fields.test {
        Test::Gemm => primitive::resolve(case),
        test => contract::runtime::resolve(case, &[], native(test)),
    }
}

fn set_where_open(case: &mut Case, name: &str, value: &Value) {
    if !case.parameters.contains_key(name) {
        case.parameters.insert(name.to_owned(), value.clone());
        case.world.insert(name.to_owned(), value.clone());
    }
}

/// Refuses what the case's ranks do not measure. After [`resolve`].
pub(super) fn check(case: &mut Case, fields: &HardwareFields) -> Result<(), FieldError> {
    let (test, device) = (fields.test, fields.device.as_deref().unwrap_or("cpu"));
    if device == CUDA && fields.threads.is_some() {
        return Err(problem("threads", "threads cannot be chosen on a GPU", "leave it out"));
    }
    if !is_pytorch(case) {
        if device != "cpu" && !native_has(test) {
            return Err(problem("device", format!("test `{test}` does not run on GPUs"), "`device: cpu`"));
        }
        if device == "cpu" && (test.area() == Area::Transfer || test == Test::PeerCopy) {
            return Err(problem("device", format!("{test} moves data of a GPU"), "`device: cuda`"));
        }
        if test == Test::All && device != "cpu" {
            return Ok(());
        }
        return contract::runtime::check(case, &[], native(test));
    }
    if !has(test, device) {
        let message = format!("PyTorch ranks do not support test `{test}` on `{device}`");
        let all = Test::ALL.iter().filter(|test| has(**test, device)).map(|test| test.name());
        let hint = format!("valid values: {}", all.collect::<Vec<_>>().join(", "));
        return Err(problem("test", message, hint));
    }
    if fields.dtype.is_some_and(|dtype| dtype.bytes() == 1) {
        let message = format!("PyTorch ranks do not multiply {}", fields.dtype.unwrap_or(Dtype::I8));
        return Err(problem("dtype", message, "`runtime: native`"));
    }
    if test.area() == Area::Pairs && !Sampling::of(case)?.inject.is_empty() {
        let message = "faults are injected into messages of native ranks; PyTorch ranks measure all pairs in one call";
        return Err(problem("inject", message, "`runtime: native`"));
    }
    contract::runtime::check(case, &[], Native::Host)?;
    contract::runtime::check_threads(case)
}

/// Adds everything that PyTorch's ranks must know, defaults included.
pub(super) fn add_recipe(case: &mut Case) -> Result<(), FieldError> {
    if is_pytorch(case) {
        let recipe = recipe(case, &task(&HardwareFields::of(case)?))?;
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
        Area::Nodes | Area::Storage | Area::Results | Area::All => {
            let message = format!("PyTorch ranks do not support test `{test}`");
            return Err(problem("test", message, "`runtime: native`"));
        }
    })
}

#[cfg(test)]
mod tests;
