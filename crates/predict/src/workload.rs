//! What is predicted: a recipe, the nodes that it runs on, and the program that follows it.

use std::collections::HashMap;
use std::sync::Arc;

use comm::Pace;
use parallel::{Event, Mesh, Pieces, Recipe, SleepTimes, StagePieces, pieces, stage_pieces, timetable};
use terms::{Error, FieldError};

use crate::software::Software;

/// A training step that is to be predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// What is trained and how.
    pub recipe: Recipe,
    /// Ranks on one node.
    pub ranks_per_node: usize,
    /// The program that trains.
    pub software: Software,
    /// Whether backward passes compute the scores of attention again, where a program keeps them in memory.
    pub recompute_attention: bool,
    /// What takes a known time in this run, and not the machine's.
    pub emulated: Emulated,
}

/// What takes a known time in a run that studies schedules on few cores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Emulated {
    /// Passes of blocks that sleep.
    pub sleep: Option<SleepTimes>,
    /// The link that each rank's exchanges are slowed down to, one after the other.
    pub pace: Option<Pace>,
}

/// A step as it is simulated: everything but times.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it is a step of.
    pub workload: Workload,
    /// The passes of blocks.
    pub pieces: Arc<Pieces>,
    /// What each stage holds, and how it ends a step.
    pub stages: Arc<Vec<StagePieces>>,
    /// What each stage does, in order.
    pub timetable: Vec<Vec<Event>>,
}

impl Workload {
    /// A step of this program, of which nothing is emulated.
    pub fn new(recipe: Recipe, ranks_per_node: usize) -> Self {
        Self {
            recipe,
            ranks_per_node,
            software: Software::Rankmark,
            recompute_attention: false,
            emulated: Emulated::default(),
        }
    }

    /// Micro-batches of the replica that has the most.
    pub fn micros(&self) -> usize {
        self.recipe.micro_batches.iter().copied().max().unwrap_or(1)
    }

    /// Refuses what cannot be simulated, and lists the step.
    ///
    /// # Errors
    /// The first thing that does not fit, with the arithmetic.
    pub fn step(&self) -> Result<Step, Error> {
        Ok(Step {
            pieces: Arc::new(self.pieces()?),
            stages: Arc::new(self.stages()?),
            timetable: self.timetable(self.micros())?,
            workload: self.clone(),
        })
    }

    /// The passes of blocks. Blocks that sleep have a time each, however alike they are.
    fn pieces(&self) -> Result<Pieces, Error> {
        let mut found = pieces(&self.recipe)?;
        if matches!(self.emulated.sleep, Some(SleepTimes::Table { .. })) {
            found.blocks = found.places.iter().map(|place| found.blocks[*place].clone()).collect();
            found.places = (0..found.blocks.len()).collect();
        }
        Ok(found)
    }

    /// The order of events for so many micro-batches.
    ///
    /// # Errors
    /// When the schedule does not fit.
    pub fn timetable(&self, micros: usize) -> Result<Vec<Vec<Event>>, Error> {
        let Recipe { schedule, chunks, mesh: Mesh { pipeline, .. }, .. } = self.recipe;
        let is_uneven = chunks > 1 && !micros.is_multiple_of(pipeline);
        let events = if is_uneven { None } else { timetable(schedule, pipeline, chunks, micros) };
        events.ok_or_else(|| {
            let message =
                format!("{schedule} does not fit {pipeline} stages of {chunks} chunks and {micros} micro-batches");
            let hint = "another schedule, or a number of micro-batches that the number of stages divides";
            FieldError::new("schedule", message).hint(hint).into()
        })
    }

    /// What each stage holds. Stages between the first and the last that have as many blocks hold the same.
    ///
    /// # Errors
    /// When there are fewer blocks than places, or stages do not add up.
    pub fn stages(&self) -> Result<Vec<StagePieces>, Error> {
        let recipe = &self.recipe;
        let (pipeline, blocks) = (recipe.mesh.pipeline, recipe.model.blocks.len());
        let places = pipeline * recipe.chunks;
        let adds_up = recipe.stages.is_empty()
            || recipe.stages.len() == places
                && recipe.stages.iter().sum::<usize>() == blocks
                && !recipe.stages.contains(&0);
        if places > blocks || !adds_up {
            let message = format!("{pipeline} stages x {} chunks = {places} places for {blocks} blocks", recipe.chunks);
            let hint = format!("at most {blocks} places, or a model of more layers");
            return Err(FieldError::new("mesh", message).hint(hint).into());
        }
        let bounds = self.bounds();
        let mut known: HashMap<Vec<(usize, bool, bool)>, usize> = HashMap::new();
        let mut stages: Vec<StagePieces> = Vec::with_capacity(pipeline);
        for stage in 0..pipeline {
            let own: Vec<_> = (0..recipe.chunks).map(|chunk| bounds[chunk * pipeline + stage].clone()).collect();
            let key = own.iter().map(|range| (range.len(), range.start == 0, range.end == blocks)).collect();
            let is_uniform = self.is_uniform(&own);
            match known.get(&key).filter(|_| is_uniform) {
                Some(first) => stages.push(shifted(&stages[*first], own)),
                None => {
                    known.insert(key, stage);
                    stages.push(stage_pieces(recipe, stage)?);
                }
            }
        }
        Ok(stages)
    }

    /// First and last block of each place, in model order.
    fn bounds(&self) -> Vec<std::ops::Range<usize>> {
        let recipe = &self.recipe;
        let places = recipe.mesh.pipeline * recipe.chunks;
        let mut first = 0;
        let size = |index| match recipe.stages.get(index) {
            Some(size) => *size,
            None => model::Part { index, of: places }.range(recipe.model.blocks.len()).len(),
        };
        let range = |index| {
            let begin = first;
            first += size(index);
            begin..first
        };
        (0..places).map(range).collect()
    }

    /// Whether all blocks of these ranges, but for the first and the last of the model, are alike.
    fn is_uniform(&self, own: &[std::ops::Range<usize>]) -> bool {
        let blocks = &self.recipe.model.blocks;
        let inner = own.iter().cloned().flatten().filter(|block| *block > 0 && *block + 1 < blocks.len());
        inner.into_iter().all(|block| blocks[block].nodes == blocks[1].nodes)
    }
}

/// What another stage of as many blocks holds.
fn shifted(known: &StagePieces, own: Vec<std::ops::Range<usize>>) -> StagePieces {
    let mut stage = known.clone();
    for unit in &mut stage.units {
        for writer in &mut unit.writers {
            let chunk = known.chunks.iter().position(|range| range.contains(writer)).unwrap_or(0);
            *writer = own[chunk].start + (*writer - known.chunks[chunk].start);
        }
    }
    stage.chunks = own;
    stage
}
