//! Programs that are wrong in one place: each must end up elsewhere than the right one, or the proofs prove nothing.

use engine::op::{Dense, Op, Rows};
use engine::{Axis, ExchangeKind, Instruction, Program};

use super::equal::gpt2;
use super::scaffold::{Edit, difference, on, recipe, train, train_edited};
use crate::Recipe;

const STEPS: usize = 3;

/// Trains with programs that `edit` changes; the outcome must differ by far more than the proofs allow.
fn must_differ(what: &str, right: &Recipe, edit: Edit<'_>) {
    let before = train(right, STEPS);
    let after = train_edited(right, STEPS, 1, edit);
    let apart = difference(&before, &after);
    assert!(after.differing > 0 || apart > 1e-6, "{what}: nobody noticed ({apart:e})");
}

/// Takes out the exchange of this kind that comes as number `which`, on every rank.
fn without(axis: Axis, kind: ExchangeKind, which: usize) -> impl Fn(usize, &mut Program) + Sync {
    move |_, program| {
        let mut seen = 0;
        let is_it = |instruction: &Instruction| {
            let Instruction::Start { exchange, .. } = instruction else { return false };
            if exchange.axis != axis || exchange.kind != kind {
                return false;
            }
            seen += 1;
            seen - 1 == which
        };
        let at = program.instructions.iter().position(is_it).expect("there is such an exchange");
        program.instructions.remove(at);
    }
}

#[test]
fn a_bucket_that_is_not_reduced() {
    let right = on(&recipe(gpt2(), 1, 2), 2, 1, 1);
    for which in [0, 1, 5] {
        must_differ("skipped bucket", &right, &without(Axis::Data, ExchangeKind::Sum, which));
    }
}

#[test]
fn two_micro_batches_swapped() {
    let right = on(&recipe(gpt2(), 1, 4), 1, 1, 2);
    must_differ("swapped micro-batches", &right, &|rank, program| {
        if rank == 0 {
            let tokens: Vec<_> = program
                .instructions
                .iter()
                .filter_map(|instruction| match instruction {
                    Instruction::Run(Op::Rows(Rows::EmbeddingForward { tokens, .. })) => Some(*tokens),
                    _ => None,
                })
                .collect();
            for instruction in &mut program.instructions {
                if let Instruction::Run(Op::Rows(Rows::EmbeddingForward { tokens: view, .. })) = instruction {
                    if *view == tokens[0] {
                        *view = tokens[1];
                    } else if *view == tokens[1] {
                        *view = tokens[0];
                    }
                }
            }
        }
    });
}

#[test]
fn the_tied_gradient_dropped() {
    // The head's product with the logits' gradient: the largest m of all.
    let right = recipe(gpt2(), 1, 2);
    must_differ("tied gradient", &right, &|_, program| {
        let is_head = |instruction: &Instruction| matches!(instruction, Instruction::Run(Op::Dense(Dense::MatMul(op))) if op.a_transposed && op.m == 29);
        assert!(program.instructions.iter().any(is_head), "there is a head");
        let mut kept = Vec::new();
        for instruction in program.instructions.drain(..) {
            if is_head(&instruction) {
                if let Instruction::Run(Op::Dense(Dense::MatMul(op))) = instruction {
                    kept.push(Instruction::Run(Op::Rows(Rows::Fill { y: op.c, value: 0.0 })));
                }
            } else {
                kept.push(instruction);
            }
        }
        program.instructions = kept;
    });
    let ends = on(&recipe(gpt2(), 1, 2), 1, 1, 2);
    must_differ("tied gradient across stages", &ends, &without(Axis::Ends, ExchangeKind::Sum, 0));
}

#[test]
fn a_sequence_parallel_reduction_forgotten() {
    let right = Recipe { sequence_parallel: true, ..on(&recipe(gpt2(), 1, 2), 1, 2, 1) };
    for which in [0, 1] {
        must_differ("sequence-parallel reduction", &right, &without(Axis::Tensor, ExchangeKind::Sum, which));
    }
}
