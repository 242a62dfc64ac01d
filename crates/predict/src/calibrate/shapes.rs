//! Which operations are measured: those of steps of some models, thinned so that few of them cover the sizes of many.

use std::collections::BTreeMap;

use engine::{Instruction, OperationShape};
use parallel::{Mesh, Recipe};
use terms::{Dtype, Error};

/// A model with the settings of a step.
struct SetModel {
    name: &'static str,
    settings: &'static [(&'static str, f64)],
    batches: &'static [usize],
    /// Parts that each layer is cut into.
    tensor: usize,
}

const fn model(name: &'static str, settings: &'static [(&'static str, f64)], batches: &'static [usize]) -> SetModel {
    SetModel { name, settings, batches, tensor: 1 }
}

/// Models of every family of the catalogue, of one layer where all layers are alike, and some whose sizes are not multiples of 8.
const MODELS: &[SetModel] = &[
    model("gpt2-mini", &[("layers", 1.0)], &[1, 4, 16]),
    model("gpt2-mini", &[("layers", 1.0), ("width", 180.0), ("heads", 9.0), ("vocabulary", 1009.0)], &[1, 3]),
    model("gpt2-mini", &[("layers", 1.0), ("width", 512.0), ("heads", 8.0), ("sequence", 256.0)], &[2]),
    SetModel { tensor: 2, ..model("gpt2-mini", &[("layers", 1.0)], &[2]) },
    model("transformer-small", &[("layers", 1.0), ("sequence", 64.0)], &[1, 2]),
    model("llama-tiny", &[("layers", 1.0)], &[1, 4]),
    model("bert-base", &[("layers", 1.0), ("sequence", 64.0)], &[1, 2]),
    model("gpt2", &[("layers", 1.0), ("sequence", 64.0)], &[1]),
    model("gpt2", &[("layers", 1.0), ("sequence", 512.0), ("vocabulary", 512.0)], &[1]),
    model("resnet18", &[("image", 64.0)], &[1, 4]),
    model("mlp", &[], &[1, 4, 32]),
];

/// How many operations of a kernel are measured at most, and the largest of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelBounds {
    /// Sizes of a kind of product or convolution, and of attention.
    pub(super) products: usize,
    /// Sizes of every other kernel.
    pub(super) others: usize,
    /// Floating-point operations of one call.
    pub(super) flops: f64,
    /// Bytes of one call; of updates four times as many, for they are far from all caches.
    pub(super) bytes: u64,
}

/// A calibration that is over in a minute.
pub(super) const QUICK: KernelBounds = KernelBounds { products: 11, others: 4, flops: 1.2e9, bytes: 32 << 20 };
/// A calibration that takes its time.
pub(super) const FULL: KernelBounds = KernelBounds { products: 40, others: 12, flops: 2e10, bytes: 512 << 20 };

/// Sizes that are closer than this to one that is measured are not, in powers of two.
const NEAR: f64 = 0.25;

/// The operations to measure in this precision, by kernel.
///
/// # Errors
/// A model that the catalogue has not: a mistake here.
pub(super) fn shapes(
    precision: Dtype,
    bounds: KernelBounds,
) -> Result<BTreeMap<&'static str, Vec<OperationShape>>, Error> {
    let mut found: BTreeMap<&'static str, Vec<OperationShape>> = BTreeMap::new();
    for model in MODELS {
        for batch in model.batches {
            for shape in of_step(model, *batch, precision)? {
                let of_kernel = found.entry(shape.kernel).or_default();
                let most = if shape.kernel == "adamw" { 4 * bounds.bytes } else { bounds.bytes };
                let fits = shape.flops <= bounds.flops && shape.bytes <= most && shape.bytes > 0;
                if fits && !of_kernel.iter().any(|known| is_same(known, &shape)) {
                    of_kernel.push(shape);
                }
            }
        }
    }
    for shapes in found.values_mut() {
        let most = if shapes.iter().any(|shape| shape.flops > 0.0) { bounds.products } else { bounds.others };
        *shapes = thinned(std::mem::take(shapes), most);
    }
    found.retain(|_, shapes| !shapes.is_empty());
    Ok(found)
}

fn is_same(one: &OperationShape, other: &OperationShape) -> bool {
    (one.dtype, &one.dims) == (other.dtype, &other.dims)
}

/// The operations of a step of the model's first rank.
fn of_step(model: &SetModel, batch: usize, precision: Dtype) -> Result<Vec<OperationShape>, Error> {
    let settings: Vec<(String, f64)> =
        model.settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let built = model::model(model.name, &settings).map_err(|error| error.error)?;
    let recipe = recipe(built, precision, batch, model.tensor);
    let program = parallel::program(&recipe, 0).map_err(|refused| refused.error)?;
    let shape = |instruction: &Instruction| match instruction {
        Instruction::Run(op) => Some(OperationShape::of(&program, op)),
        _ => None,
    };
    Ok(program.instructions.iter().filter_map(shape).collect())
}

/// Features of a model that computes next to nothing: its steps take what every pass and every step takes.
pub(super) const TINY: usize = 8;
/// Settings of that model.
pub(super) const TINY_SETTINGS: [(&str, usize); 4] =
    [("features", TINY), ("width", TINY), ("layers", 1), ("classes", 2)];

fn recipe(model: model::Model, precision: Dtype, micro_batch: usize, tensor: usize) -> Recipe {
    // Two micro-batches: the second adds to gradients that the first wrote.
    Recipe {
        micro_batch,
        micro_batches: vec![2],
        clip: Some(1.0),
        ..Recipe::plain(model, Mesh { tensor, ..Mesh::SERIAL }, precision)
    }
}

/// The sizes that cover the others best: the smallest and the largest work, then again and again the one that is farthest from all
/// that are taken (Gonzalez, Theoretical Computer Science 38, 1985: never more than twice as far as the best choice).
fn thinned(mut shapes: Vec<OperationShape>, most: usize) -> Vec<OperationShape> {
    shapes.sort_by_key(|shape| (shape.bytes, shape.dims.clone()));
    let mut taken: Vec<OperationShape> = Vec::new();
    let largest = shapes.pop();
    if most > 1 && !shapes.is_empty() {
        taken.push(shapes.remove(0));
    }
    taken.extend(largest);
    while taken.len() < most {
        let apart =
            |shape: &OperationShape| taken.iter().map(|other| distance(shape, other)).fold(f64::INFINITY, f64::min);
        let farthest =
            (0..shapes.len()).map(|at| (apart(&shapes[at]), at)).reduce(|a, b| if b.0 > a.0 { b } else { a });
        match farthest {
            Some((distance, at)) if distance >= NEAR => taken.push(shapes.remove(at)),
            _ => break,
        }
    }
    taken.sort_by_key(|shape| (shape.bytes, shape.dims.clone()));
    taken
}

/// How far sizes are apart, in powers of two: of the size that differs most, or of the bytes of what multiplies, for caches hold some and
/// not others. A flag that differs is as far as a factor of two.
fn distance(one: &OperationShape, other: &OperationShape) -> f64 {
    let apart = |a: u64, b: u64| ((1.0 + a as f64).log2() - (1.0 + b as f64).log2()).abs();
    let of_sizes = one.dims.iter().zip(&other.dims).map(|(a, b)| apart(*a, *b));
    of_sizes.fold(if one.flops > 0.0 { apart(one.bytes, other.bytes) } else { 0.0 }, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sizes_cover_those_of_all_models() {
        let found = shapes(Dtype::F32, QUICK).unwrap();
        let count: usize = found.values().map(Vec::len).sum();
        assert!((90..200).contains(&count), "{count} operations");
        for (kernel, shapes) in &found {
            assert!(shapes.len() <= QUICK.products, "{kernel}: {}", shapes.len());
            let most = if *kernel == "adamw" { 4 * QUICK.bytes } else { QUICK.bytes };
            assert!(shapes.iter().all(|shape| shape.flops <= QUICK.flops && shape.bytes <= most), "{kernel}");
        }
        for kernel in ["product_nn", "product_nt", "product_tn", "attention_forward", "conv_forward", "adamw", "rotary"]
        {
            assert!(found.contains_key(kernel), "{kernel}");
        }
        // Heads that are not a multiple of 8 wide, and products of so many columns.
        assert!(found["attention_forward"].iter().any(|shape| shape.dims[4] % 8 != 0));
        assert!(found["product_nt"].iter().any(|shape| shape.dims[1] % 8 != 0 || shape.dims[2] % 8 != 0));
    }

    #[test]
    fn products_of_few_rows_with_large_weights_are_measured() {
        let found = shapes(Dtype::F32, QUICK).unwrap();
        for kernel in ["product_nn", "product_nt", "product_tn"] {
            let is_there =
                |shape: &OperationShape| shape.dims.iter().take(3).any(|size| *size <= 4) && shape.bytes >= 16 << 20;
            assert!(found[kernel].iter().any(is_there), "{kernel}: {:?}", found[kernel]);
        }
    }

    #[test]
    fn no_size_is_far_from_all_that_are_measured() {
        // A factor of 23 in the size that differs most.
        let (all, few) =
            (KernelBounds { products: 10_000, others: 10_000, ..QUICK }, shapes(Dtype::F32, QUICK).unwrap());
        for (kernel, shapes) in shapes(Dtype::F32, all).unwrap() {
            for shape in shapes {
                let nearest = few[kernel].iter().map(|other| distance(&shape, other)).fold(f64::INFINITY, f64::min);
                assert!(nearest < 4.5, "{kernel} {:?} is {nearest} from the nearest", shape.dims);
            }
        }
    }

    #[test]
    fn other_precisions_have_other_types() {
        let found = shapes(Dtype::Bf16, QUICK).unwrap();
        assert!(found["product_nt"].iter().all(|shape| shape.dtype == Dtype::Bf16));
        assert!(found["adamw"].iter().all(|shape| shape.dtype == Dtype::F32 && shape.dims[1] == 2));
    }
}
