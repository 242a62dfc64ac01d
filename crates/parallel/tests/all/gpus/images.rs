//! Convolutional networks: convolutions by cuDNN, batch norm and pooling by our kernels.

use model::Model;
use parallel::{Mesh, Recipe};
use terms::Dtype;

use super::{On, SGD, STEPS, apart, bits, recipe, small, surrounded, train};

fn resnet(name: &str) -> Model {
    let stages = [("stage1", 1.0), ("stage2", 1.0), ("stage3", 1.0), ("stage4", 1.0)];
    let dimensions = [("image", 33.0), ("classes", 7.0), ("width", 8.0)];
    small(name, &[&dimensions[..], &stages[..]].concat())
}

/// On one GPU, by replicas whose norms count together, and by stages: as on the host, in f64 to the order of sums.
#[test]
fn convolutions_train_on_gpus_as_on_the_host() {
    if surrounded("convolutions_train_on_gpus_as_on_the_host").is_none() {
        return;
    }
    for (name, ways) in [("resnet18", 5), ("resnet50", 1)] {
        let serial = Recipe { optimizer: SGD, ..recipe(resnet(name), Dtype::F64) };
        let data = |sharded, synchronised| Recipe {
            mesh: Mesh { data: 2, ..Mesh::SERIAL },
            micro_batches: vec![1, 1],
            sharded,
            synchronised,
            ..serial.clone()
        };
        let pipeline = Recipe { mesh: Mesh { pipeline: 2, ..Mesh::SERIAL }, ..serial.clone() };
        let recomputed = Recipe { recompute: true, ..serial.clone() };
        for recipe in [serial.clone(), data(0, true), data(2, false), pipeline, recomputed].into_iter().take(ways) {
            let (host, there) = (train(On::Host, &recipe, STEPS), train(On::Gpus("nccl"), &recipe, STEPS));
            let off = apart(&there, &host);
            assert!(off <= 1e-9, "{name}, {} sharded {}: {off:e} apart", recipe.mesh, recipe.sharded);
        }
        assert_eq!(
            bits(&train(On::Gpus("nccl"), &data(2, false), STEPS)),
            bits(&train(On::Gpus("nccl"), &data(2, false), STEPS)),
            "{name}: the same bits each time"
        );
    }
}

/// Types narrower than f64, whose gradients of weights cuDNN gives in as many bits as images have: losses follow those of the host.
#[test]
fn narrow_images_train_on_gpus() {
    if surrounded("narrow_images_train_on_gpus").is_none() {
        return;
    }
    for (precision, u) in [(Dtype::F32, 2f64.powi(-24)), (Dtype::Bf16, 2f64.powi(-9)), (Dtype::F16, 2f64.powi(-12))] {
        let recipe = Recipe { optimizer: SGD, ..recipe(resnet("resnet18"), precision) };
        let (host, there) = (train(On::Host, &recipe, STEPS), train(On::Gpus("nccl"), &recipe, STEPS));
        for (a, b) in there[0].losses().iter().zip(host[0].losses()) {
            // Some dozen roundings in a row, each of which a norm over few rows may double.
            assert!((a - b).abs() <= 100.0 * u * b.abs(), "{precision}: {a} and {b}");
        }
        assert_eq!(there[0].scale, host[0].scale, "{precision}");
    }
}
