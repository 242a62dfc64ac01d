//! The pieces of a step, put together again, are the program.

use std::collections::BTreeMap;

use super::*;

fn recipe(mesh: Mesh, micros: usize) -> Recipe {
    let model = model::model("gpt2-mini", &[]).unwrap();
    Recipe {
        micro_batch: 2,
        micro_batches: vec![micros; mesh.data],
        bucket_bytes: 1 << 20,
        clip: Some(1.0),
        ..Recipe::plain(model, mesh, Dtype::F32)
    }
}

/// Kernels by name with their number, operations and bytes, and exchanges by axis with their number and bytes.
type Counts = (BTreeMap<&'static str, (usize, f64)>, BTreeMap<Axis, (usize, u64)>);

fn add(counts: &mut Counts, pieces: &[PassWork], times: usize) {
    for piece in pieces {
        match piece {
            PassWork::Run { shape, .. } => {
                let sum = counts.0.entry(shape.kernel).or_default();
                sum.0 += times;
                sum.1 += shape.flops * times as f64;
            }
            PassWork::Exchange { axis, bytes, .. } => {
                let sum = counts.1.entry(*axis).or_default();
                sum.0 += times;
                sum.1 += bytes * times as u64;
            }
        }
    }
}

/// What the pieces of a stage come to, with the exchanges of gradients and of the loss that are not in any.
fn put_together(recipe: &Recipe, stage: usize) -> Counts {
    let (pieces, own) = (pieces(recipe).unwrap(), stage_pieces(recipe, stage).unwrap());
    let mut counts = Counts::default();
    let micros = recipe.micro_batches[0];
    let last = recipe.model.blocks.len() - 1;
    for block in own.chunks.iter().cloned().flatten() {
        let of_block = &pieces.blocks[pieces.places[block]];
        let again = usize::from(recipe.recompute && block != last);
        add(&mut counts, &of_block.forward, micros * (1 + again));
        add(&mut counts, &of_block.backward, micros);
    }
    add(&mut counts, &own.update, 1);
    let exchange = |axis, kind, bytes| PassWork::Exchange { axis, kind, bytes };
    for unit in &own.units {
        let bytes = unit.elements as u64 * own.state.bytes();
        if recipe.mesh.data > 1 {
            add(&mut counts, &[exchange(Axis::Data, ExchangeKind::Sum, bytes)], 1);
        }
        if unit.tied {
            add(&mut counts, &[exchange(Axis::Ends, ExchangeKind::Sum, bytes)], 1);
        }
        for bytes in &unit.partials {
            add(&mut counts, &[exchange(Axis::Tensor, ExchangeKind::Sum, *bytes)], 1);
        }
    }
    if recipe.mesh.ranks() > 1 {
        add(&mut counts, &[exchange(Axis::World, ExchangeKind::Sum, 8)], 1);
    }
    counts
}

fn of_program(recipe: &Recipe, stage: usize) -> Counts {
    let rank = stage * recipe.mesh.data * recipe.mesh.tensor;
    let program = crate::program(recipe, rank).unwrap();
    let end = program.instructions.len();
    let mut counts = Counts::default();
    add(&mut counts, &listed(&program, PassMark { block: 0, begin: 0, end }), 1);
    counts
}

#[test]
fn pieces_come_to_the_operations_and_exchanges_of_the_program() {
    let meshes = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2), (1, 4, 3)];
    for (data, tensor, pipeline) in meshes {
        for (recompute, sequence_parallel) in [(false, false), (true, false), (false, true)] {
            let plain = recipe(Mesh { data, tensor, pipeline }, 4);
            let recipe = Recipe { recompute, sequence_parallel, ..plain };
            for stage in 0..pipeline {
                let (found, wanted) = (put_together(&recipe, stage), of_program(&recipe, stage));
                for (kernel, (count, flops)) in &wanted.0 {
                    // Zeros, and sums of squares of the share of each part, are not passes of blocks.
                    if matches!(*kernel, "fill" | "sum_squares") {
                        continue;
                    }
                    let (other, own) = found.0.get(kernel).copied().unwrap_or_default();
                    assert_eq!((other, own), (*count, *flops), "{kernel} of stage {stage} of {}", recipe.mesh);
                }
                for axis in [Axis::Data, Axis::Ends, Axis::World, Axis::Tensor] {
                    assert_eq!(found.1.get(&axis), wanted.1.get(&axis), "{axis:?} of stage {stage} of {}", recipe.mesh);
                }
            }
        }
    }
}

/// A norm behind the lookup saw some of the rows; what reads numbers saw all.
#[test]
fn gradients_that_a_tensor_group_sums_are_those_of_the_program() {
    let bert = [("layers", 2.0), ("width", 64.0), ("heads", 4.0), ("vocabulary", 512.0), ("sequence", 16.0)];
    let mlp = [("layers", 2.0), ("width", 64.0), ("features", 16.0)];
    for (name, settings) in [("bert-base", &bert[..]), ("mlp", &mlp[..])] {
        let settings: Vec<(String, f64)> = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let plain = recipe(Mesh { data: 1, tensor: 2, pipeline: 1 }, 2);
        let recipe = Recipe { model: model::model(name, &settings).unwrap(), sequence_parallel: true, ..plain };
        let (found, wanted) = (put_together(&recipe, 0), of_program(&recipe, 0));
        assert_eq!(found.1.get(&Axis::Tensor), wanted.1.get(&Axis::Tensor), "{name}");
    }
}

#[test]
fn what_a_stage_holds_is_what_its_plan_holds() {
    for sharded in 0..=3 {
        let recipe = Recipe { sharded, ..recipe(Mesh { data: 2, tensor: 1, pipeline: 2 }, 4) };
        for stage in 0..2 {
            let outline = crate::outline(&recipe, stage * 2, |_| 0).unwrap();
            let own = stage_pieces(&recipe, stage).unwrap();
            for category in [Category::Parameter, Category::Optimizer] {
                assert_eq!(own.held[&category], outline.categories[&category] as u64, "{category:?} {sharded}");
            }
        }
    }
}
