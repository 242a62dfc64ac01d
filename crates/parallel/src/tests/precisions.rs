//! Types narrower than f32: masters in f32 train as f64 does, up to the rounding of what is computed in between.

use terms::Dtype;

use super::equal::gpt2;
use super::scaffold::{on, recipe, train};
use crate::{Optimizer, Recipe};

const STEPS: usize = 12;

fn adamw(precision: Dtype) -> Recipe {
    let optimizer = Optimizer::AdamW { rate: 3e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 };
    Recipe { precision, optimizer, clip: Some(1.0), ..recipe(gpt2(), 2, 2) }
}

/// Losses follow those of f64 within what a unit roundoff `u` of activations makes of a loss of about ln(29). That is a
/// few dozen roundings in a row, and each changes the loss by at most about u of it.
#[test]
fn losses_follow_those_of_f64() {
    let exact = train(&adamw(Dtype::F64), STEPS);
    for (precision, u) in [(Dtype::Bf16, 2f64.powi(-9)), (Dtype::F16, 2f64.powi(-12))] {
        for parallel in [adamw(precision), Recipe { sharded: 1, ..on(&adamw(precision), 2, 1, 1) }] {
            let losses = train(&parallel, STEPS).losses;
            for (step, (ours, exact)) in losses.iter().zip(&exact.losses).enumerate() {
                let apart = (ours - exact).abs() / exact;
                assert!(apart <= 30.0 * u, "{precision}, step {step}: {ours} and {exact}, {apart:e} apart");
            }
            assert_ne!(losses, exact.losses, "{precision} rounds");
        }
    }
}

/// Loss scaling: gradients that do not fit into f16 are found, the step is skipped, and the scale comes down until they do.
/// An update with a learning rate of this size would otherwise leave nothing finite.
#[test]
fn overflowing_gradients_skip_their_step() {
    let one = train(&adamw(Dtype::F16), 1);
    let scaled_by = |factor: f64| super::scaffold::train_scaled(&adamw(Dtype::F16), 1, factor);
    // 2^15 more than where scaling begins: far above the largest f16.
    let skipped = scaled_by(65536.0 * 32768.0);
    assert_eq!(skipped.outcome.losses, one.losses, "the loss itself is not scaled");
    assert_eq!(skipped.outcome.parameters, skipped.before, "a skipped step changes nothing");
    assert_eq!(skipped.scale, 32768.0 * 32768.0, "the next step is scaled by half");
    let fine = scaled_by(1024.0);
    assert_ne!(fine.outcome.parameters, fine.before);
    assert_eq!(fine.scale, 1024.0);
}
