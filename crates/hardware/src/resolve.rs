//! A case with everything settled that it leaves open.

use contract::fields::problem;
use measure::machine;
use primitive::Products;
use record::Case;
use serde_json::Value;
use terms::{Dtype, FieldError};

use super::fields::{self, Area, HardwareFields, Test};
use super::numa;

/// Fewer ranks have too few pairs to tell a slow one.
const RANKS_OF_PAIRS: u32 = stats::FEWEST_RANKS as u32;

/// What is measured, and with what.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
    pub(super) test: Test,
    pub(super) ranks: u32,
    pub(super) threads: usize,
    /// The working set, message or file.
    pub(super) bytes: u64,
    pub(super) dtype: Dtype,
    /// Rows, columns and depth of a product.
    pub(super) size: usize,
    /// The folder of a file.
    pub(super) path: String,
    pub(super) seed: u64,
}

/// The task of a case with these fields.
pub(super) fn task(fields: &HardwareFields) -> Task {
    let (test, on_gpus) = (fields.test, fields.is_on_gpus());
    let ranks = fields.ranks.unwrap_or_else(|| if on_gpus { fields::gpus() } else { default_ranks(test) });
    Task {
        test,
        ranks,
        threads: fields.threads.unwrap_or_else(|| if on_gpus { 1 } else { default_threads(ranks) }) as usize,
        bytes: fields.bytes.unwrap_or_else(|| default_bytes(test)),
        dtype: fields.dtype.unwrap_or(Dtype::F32),
        size: fields.size.unwrap_or(1024) as usize,
        path: fields.path.clone().unwrap_or_else(|| ".".to_owned()),
        seed: fields.seed,
    }
}

fn cores() -> u32 {
    machine::allowed_cpus().len().max(1) as u32
}

fn default_ranks(test: Test) -> u32 {
    if test.area() == Area::Pairs { cores().clamp(RANKS_OF_PAIRS, 1024) } else { 1 }
}

fn default_threads(ranks: u32) -> u32 {
    (cores() / ranks).max(1)
}

/// The largest working set of a profile, except on machines with much cache.
pub(super) const LARGEST: u64 = 384 << 20;

/// Four times the last-level caches, past which an array is in memory (as STREAM's rules want), and at least
/// [`LARGEST`].
pub(super) fn in_memory(caches: Option<u64>) -> u64 {
    caches.map_or(LARGEST, |caches| (4 * caches).next_multiple_of(1 << 20).max(LARGEST))
}

/// Bytes where a case gives none.
fn default_bytes(test: Test) -> u64 {
    match test {
        Test::Numa => {
            // Arrays of another node that fit into the caches of this one would be as fast as these.
            let nodes = numa::nodes().len().max(1) as u64;
            in_memory(machine::last_level_bytes(&machine::allowed_cpus()).map(|caches| caches / nodes))
        }
        Test::Latency => 8,
        Test::Bandwidth | Test::BothWays => 1 << 20,
        // As in nvbandwidth: more than a device's caches of the host's memory.
        Test::HostLatency => 2 << 20,
        _ => 256 << 20,
    }
}

/// Refuses a field that means nothing in the test.
///
/// # Errors
/// The first such field.
pub(super) fn check_fields(fields: &HardwareFields) -> Result<(), FieldError> {
    let (test, area) = (fields.test, fields.test.area());
    let given: [(&'static str, bool, &[Area]); 5] = [
        ("threads", fields.threads.is_some(), &[Area::Memory, Area::Compute, Area::Results]),
        ("bytes", fields.bytes.is_some(), &[Area::Memory, Area::Nodes, Area::Pairs, Area::Storage, Area::Transfer]),
        ("dtype", fields.dtype.is_some(), &[Area::Compute]),
        ("size", fields.size.is_some(), &[Area::Compute]),
        ("path", fields.path.is_some(), &[Area::Storage]),
    ];
    for (name, is_given, areas) in given {
        let means_nothing = !areas.contains(&area) || (name == "size" && test == Test::Fma);
        if is_given && area != Area::All && means_nothing {
            return Err(problem(name, format!("{test} does not use `{name}`"), "leave it out"));
        }
    }
    check_products(fields)?;
    if matches!(area, Area::Storage | Area::Nodes) && fields.ranks.is_some_and(|ranks| ranks > 1) {
        return Err(problem("ranks", format!("{test} runs with one rank"), "leave it out"));
    }
    Ok(())
}

/// Refuses types and ways to multiply that the test or the device does not have.
fn check_products(fields: &HardwareFields) -> Result<(), FieldError> {
    let (test, on_gpus) = (fields.test, fields.is_on_gpus());
    let dtype = fields.dtype.unwrap_or(Dtype::F32);
    if test == Test::Fma && on_gpus && !matches!(dtype, Dtype::F32 | Dtype::F64) {
        let message =
            format!("fma on GPUs supports f32 and f64: tensor cores, which support {dtype}, multiply matrices");
        return Err(problem("dtype", message, "`test: gemm`"));
    }
    if dtype.bytes() == 1 && (test == Test::Fma || !on_gpus) {
        return Err(problem("dtype", format!("{dtype} products need a GPU"), "`test: gemm` with `device: cuda`"));
    }
    if dtype == Dtype::F8E4M3 && fields.size.is_some_and(|size| !size.is_multiple_of(16)) {
        return Err(problem("size", "tensor cores need f8e4m3 rows in multiples of 16", "use a multiple of 16"));
    }
    let is_tf32 = fields.matmul == Products::Tf32;
    if is_tf32 && dtype != Dtype::F32 {
        return Err(problem("matmul", format!("tf32 applies to f32 inputs; this case uses {dtype}"), "`dtype: f32`"));
    }
    let given = [("matmul", is_tf32), ("tuned", fields.tuned), ("cublas_library", fields.cublas_library.is_some())];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) if !on_gpus || !matches!(test, Test::Gemm | Test::All) => {
            Err(problem(name, format!("`{name}` is for products on GPUs"), "`test: gemm` with `device: cuda`"))
        }
        _ => Ok(()),
    }
}

/// Writes what decides the ranks into the case, so that the record says it and other ranks are started for other values.
///
/// # Errors
/// A value that is missing or wrong.
pub(super) fn settle_world(case: &mut Case) -> Result<(), FieldError> {
    let fields = HardwareFields::of(case)?;
    let task = task(&fields);
    set_world_field(case, "ranks", Value::from(task.ranks));
    if matches!(task.test.area(), Area::Memory | Area::Compute | Area::Results) && !fields.is_on_gpus() {
        set_world_field(case, "threads", Value::from(task.threads));
    }
    Ok(())
}

fn set_world_field(case: &mut Case, name: &str, value: Value) {
    case.parameters.insert(name.to_owned(), value.clone());
    case.world.insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_in_memory_are_larger_than_any_cache() {
        assert_eq!([None, Some(32 << 20)].map(in_memory), [384 << 20; 2]);
        assert_eq!(in_memory(Some(1152 << 20)), 4608 << 20, "processors with caches stacked on them");
        assert!(default_bytes(Test::Numa) >= LARGEST, "the memory of other nodes, not a cache");
    }
}
