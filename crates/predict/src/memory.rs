//! The memory of a rank by category.
//!
//! This program's step is that of its own plan ([`parallel::outline`]). Where many candidates are compared, or another program trains,
//! it is estimated before any program is written: parameters, gradients and optimizer state are those of the program's own buffers.
//! Activations are what passes leave for each other, for as many micro-batches as the schedule holds at once; how a plan packs them is
//! not known, so they are up to 14% above it.

use std::collections::BTreeMap;

use engine::Category;
use parallel::{Event, Pass};
use terms::FieldError;

use crate::software::Software;
use crate::workload::Step;

/// Bytes of the stage that needs the most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Which stage.
    pub stage: usize,
    /// Bytes by category.
    pub categories: BTreeMap<Category, u64>,
}

impl MemoryNeed {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.categories.values().sum()
    }
}

/// The name of a category in tables and in JSON.
pub fn category_name(category: Category) -> &'static str {
    match category {
        Category::Parameter => "parameters",
        Category::Gradient => "gradients",
        Category::Optimizer => "optimizer",
        Category::Activation => "activations",
        Category::Communication => "communication",
        Category::Input => "inputs",
        Category::Scalar => "scalars",
    }
}

/// An estimate is at most so many times what the plan needs.
const AT_MOST: f64 = 1.25;

/// What the stage needs that needs the most, by its plan where this program trains.
pub fn memory(step: &Step) -> MemoryNeed {
    match step.workload.software {
        // What can be simulated but not run has no plan; the trainer says why when it is asked to run it.
        Software::Rankmark => planned(step).unwrap_or_else(|_| estimated(step)),
        Software::Megatron => estimated(step),
    }
}

/// Whether no rank needs more than so many bytes, by what [`memory`] says. Plans take the longest, so the estimate is asked first, and
/// then the plan of the stage that it finds fullest: mostly one of them refuses what does not fit.
pub(crate) fn fits(step: &Step, limit: u64) -> bool {
    let estimate = estimated(step);
    if estimate.bytes() as f64 > AT_MOST * limit as f64 {
        return false;
    }
    let is_planned = step.workload.software == Software::Rankmark && step.stages.len() > 1;
    if is_planned && planned_stage(step, estimate.stage).is_ok_and(|need| need.bytes() > limit) {
        return false;
    }
    memory(step).bytes() <= limit
}

/// By the plan of each stage's first rank.
fn planned(step: &Step) -> Result<MemoryNeed, FieldError> {
    let mut most = MemoryNeed::default();
    for stage in 0..step.stages.len() {
        let need = planned_stage(step, stage)?;
        if need.bytes() > most.bytes() {
            most = need;
        }
    }
    Ok(most)
}

fn planned_stage(step: &Step, stage: usize) -> Result<MemoryNeed, FieldError> {
    let recipe = &step.workload.recipe;
    let plan = parallel::outline(recipe, stage * recipe.mesh.data * recipe.mesh.tensor, |_| 0)?;
    let categories = plan.categories.into_iter().map(|(category, bytes)| (category, bytes as u64)).collect();
    Ok(MemoryNeed { stage, categories })
}

/// Without any plan.
pub(crate) fn estimated(step: &Step) -> MemoryNeed {
    let needs = (0..step.stages.len()).map(|stage| of_stage(step, stage));
    needs.max_by_key(MemoryNeed::bytes).unwrap_or_default()
}

fn of_stage(step: &Step, at: usize) -> MemoryNeed {
    let stage = &step.stages[at];
    let recipe = &step.workload.recipe;
    let blocks = recipe.model.blocks.len();
    let mut categories = stage.held.clone();
    let piece = |block: usize| &step.pieces.blocks[step.pieces.places[block]];
    // What a block leaves for its backward pass: all that it saves, or its input only.
    let again = |block: usize| recipe.recompute && block + 1 < blocks;
    let kept = |block: usize| match again(block) {
        true => block.checked_sub(1).map_or(0, |before| piece(before).output_bytes),
        false => piece(block).saved_bytes,
    };
    let each: Vec<u64> = stage.chunks.iter().map(|chunk| chunk.clone().map(kept).sum()).collect();
    // The most that a pass holds itself: blocks give back what they kept from the last to the first.
    let within = |chunk: &std::ops::Range<usize>| {
        let mut so_far = 0;
        let held = chunk.clone().map(|block| {
            so_far += kept(block);
            so_far + piece(block).working_bytes + if again(block) { piece(block).saved_bytes } else { 0 }
        });
        held.max().unwrap_or(0)
    };
    let passes: Vec<u64> = stage.chunks.iter().map(within).collect();
    let (mut held, mut most) = (0_u64, 0_u64);
    for event in &step.timetable[at] {
        let Event::Pass(Pass { backward, chunk, .. }) = event else { continue };
        if *backward {
            held = held.saturating_sub(each[*chunk]);
            most = most.max(held + passes[*chunk]);
        } else {
            held += each[*chunk];
        }
    }
    let of_blocks = || stage.chunks.iter().cloned().flatten();
    *categories.entry(Category::Activation).or_insert(0) += most;
    // The largest unit is put together for each micro-batch where replicas hold shards of it, and the next meanwhile.
    let largest = stage.units.iter().map(|unit| unit.elements as u64).max().unwrap_or(0);
    if stage.level >= 2 {
        *categories.entry(Category::Gradient).or_insert(0) += 2 * largest * stage.state.bytes();
    }
    if stage.level == 3 {
        *categories.entry(Category::Communication).or_insert(0) += 2 * largest * recipe.precision.bytes();
    }
    if recipe.mesh.pipeline > 1 {
        let crossing = of_blocks().map(|block| piece(block).output_bytes).max().unwrap_or(0);
        *categories.entry(Category::Communication).or_insert(0) += 2 * crossing;
    }
    MemoryNeed { stage: at, categories }
}

#[cfg(test)]
mod tests;
