//! What does not fit is refused, with the arithmetic.

use super::equal::{gpt2, resnet};
use super::scaffold::{on, recipe};
use crate::check::MOST_PASSES;
use crate::strategies::build;
use crate::{Coordinate, Recipe, Schedule, check};

fn refused(recipe: &Recipe, field: &str, words: &str) {
    let refusal = check(recipe).expect_err("it does not fit");
    assert_eq!(refusal.field, field, "{refusal}");
    assert!(refusal.error.what.contains(words), "{refusal}");
}

#[test]
fn with_the_arithmetic() {
    let serial = recipe(gpt2(), 1, 4);
    check(&serial).expect("the serial recipe fits");
    refused(&Recipe { micro_batch: 0, ..serial.clone() }, "batch", "no sample");
    refused(&on(&serial, 1, 3, 1), "mesh", "4 attention heads do not divide into 3 parts");
    refused(&on(&serial, 1, 1, 5), "mesh", "5 places for 4 blocks");
    refused(&Recipe { chunks: 2, ..on(&serial, 1, 1, 2) }, "chunks", "2 chunks");
    let interleaved = Recipe { schedule: Schedule::Interleaved, chunks: 2, ..on(&serial, 1, 1, 2) };
    refused(
        &Recipe { micro_batches: vec![3], ..interleaved },
        "micro_batches",
        "3 micro-batches are not a multiple of 2",
    );
    refused(&Recipe { micro_batches: vec![1, 3], sharded: 2, ..on(&serial, 2, 1, 1) }, "load_balance", "equal numbers");
    refused(&Recipe { stages: vec![1, 1], ..on(&serial, 1, 1, 2) }, "balance", "[1, 1]");
    // Without batch norm there is nothing to synchronise.
    let uneven = Recipe { micro_batches: vec![1, 3], synchronised: true, ..on(&serial, 2, 1, 1) };
    check(&uneven).expect("unequal numbers fit");
    let images = Recipe { micro_batches: vec![1, 3], synchronised: true, ..on(&recipe(resnet(), 1, 4), 2, 1, 1) };
    refused(&images, "load_balance", "batch norm");
}

#[test]
fn a_step_too_long_to_be_planned_names_what_makes_it_long() {
    let small = recipe(gpt2(), 1, 1);
    let layers: usize = small.model.blocks.iter().map(|block| block.nodes.len()).sum();
    let most = MOST_PASSES / layers;
    check(&Recipe { micro_batches: vec![most], ..small.clone() }).expect("the longest step fits");
    refused(&Recipe { micro_batches: vec![most + 1], ..small.clone() }, "micro_batches", "layer passes a step");
    refused(&Recipe { micro_batches: vec![1, usize::MAX], ..on(&recipe(gpt2(), 1, 2), 2, 1, 1) }, "micro_batches", "x");
}

/// What the bound on layer passes bounds: instructions and buffers, of every kind of layer and all that recomputing adds.
#[test]
fn programs_are_in_proportion_to_layer_passes() {
    for model in [gpt2(), resnet()] {
        let layers: usize = model.blocks.iter().map(|block| block.nodes.len()).sum();
        let long = Recipe { recompute: true, ..recipe(model, 1, 64) };
        let built = build(&long, Coordinate { data: 0, tensor: 0, pipeline: 0 }).expect("it fits");
        let (passes, program) = (64 * layers, &built.program);
        assert!(program.instructions.len() < 8 * passes, "{} of {passes}", program.instructions.len());
        assert!(program.buffers.len() < 8 * passes, "{} of {passes}", program.buffers.len());
    }
}
