//! What a case will take, before anything is allocated: from the programs of its ranks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use engine::Category;
use parallel::{Coordinate, Outline, outline};
use record::Case;
use serde_json::{Map, Value, json};
use terms::FieldError;

use super::data;
use super::resolve::Task;

/// The outline of every rank. Replicas differ only where something is cut among them, and then only the last one may
/// hold less, and where they train on different numbers of micro-batches: one is built for each stage, first and last part,
/// first and last replica, and number of micro-batches.
pub(super) fn outlines(task: &Task) -> Result<Vec<Outline>, FieldError> {
    let mesh = task.recipe.mesh;
    let mut built: BTreeMap<(usize, usize, usize, Option<usize>), Outline> = BTreeMap::new();
    let mut all = Vec::with_capacity(mesh.ranks());
    for rank in 0..mesh.ranks() {
        let Coordinate { data, tensor, pipeline } = mesh.coordinate(rank);
        let last = |index: usize, of: usize| if index + 1 == of { usize::MAX } else { index.min(1) };
        let micro_batches = task.recipe.micro_batches.get(data).copied();
        let key = (pipeline, last(tensor, mesh.tensor), last(data, mesh.data), micro_batches);
        let outline = match built.get(&key) {
            Some(known) => known.clone(),
            None => built.entry(key).or_insert(outline(&task.recipe, rank, |program| task.scratch(program))?).clone(),
        };
        all.push(outline);
    }
    Ok(all)
}

/// What a case's parameters are called that no byte depends on.
const WEIGHTLESS: [&str; 4] = ["seed", "learning_rate", "weight_decay", "python"];
/// Sums that are kept.
const KEPT: usize = 1 << 15;

/// Bytes of all ranks of a checked case; 0 where no program can be built of it. Plans ask again for every launch, and vary
/// what does not matter here: each sum is built once.
pub(super) fn held(case: &Case, task: &Task) -> u64 {
    static KNOWN: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = case.parameters.iter().filter(|(name, _)| !WEIGHTLESS.contains(name));
    let key: String = parts.map(|(name, value)| format!("{name}={value}\n")).collect();
    if let Some(bytes) = known().get(&key) {
        return *bytes;
    }
    let held = outlines(task).map_or(0, |outlines| bytes(task, &outlines));
    let mut known = known();
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, held);
    held
}

/// Whether a program can be built of it.
///
/// # Errors
/// What does not fit, with the arithmetic.
pub(super) fn check(task: &Task) -> Result<(), FieldError> {
    parallel::check(&task.recipe).map_err(|refusal| refused(task, refusal))
}

/// A refusal at the field that the user wrote.
fn refused(task: &Task, refused: FieldError) -> FieldError {
    match refused.field {
        "micro_batches" if task.accumulates => FieldError { field: "accumulate", ..refused },
        _ => refused,
    }
}

/// Whether replicas may train on different numbers of micro-batches: what balancing by measured speed comes to.
///
/// # Errors
/// What then does not fit.
pub(super) fn check_uneven(task: &Task) -> Result<(), FieldError> {
    let mut recipe = task.recipe.clone();
    if let [first, .., last] = &mut recipe.micro_batches[..] {
        (*first, *last) = (*first - 1, *last + 1);
    }
    parallel::check(&recipe).map_err(|refusal| refused(task, refusal))
}

/// Bytes that a rank holds: its program, its groups, and the samples that are read ahead of it.
pub(super) fn rank_bytes(task: &Task, rank: usize, outline: &Outline) -> u64 {
    (outline.bytes as u64).saturating_add(read_ahead(task, rank)).saturating_add(groups(task, outline))
}

/// The rank that holds the most by the plan, the first of several, and its bytes without those of its process.
pub(super) fn fullest(case: &Case) -> Option<(u32, u64)> {
    let task = Task::from_case(case).ok()?;
    let outlines = outlines(&task).ok()?;
    let held = outlines.iter().enumerate().map(|(rank, outline)| rank_bytes(&task, rank, outline));
    let held: Vec<u64> = held.collect();
    let most = *held.iter().max()?;
    Some((held.iter().position(|bytes| *bytes == most)? as u32, most))
}

/// Bytes of the host's memory that reading ahead takes: none with GPUs.
fn read_ahead(task: &Task, rank: usize) -> u64 {
    if task.gpus.is_some() {
        return 0;
    }
    data::held(&task.recipe, task.recipe.mesh.coordinate(rank).data)
}

/// What the backend holds for the groups that a rank opens. The world is not among them: it was there before.
fn groups(task: &Task, outline: &Outline) -> u64 {
    let backend = comm::backend(&task.backend);
    let each = |ranks: &u32| backend.map_or(0, |backend| backend.group_bytes(*ranks));
    outline.groups.iter().map(each).sum()
}

/// Bytes of all ranks together.
pub(super) fn bytes(task: &Task, outlines: &[Outline]) -> u64 {
    let each = outlines.iter().enumerate().map(|(rank, outline)| rank_bytes(task, rank, outline));
    each.fold(0, u64::saturating_add)
}

const CATEGORIES: [(Category, &str); 7] = [
    (Category::Parameter, "parameters"),
    (Category::Gradient, "gradients"),
    (Category::Optimizer, "optimizer"),
    (Category::Activation, "activations"),
    (Category::Communication, "communication"),
    (Category::Input, "input"),
    (Category::Scalar, "scalars"),
];

/// Bytes by category over all ranks. `scratch` is what kernels keep outside the plan.
pub(super) fn categories(task: &Task, outlines: &[Outline]) -> Map<String, Value> {
    let mut found = Map::new();
    let mut planned = 0;
    for (category, name) in CATEGORIES {
        let held = |outline: &Outline| outline.categories.get(&category).copied().unwrap_or(0) as u64;
        let bytes: u64 = outlines.iter().map(held).sum();
        planned += bytes;
        found.insert(name.to_owned(), bytes.into());
    }
    let programs: u64 = outlines.iter().map(|outline| outline.bytes as u64).sum();
    found.insert("scratch".to_owned(), programs.saturating_sub(planned).into());
    let ahead: u64 = (0..outlines.len()).map(|rank| read_ahead(task, rank)).sum();
    found.insert("read_ahead".to_owned(), ahead.into());
    let groups: u64 = outlines.iter().map(|outline| groups(task, outline)).sum();
    found.insert("groups".to_owned(), groups.into());
    found
}

/// What a step exchanges on the rank that moves the most bytes.
pub(super) fn traffic(outlines: &[Outline]) -> Value {
    let moved = |outline: &&Outline| outline.traffic.iter().map(|traffic| traffic.bytes).sum::<u64>();
    let busiest = outlines.iter().max_by_key(moved);
    let line = |traffic: &parallel::Traffic| {
        json!({"axis": traffic.axis, "operation": traffic.operation.to_string(),
               "count": traffic.count, "bytes": traffic.bytes})
    };
    busiest.into_iter().flat_map(|outline| &outline.traffic).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_with_different_numbers_of_micro_batches_have_outlines_of_their_own() {
        let flags = [("model", "mlp"), ("ranks", "4"), ("batch", "4"), ("micro_batches", "2")];
        let plan = record::plan::from_flags(&crate::about::TRAINING, &flags, &[]).unwrap();
        let mut task = Task::from_case(&plan.cases[0]).unwrap();
        task.recipe.micro_batches = vec![2, 1, 3, 2];
        let own = |rank| outline(&task.recipe, rank, |program| task.scratch(program)).unwrap();
        let found = outlines(&task).unwrap();
        for (rank, outline) in found.iter().enumerate() {
            assert_eq!((outline.bytes, outline.flops), (own(rank).bytes, own(rank).flops), "rank {rank}");
        }
        assert!(found[1].flops < found[2].flops, "three micro-batches are more than one");
    }
}
