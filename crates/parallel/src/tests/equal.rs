//! Parallel equals serial: in f64 to 1e-9 over ten steps.

use model::Model;
use terms::Dtype;

use super::scaffold::{Outcome, difference, on, recipe, train};
use crate::{Optimizer, Recipe, Schedule};

const STEPS: usize = 10;

fn small(name: &str, settings: &[(&str, f64)]) -> Model {
    let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    model::model(name, &settings).unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn gpt2() -> Model {
    let dimensions =
        [("layers", 2.0), ("width", 24.0), ("heads", 4.0), ("vocabulary", 29.0), ("sequence", 6.0), ("dropout", 0.1)];
    small("gpt2", &dimensions)
}

fn llama() -> Model {
    small(
        "llama-tiny",
        &[
            ("layers", 2.0),
            ("width", 24.0),
            ("heads", 4.0),
            ("kv_heads", 2.0),
            ("ffn", 36.0),
            ("vocabulary", 31.0),
            ("sequence", 6.0),
        ],
    )
}

fn bert() -> Model {
    small(
        "bert-base",
        &[
            ("layers", 2.0),
            ("width", 24.0),
            ("heads", 4.0),
            ("ffn", 48.0),
            ("vocabulary", 27.0),
            ("sequence", 6.0),
            ("dropout", 0.1),
        ],
    )
}

pub(super) fn resnet() -> Model {
    let stages = [("stage1", 1.0), ("stage2", 1.0), ("stage3", 1.0), ("stage4", 1.0)];
    let dimensions = [("image", 33.0), ("classes", 7.0), ("width", 8.0)];
    small("resnet18", &[&dimensions[..], &stages[..]].concat())
}

fn same(serial: &Outcome, parallel: &Recipe) {
    let parallel_outcome = train(parallel, STEPS);
    let apart = difference(serial, &parallel_outcome);
    assert!(apart <= 1e-9, "{apart:e} apart: {} {} sharded {}", parallel.mesh, parallel.schedule, parallel.sharded);
    // Training went somewhere.
    assert_ne!(serial.losses[0], serial.losses[STEPS - 1]);
}

#[test]
fn data() {
    let serial = Recipe { clip: Some(0.5), ..recipe(gpt2(), 2, 4) };
    let outcome = train(&serial, STEPS);
    for sharded in 0..=3 {
        for overlap in [false, true] {
            same(&outcome, &Recipe { sharded, overlap, ..on(&serial, 2, 1, 1) });
        }
    }
    same(&outcome, &Recipe { sharded: 3, recompute: true, ..on(&serial, 4, 1, 1) });
}

#[test]
fn unequal_numbers_of_micro_batches() {
    let serial = recipe(gpt2(), 2, 4);
    let outcome = train(&serial, STEPS);
    for sharded in [0, 1] {
        same(&outcome, &Recipe { micro_batches: vec![1, 3], sharded, ..on(&serial, 2, 1, 1) });
    }
}

#[test]
fn tensor() {
    for model in [gpt2(), llama(), bert()] {
        let adam = Optimizer::ADAMW;
        let serial = Recipe { clip: Some(1.0), optimizer: adam, ..recipe(model, 2, 2) };
        let outcome = train(&serial, STEPS);
        for sequence_parallel in [false, true] {
            same(&outcome, &Recipe { sequence_parallel, ..on(&serial, 1, 2, 1) });
        }
    }
}

#[test]
fn pipeline() {
    let serial = recipe(gpt2(), 1, 4);
    let outcome = train(&serial, STEPS);
    for schedule in [Schedule::GPipe, Schedule::OneForwardOneBackward] {
        for stages in [2, 4] {
            for overlap in [false, true] {
                same(&outcome, &Recipe { schedule, overlap, ..on(&serial, 1, 1, stages) });
            }
        }
    }
    let interleaved = Recipe { schedule: Schedule::Interleaved, chunks: 2, ..on(&serial, 1, 1, 2) };
    same(&outcome, &interleaved);
    same(&outcome, &Recipe { stages: vec![3, 1], ..on(&serial, 1, 1, 2) });
}

#[test]
fn hybrid() {
    let serial = Recipe { clip: Some(1.0), ..recipe(gpt2(), 1, 4) };
    let outcome = train(&serial, STEPS);
    same(&outcome, &on(&serial, 2, 2, 1));
    same(&outcome, &Recipe { sharded: 1, ..on(&serial, 2, 1, 2) });
    same(&outcome, &Recipe { sharded: 3, ..on(&serial, 2, 1, 2) });
    same(&outcome, &Recipe { sequence_parallel: true, ..on(&serial, 1, 2, 2) });
    same(&outcome, &Recipe { sequence_parallel: true, sharded: 2, recompute: true, ..on(&serial, 2, 2, 2) });
}

#[test]
fn convolutions() {
    let serial = recipe(resnet(), 2, 2);
    let outcome = train(&serial, STEPS);
    same(&outcome, &on(&serial, 2, 1, 1));
    same(&outcome, &on(&serial, 1, 1, 2));
    // Batch norm over both replicas' rows is batch norm over a batch twice as large.
    let whole = recipe(resnet(), 4, 1);
    let outcome = train(&whole, STEPS);
    let halves = Recipe {
        micro_batch: 2,
        synchronised: true,
        micro_batches: vec![1, 1],
        ..on(&recipe(resnet(), 2, 2), 2, 1, 1)
    };
    same(&outcome, &halves);
}

#[test]
fn threads_change_only_the_order_of_sums() {
    let serial = recipe(gpt2(), 2, 2);
    let one = train(&serial, STEPS);
    let two = super::scaffold::train_edited(&serial, STEPS, 2, &|_, _| {});
    assert!(difference(&one, &two) <= 1e-9);
    // The same bits every time.
    let again = super::scaffold::train_edited(&serial, STEPS, 2, &|_, _| {});
    assert_eq!(two.losses, again.losses);
}

/// In f32 the difference is that of another order of sums: no larger than what another order of the micro-batches and
/// another number of threads makes of the serial run itself.
#[test]
fn single_precision_differs_by_rounding_only() {
    let serial = Recipe { precision: Dtype::F32, ..recipe(gpt2(), 2, 4) };
    let outcome = train(&serial, STEPS);
    let exact = train(&Recipe { precision: Dtype::F64, ..serial.clone() }, STEPS);
    let rounding = difference(&exact, &outcome);
    for parallel in [on(&serial, 2, 1, 1), on(&serial, 1, 2, 1), on(&serial, 1, 1, 2)] {
        let apart = difference(&outcome, &train(&parallel, STEPS));
        assert!(apart <= 4.0 * rounding, "{apart:e} apart, rounding makes {rounding:e}: {}", parallel.mesh);
    }
}

#[test]
fn a_network_without_attention() {
    let serial = recipe(small("mlp", &[("width", 20.0), ("features", 12.0), ("layers", 3.0)]), 2, 4);
    let outcome = train(&serial, STEPS);
    same(&outcome, &on(&serial, 2, 1, 1));
    same(&outcome, &on(&serial, 1, 1, 2));
}

/// Shares by measured speed: whatever they are, the gradient stays exact.
#[test]
fn balanced_by_measured_times() {
    let serial = recipe(gpt2(), 2, 4);
    let outcome = train(&serial, STEPS);
    let (blocks, replicas) = super::scaffold::speeds(&on(&serial, 2, 1, 2));
    assert!(blocks.len() == serial.model.blocks.len() && blocks.iter().all(|seconds| *seconds > 0.0), "{blocks:?}");
    assert!(replicas.len() == 2 && replicas.iter().all(|seconds| *seconds > 0.0), "{replicas:?}");
    let stages = crate::balance::stages(&blocks, 2);
    let micro_batches = crate::balance::micro_batches(4, &replicas);
    same(&outcome, &Recipe { stages, micro_batches, ..on(&serial, 2, 1, 2) });
}

/// Rows of logits that are longer than their classes, as GPUs have them: the same training, however the work is divided.
#[test]
fn padded_logits() {
    for model in [gpt2(), llama(), bert()] {
        let serial = Recipe { clip: Some(0.5), ..recipe(model, 2, 4) };
        let outcome = train(&serial, STEPS);
        let padded = Recipe { logits_multiple: 64, ..serial };
        same(&outcome, &padded);
        same(&outcome, &Recipe { sharded: 3, ..on(&padded, 2, 1, 1) });
        same(&outcome, &Recipe { sequence_parallel: true, ..on(&padded, 1, 2, 1) });
        same(&outcome, &Recipe { sharded: 1, ..on(&padded, 2, 1, 2) });
    }
}
