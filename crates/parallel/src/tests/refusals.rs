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

/// Both are legal models, whose logits would leave a rank without a column.
#[test]
fn logits_have_a_column_for_each_part() {
    let model = |name: &str, settings: &[(&str, f64)]| {
        let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        model::model(name, &settings).expect("a model")
    };
    let mlp = |classes| model("mlp", &[("layers", 1.0), ("width", 8.0), ("features", 4.0), ("classes", classes)]);
    let text = |tokens| {
        let dimensions = [("layers", 1.0), ("width", 24.0), ("heads", 4.0), ("vocabulary", tokens), ("sequence", 6.0)];
        model("gpt2", &dimensions)
    };
    let cut = |model, parts| on(&recipe(model, 1, 4), 1, parts, 1);
    refused(&cut(mlp(2.0), 4), "mesh", "2 classes / 4 parts of each layer");
    refused(&cut(mlp(10.0), 16), "mesh", "10 classes / 16 parts of each layer");
    refused(&cut(text(2.0), 4), "mesh", "2 tokens of the vocabulary / 4 parts of each layer");
    check(&cut(mlp(2.0), 2)).expect("a column each");
    check(&cut(mlp(5.0), 4)).expect("one has two columns, the others one");
    check(&cut(text(4.0), 4)).expect("a column each");
}

/// A vector is one row: parts of a tensor group share the samples of a micro-batch.
#[test]
fn rows_of_vectors_divide_among_parts_too() {
    let settings = [("layers".to_owned(), 1.0), ("width".to_owned(), 8.0), ("features".to_owned(), 4.0)];
    let vectors = recipe(model::model("mlp", &settings).expect("a model"), 3, 4);
    let cut = Recipe { sequence_parallel: true, ..on(&vectors, 1, 2, 1) };
    refused(&cut, "sequence_parallel", "3 x 1 = 3 rows do not divide into 2 parts");
    check(&Recipe { micro_batch: 4, ..cut }).expect("two rows each");
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
