//! What a program starts from: initial parameters, and the samples of a step.

use engine::{Element, Loaded, View, Wide};
use half::{bf16, f16};
use model::{Input, Parameter, Part};
use terms::Dtype;

use super::{Trainer, TrainerError};
use crate::mesh::Coordinate;
use crate::recipe::Recipe;
use crate::strategies::Built;

/// Numbers made at once: no parameter is ever held twice.
const CHUNK: usize = 1 << 16;

/// Initial values everywhere; optimizer state is zero.
pub(super) fn fill_initial(
    built: &Built,
    loaded: &mut dyn Loaded,
    recipe: &Recipe,
    at: Coordinate,
) -> Result<(), TrainerError> {
    match recipe.precision {
        Dtype::F64 => fill::<f64>(built, loaded, recipe, at),
        Dtype::Bf16 => fill::<bf16>(built, loaded, recipe, at),
        Dtype::F16 => fill::<f16>(built, loaded, recipe, at),
        _ => fill::<f32>(built, loaded, recipe, at),
    }
}

fn fill<E: Element>(
    built: &Built,
    loaded: &mut dyn Loaded,
    recipe: &Recipe,
    at: Coordinate,
) -> Result<(), TrainerError> {
    let store = &built.store;
    let part = Part { index: at.tensor, of: recipe.mesh.tensor };
    for (unit, storage) in store.units.iter().zip(&store.storage) {
        let shard = store.shard * storage.own.len;
        let mut put_at = |place: usize, numbers: &[f64]| {
            if let Some(value) = storage.value {
                put::<E>(loaded, value, place, numbers)?;
            } else {
                put_shard::<E>(loaded, storage.own, shard, place, numbers)?;
            }
            if storage.master != storage.own {
                put_shard::<E::Wide>(loaded, storage.master, shard, place, numbers)?;
            }
            Ok(())
        };
        for held in &unit.held {
            each(&held.parameter, part, recipe.seed, |place, numbers| put_at(held.offset + place, numbers))?;
        }
        // Products read what lies behind the rows of a table: zeros.
        for (offset, len) in unit.gaps() {
            for at in (0..len).step_by(CHUNK) {
                put_at(offset + at, &vec![0.0; CHUNK.min(len - at)])?;
            }
        }
        for state in &storage.state {
            for at in (0..state.len).step_by(CHUNK) {
                let part = state.part(at, CHUNK.min(state.len - at));
                // SAFETY: no exchange is under way between steps.
                unsafe { loaded.put::<E::Wide>(part, |numbers| numbers.fill(E::Wide::ZERO)) }?;
            }
        }
    }
    Ok(())
}

/// Runs of a part's initial values: `(first, numbers)`, counted in the part.
fn each(
    parameter: &Parameter,
    part: Part,
    seed: u64,
    mut put: impl FnMut(usize, &[f64]) -> Result<(), TrainerError>,
) -> Result<(), TrainerError> {
    let mut numbers = vec![0.0; CHUNK];
    let mut place = 0;
    for (first, len) in parameter.part_runs(part) {
        let mut at = 0;
        while at < len {
            let count = CHUNK.min(len - at);
            model::initial_f64(parameter, seed, first + at, &mut numbers[..count]);
            put(place + at, &numbers[..count])?;
            at += count;
        }
        place += len;
    }
    Ok(())
}

fn put<E: Element>(loaded: &mut dyn Loaded, view: View, place: usize, numbers: &[f64]) -> Result<(), TrainerError> {
    let fill = |to: &mut [E]| {
        for (to, number) in to.iter_mut().zip(numbers) {
            *to = E::narrow(E::Wide::from_f64(*number));
        }
    };
    // SAFETY: no exchange is under way between steps.
    unsafe { loaded.put::<E>(view.part(place, numbers.len()), fill) }?;
    Ok(())
}

/// What of `numbers`, which begin at `place` of a unit, lies in a shard that begins at `shard`.
fn put_shard<E: Element>(
    loaded: &mut dyn Loaded,
    view: View,
    shard: usize,
    place: usize,
    numbers: &[f64],
) -> Result<(), TrainerError> {
    let from = place.max(shard);
    let to = (place + numbers.len()).min(shard + view.len);
    if from < to {
        put::<E>(loaded, view, from - shard, &numbers[from - place..to - place])?;
    }
    Ok(())
}

impl Trainer {
    /// Loads the samples of the next step.
    pub(super) fn load(&mut self) -> Result<(), TrainerError> {
        let first = self.steps * self.recipe.global_batch() as u64;
        for micro in 0..self.built.inputs.len() {
            let batch = self.built.inputs[micro].batch;
            if batch.tokens.is_none() && batch.numbers.is_none() && batch.targets.is_none() {
                continue;
            }
            for sample in 0..batch.samples {
                self.read_sample(first + (batch.first_sample + sample) as u64, micro, sample)?;
            }
            let (loaded, read) = (&mut self.loaded, &self.samples);
            for (view, from) in [(batch.tokens, &read.tokens), (batch.targets, &read.targets)] {
                let Some(view) = view else { continue };
                // SAFETY: no exchange is under way between steps.
                unsafe { loaded.put::<i32>(view, |to| to.copy_from_slice(from)) }?;
            }
        }
        Ok(())
    }

    /// Tokens and targets are kept until the whole batch is there, and are written at once; a sample's numbers are many, and are written
    /// as they come.
    fn read_sample(&mut self, index: u64, micro: usize, sample: usize) -> Result<(), TrainerError> {
        let Self { loaded, source, samples: read, recipe, .. } = self;
        let input = recipe.model.input;
        let of = |len: usize| sample * len..(sample + 1) * len;
        let targets = &mut read.targets[of(input.targets())];
        if let Input::Tokens { sequence, .. } = input {
            // A stage that has one of the two only still reads both: they come together.
            return source.tokens(index, &mut read.tokens[of(sequence)], targets).map_err(TrainerError::Data);
        }
        source.numbers(index, &mut read.numbers, &mut targets[0]).map_err(TrainerError::Data)?;
        if let Some(view) = self.built.inputs[micro].batch.numbers {
            let len = read.numbers.len();
            narrow(&mut **loaded, view.part(sample * len, len), &read.numbers, recipe.precision)?;
        }
        Ok(())
    }
}

/// Samples as their source gives them.
pub(super) struct LoadedSamples {
    /// Tokens of a micro-batch.
    tokens: Vec<i32>,
    /// Targets of a micro-batch.
    targets: Vec<i32>,
    /// Numbers of a sample, before they are narrowed.
    numbers: Vec<f32>,
}

impl LoadedSamples {
    pub(super) fn new(recipe: &Recipe) -> Self {
        let (input, samples) = (recipe.model.input, recipe.micro_batch);
        let tokens = if let Input::Tokens { sequence, .. } = input { sequence } else { 0 };
        let numbers = vec![0.0; input.rows() * input.columns()];
        Self { tokens: vec![0; samples * tokens], targets: vec![0; samples * input.targets()], numbers }
    }
}

fn narrow(loaded: &mut dyn Loaded, view: View, from: &[f32], precision: Dtype) -> Result<(), TrainerError> {
    fn copy<E: Element>(loaded: &mut dyn Loaded, view: View, from: &[f32]) -> Result<(), TrainerError> {
        let fill = |to: &mut [E]| {
            for (to, number) in to.iter_mut().zip(from) {
                *to = E::narrow(E::Wide::from_f64(f64::from(*number)));
            }
        };
        // SAFETY: no exchange is under way between steps.
        unsafe { loaded.put::<E>(view, fill) }?;
        Ok(())
    }
    match precision {
        Dtype::F64 => copy::<f64>(loaded, view, from),
        Dtype::Bf16 => copy::<bf16>(loaded, view, from),
        Dtype::F16 => copy::<f16>(loaded, view, from),
        _ => copy::<f32>(loaded, view, from),
    }
}
