//! What a step reads.

use engine::layers::Batch;
use engine::{Category, Lifetime};
use model::Input;
use terms::Dtype;

use super::Builder;

/// A micro-batch: where its samples go, and which they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicroBatch {
    pub(crate) batch: Batch,
}

impl Builder<'_> {
    /// One set of buffers for each micro-batch: all are loaded before a step.
    pub(super) fn add_inputs(&mut self) {
        let recipe = self.recipe;
        let blocks = recipe.model.blocks.len();
        let has = |block: usize| self.chunks.iter().any(|chunk| chunk.contains(&block));
        let (first, last) = (has(0), has(blocks - 1));
        let samples = recipe.micro_batch;
        let before: usize = recipe.micro_batches[..self.at.data].iter().sum();
        let input = recipe.model.input;
        let (program, element) = (&mut self.program, self.terms.element);
        let mut buffer = |wanted: bool, dtype: Dtype, len: usize| {
            (wanted && len > 0).then(|| program.buffer(Category::Input, Lifetime::Persistent, dtype, len))
        };
        for micro in 0..recipe.micro_batches[self.at.data] {
            let tokens = matches!(input, Input::Tokens { .. });
            let batch = Batch {
                tokens: buffer(first && tokens, Dtype::I32, samples * input.rows()),
                numbers: buffer(first, element, samples * input.rows() * input.columns()),
                targets: buffer(last, Dtype::I32, samples * input.targets()),
                samples,
                first_sample: (before + micro) * samples,
            };
            self.inputs.push(MicroBatch { batch });
        }
    }
}
