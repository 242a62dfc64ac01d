//! What a program starts from: initial parameters, and the samples of a step.

use engine::{Element, Memory, View, Wide};
use half::{bf16, f16};
use model::{Input, Parameter, Part};
use terms::Dtype;

use super::{Error, Trainer};
use crate::mesh::Coordinate;
use crate::recipe::Recipe;
use crate::strategies::Built;

/// Numbers made at once: no parameter is ever held twice.
const CHUNK: usize = 1 << 16;

/// Initial values everywhere; optimizer state is zero.
pub(super) fn fill_initial(built: &Built, memory: &Memory, recipe: &Recipe, at: Coordinate) {
    match recipe.precision {
        Dtype::F64 => fill::<f64>(built, memory, recipe, at),
        Dtype::Bf16 => fill::<bf16>(built, memory, recipe, at),
        Dtype::F16 => fill::<f16>(built, memory, recipe, at),
        _ => fill::<f32>(built, memory, recipe, at),
    }
}

fn fill<E: Element>(built: &Built, memory: &Memory, recipe: &Recipe, at: Coordinate) {
    let store = &built.store;
    let part = Part { index: at.tensor, of: recipe.mesh.tensor };
    for (unit, storage) in store.units.iter().zip(&store.storage) {
        let shard = store.shard * storage.own.len;
        for held in &unit.held {
            each(&held.parameter, part, recipe.seed, |place, numbers| {
                let place = held.offset + place;
                if let Some(value) = storage.value {
                    put::<E>(memory, value, place, numbers);
                } else {
                    put_shard::<E>(memory, storage.own, shard, place, numbers);
                }
                if storage.master != storage.own {
                    put_shard::<E::Wide>(memory, storage.master, shard, place, numbers);
                }
            });
        }
        for state in &storage.state {
            // SAFETY: nothing runs.
            unsafe { memory.write::<E::Wide>(*state) }.fill(E::Wide::ZERO);
        }
    }
}

/// Runs of a part's initial values: `(first, numbers)`, counted in the part.
fn each(parameter: &Parameter, part: Part, seed: u64, mut put: impl FnMut(usize, &[f64])) {
    let mut numbers = vec![0.0; CHUNK];
    let mut place = 0;
    for (first, len) in parameter.part_runs(part) {
        let mut at = 0;
        while at < len {
            let count = CHUNK.min(len - at);
            model::initial_f64(parameter, seed, first + at, &mut numbers[..count]);
            put(place + at, &numbers[..count]);
            at += count;
        }
        place += len;
    }
}

fn put<E: Element>(memory: &Memory, view: View, place: usize, numbers: &[f64]) {
    // SAFETY: nothing runs, so nobody else reads or writes.
    let to = unsafe { memory.write::<E>(view.part(place, numbers.len())) };
    for (to, number) in to.iter_mut().zip(numbers) {
        *to = E::narrow(E::Wide::of(*number));
    }
}

/// What of `numbers`, which begin at `place` of a unit, lies in a shard that begins at `shard`.
fn put_shard<E: Element>(memory: &Memory, view: View, shard: usize, place: usize, numbers: &[f64]) {
    let from = place.max(shard);
    let to = (place + numbers.len()).min(shard + view.len);
    if from < to {
        put::<E>(memory, view, from - shard, &numbers[from - place..to - place]);
    }
}

impl Trainer {
    /// Loads the samples of the next step.
    pub(super) fn load(&mut self) -> Result<(), Error> {
        let first = self.steps * self.recipe.global_batch() as u64;
        for micro in 0..self.built.inputs.len() {
            let batch = self.built.inputs[micro].batch;
            for sample in 0..batch.samples {
                self.load_sample(first + (batch.first_sample + sample) as u64, micro, sample)?;
            }
        }
        Ok(())
    }

    fn load_sample(&mut self, index: u64, micro: usize, sample: usize) -> Result<(), Error> {
        let batch = self.built.inputs[micro].batch;
        let input = self.recipe.model.input;
        if batch.tokens.is_none() && batch.numbers.is_none() && batch.targets.is_none() {
            return Ok(());
        }
        let (memory, source) = (&self.memory, &mut self.source);
        let part = |view: Option<View>, len: usize| view.map(|view| view.part(sample * len, len));
        let whole = |view: Option<View>| {
            // SAFETY: no program runs, so nobody else reads or writes.
            view.map(|view| unsafe { memory.write::<i32>(view) })
        };
        let targets = whole(part(batch.targets, input.targets()));
        if let Input::Tokens { sequence, .. } = input {
            // A stage that has one of the two only still reads both: they come together.
            let (tokens, targets) = match (whole(part(batch.tokens, sequence)), targets) {
                (Some(tokens), Some(targets)) => (tokens, targets),
                (Some(tokens), None) => (tokens, &mut self.spare[..]),
                (None, Some(targets)) => (&mut self.spare[..], targets),
                (None, None) => return Ok(()),
            };
            return source.tokens(index, tokens, targets).map_err(Error::Data);
        }
        let mut class = 0;
        source.numbers(index, &mut self.sample, &mut class).map_err(Error::Data)?;
        if let Some(targets) = targets {
            targets[0] = class;
        }
        if let Some(view) = part(batch.numbers, self.sample.len()) {
            narrow(memory, view, &self.sample, self.recipe.precision);
        }
        Ok(())
    }
}

fn narrow(memory: &Memory, view: View, from: &[f32], precision: Dtype) {
    fn copy<E: Element>(memory: &Memory, view: View, from: &[f32]) {
        // SAFETY: no program runs, so nobody else reads or writes.
        let to = unsafe { memory.write::<E>(view) };
        for (to, number) in to.iter_mut().zip(from) {
            *to = E::narrow(E::Wide::of(f64::from(*number)));
        }
    }
    match precision {
        Dtype::F64 => copy::<f64>(memory, view, from),
        Dtype::Bf16 => copy::<bf16>(memory, view, from),
        Dtype::F16 => copy::<f16>(memory, view, from),
        _ => copy::<f32>(memory, view, from),
    }
}
