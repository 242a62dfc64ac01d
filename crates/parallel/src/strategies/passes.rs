//! Forward and backward passes of a chunk, and what crosses between stages.

use std::ops::Range;

use engine::layers::{Batch, Cut, Emit, Parameters, Tensor, Terms};
use engine::{Axis, Category, Exchange, ExchangeKind, Instruction, Lifetime, Phase, Program, View};
use terms::Dtype;

use super::{Builder, PassMark};
use crate::recipe::Recipe;
use crate::schedule::{Pass, Transfer};

impl Builder<'_> {
    pub(super) fn pass(&mut self, pass: Pass) {
        let chunk = self.chunks[pass.chunk].clone();
        if pass.backward {
            self.enter(Phase::Backward);
            self.backward(pass, chunk);
        } else {
            self.enter(Phase::Forward);
            self.forward(pass, chunk);
        }
    }

    fn last_block(&self) -> usize {
        self.recipe.model.blocks.len() - 1
    }

    /// What a block reads in the first stage.
    fn first_input(&self, micro: usize) -> Option<Tensor> {
        let input = self.recipe.model.input;
        let view = self.inputs[micro].batch.numbers?;
        let rows = self.recipe.micro_batch * input.rows();
        Some(Tensor { view, rows, columns: input.columns(), cut: Cut::Whole })
    }

    /// What arrived for a pass: from another stage, or from another chunk of this one.
    fn arrived(&mut self, pass: Pass) -> Option<Tensor> {
        let key = (pass.chunk, pass.micro, pass.backward);
        if let Some((tensor, ticket)) = self.arriving.remove(&key) {
            self.program.finish(ticket);
            return Some(tensor);
        }
        if self.recipe.mesh.pipeline > 1 {
            return None;
        }
        let from = if pass.backward { pass.chunk + 1 } else { pass.chunk.checked_sub(1)? };
        self.leaving.remove(&(from, pass.micro, pass.backward))
    }

    fn forward(&mut self, pass: Pass, chunk: Range<usize>) {
        let mut input = if chunk.start == 0 { self.first_input(pass.micro) } else { self.arrived(pass) };
        for block in chunk.clone() {
            let next = (block + 1 < chunk.end).then_some(block + 1);
            self.gather(block, next);
            let before = self.program.instructions.len();
            let saved = self.forward_block(block, pass.micro, input);
            self.mark(block, before);
            let output = saved.output();
            if self.recipe.recompute && block != self.last_block() {
                self.kept.insert((block, pass.micro), input);
            } else {
                self.saved.insert((block, pass.micro), saved);
            }
            input = Some(output);
            self.release(block);
        }
        if chunk.end <= self.last_block()
            && let Some(output) = input
        {
            self.leaving.insert((pass.chunk, pass.micro, false), output);
        }
    }

    fn forward_block(&mut self, block: usize, micro: usize, input: Option<Tensor>) -> engine::layers::Saved {
        let recipe = self.recipe;
        self.emit(block, micro).forward(&recipe.model.blocks[block], input)
    }

    fn backward(&mut self, pass: Pass, chunk: Range<usize>) {
        let recipe = self.recipe;
        let mut gradient = if chunk.end > self.last_block() { None } else { self.arrived(pass) };
        for block in chunk.clone().rev() {
            let next = (block > chunk.start).then(|| block - 1);
            self.gather(block, next);
            let saved = match self.kept.remove(&(block, pass.micro)) {
                Some(input) => self.forward_block(block, pass.micro, input),
                None => self.saved.remove(&(block, pass.micro)).expect("the forward pass came before"),
            };
            let before = self.program.instructions.len();
            let wants = block > 0;
            gradient = self.emit(block, pass.micro).backward(&recipe.model.blocks[block], &saved, gradient, wants);
            self.mark(block, before);
            self.release(block);
            self.wrote(block);
        }
        if let Some(gradient) = gradient {
            self.leaving.insert((pass.chunk, pass.micro, true), gradient);
        }
        self.add_up_shards();
    }

    /// What was emitted since `begin` is a pass of this block.
    fn mark(&mut self, block: usize, begin: usize) {
        self.model_flops += self.flops_since(begin);
        self.marks.push(PassMark { block, begin, end: self.program.instructions.len() });
    }

    fn flops_since(&self, instruction: usize) -> f64 {
        let runs = self.program.instructions[instruction..].iter();
        runs.map(|instruction| if let Instruction::Run(op) = instruction { engine::flops(op) } else { 0.0 }).sum()
    }

    pub(super) fn send(&mut self, transfer: Transfer) {
        let key = (transfer.from_chunk, transfer.micro, !transfer.up);
        let tensor = self.leaving.remove(&key).expect("a pass came before that gives this");
        // The memory is kept until it is sent; one at a time under way is enough.
        if let Some(ticket) = self.sending.remove(&(transfer.link, transfer.up)) {
            self.program.finish(ticket);
        }
        let ticket = self.program.start(exchange(transfer, tensor.view));
        self.sending.insert((transfer.link, transfer.up), ticket);
    }

    pub(super) fn receive(&mut self, transfer: Transfer) {
        // The boundary below the receiver's chunk (up) or above it (down).
        let chunk = &self.chunks[transfer.to_chunk];
        let block = if transfer.up { chunk.start - 1 } else { chunk.end - 1 };
        let shape = self.outputs[block];
        let len = shape.rows * shape.columns;
        let view = self.program.buffer(Category::Communication, Lifetime::Step, self.terms.element, len);
        let ticket = self.program.start(exchange(transfer, view));
        let tensor = Tensor { view, ..shape };
        self.arriving.insert((transfer.to_chunk, transfer.micro, !transfer.up), (tensor, ticket));
    }
}

fn exchange(transfer: Transfer, view: View) -> Exchange {
    let kind = ExchangeKind::Transfer { up: transfer.up };
    Exchange { axis: Axis::Link(transfer.link as u32), kind, input: view, output: view }
}

/// Stands for parameters where only shapes are wanted.
struct Nowhere(View);

impl Parameters for Nowhere {
    fn value(&self, _: &str) -> View {
        self.0
    }

    fn gradient(&mut self, _: &mut Program, _: &str) -> (View, bool) {
        (self.0, false)
    }

    fn padded(&self, _: &str, view: View) -> View {
        view
    }

    fn partial(&mut self, _: &str) {}
}

/// The shape of each block's output, for a micro-batch: what emitting all of them one after the other gives.
pub(super) fn outputs(recipe: &Recipe, terms: Terms) -> Vec<Tensor> {
    let mut program = Program::default();
    let nowhere = program.buffer(Category::Scalar, Lifetime::Step, Dtype::F64, 0);
    let input = recipe.model.input;
    let rows = recipe.micro_batch * input.rows();
    let batch = Batch {
        tokens: Some(nowhere),
        numbers: Some(nowhere),
        targets: Some(nowhere),
        samples: recipe.micro_batch,
        first_sample: 0,
    };
    let mut parameters = Nowhere(nowhere);
    let mut tensor =
        (input.columns() > 0).then(|| Tensor { view: nowhere, rows, columns: input.columns(), cut: Cut::Whole });
    let mut outputs = Vec::with_capacity(recipe.model.blocks.len());
    for block in &recipe.model.blocks {
        let mut emit = Emit { program: &mut program, terms, batch, parameters: &mut parameters, first_dropout: 0 };
        let output = emit.forward(block, tensor).output();
        outputs.push(output);
        tensor = Some(output);
    }
    outputs
}
