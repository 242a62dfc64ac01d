//! What does not fit is refused, with the arithmetic.

use super::equal::{gpt2, resnet};
use super::scaffold::{on, recipe};
use crate::{Recipe, Schedule, check};

fn refused(recipe: &Recipe, field: &str, words: &str) {
    let refusal = check(recipe).expect_err("it does not fit");
    assert_eq!(refusal.field, field, "{refusal}");
    assert!(refusal.message.contains(words), "{refusal}");
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
