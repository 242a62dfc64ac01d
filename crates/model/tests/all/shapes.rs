//! Shape inference over random settings, and graphs that it must refuse.

use model::{Layer, Model, Part, Value};
use proptest::prelude::*;

use crate::counts::with;

fn transformer() -> impl Strategy<Value = Model> {
    let dimensions = (0usize..3, 1usize..4, 1usize..5, 1usize..4, 1usize..9, 1usize..40, 2usize..60, any::<bool>());
    dimensions.prop_map(|(family, layers, kv_heads, group, half, sequence, vocabulary, dropout)| {
        let heads = kv_heads * if family == 1 { group } else { 1 };
        let mut settings = vec![
            ("layers", layers as f64),
            ("heads", heads as f64),
            ("width", (heads * half * 2) as f64),
            ("ffn", (group * half + 1) as f64),
            ("sequence", sequence as f64),
            ("vocabulary", vocabulary as f64),
            ("dropout", if dropout { 0.25 } else { 0.0 }),
        ];
        if family == 1 {
            settings.push(("kv_heads", kv_heads as f64));
        } else {
            settings.push(("positions", (sequence + group) as f64));
        }
        with(["gpt2", "llama-1b", "bert-base"][family], &settings)
    })
}

fn image() -> impl Strategy<Value = Model> {
    (any::<bool>(), 1usize..80, 1usize..9, 1usize..4, 1usize..3, 1usize..12).prop_map(
        |(deep, size, width, first, last, classes)| {
            let settings = [
                ("image", size as f64),
                ("width", width as f64),
                ("stage1", first as f64),
                ("stage2", 1.0),
                ("stage3", 1.0),
                ("stage4", last as f64),
                ("classes", classes as f64),
            ];
            with(if deep { "resnet50" } else { "resnet18" }, &settings)
        },
    )
}

/// Sound, with FLOPs that fit its products, and parts of its parameters that make the whole.
fn check(model: &Model, of: usize) -> Result<(), TestCaseError> {
    let shapes = model.shapes().map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(shapes.len(), model.blocks.len());
    prop_assert!(model.forward_flops().unwrap() > 0.0);
    for parameter in model.parameters() {
        let mut held = vec![0u32; parameter.len()];
        for index in 0..of {
            let part = Part { index, of };
            let runs = parameter.part_runs(part);
            prop_assert_eq!(runs.iter().map(|run| run.1).sum::<usize>(), parameter.part_len(part));
            for (first, len) in runs {
                held[first..first + len].iter_mut().for_each(|held| *held += 1);
            }
        }
        let times = if parameter.shard == model::Shard::Whole { of as u32 } else { 1 };
        prop_assert!(held.iter().all(|held| *held == times), "{}", parameter.name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn transformers_of_any_dimensions_are_sound(model in transformer(), of in 1usize..4) {
        check(&model, of)?;
    }

    #[test]
    fn resnets_of_any_dimensions_are_sound(model in image(), of in 1usize..4) {
        check(&model, of)?;
    }
}

/// A small GPT-2 after `change`; why it is unsound.
fn unsound(change: impl FnOnce(&mut Model)) -> String {
    let mut model =
        with("gpt2", &[("layers", 1.0), ("width", 8.0), ("heads", 2.0), ("vocabulary", 11.0), ("sequence", 4.0)]);
    change(&mut model);
    model.shapes().unwrap_err().to_string()
}

#[test]
fn unsound_graphs_are_found() {
    let width = |model: &mut Model| {
        let Layer::Linear(fc) = &mut model.blocks[1].nodes[6].layer else { panic!() };
        fc.inputs = 9;
    };
    assert_eq!(unsound(width), "h.0.mlp.fc: takes 9 columns, is given [4, 8]");
    assert_eq!(
        unsound(|model| model.blocks[1].nodes[4].inputs = vec![Value::Input, Value::Node(1)]),
        "h.0.attn.add: adds [4, 8] and [4, 24]"
    );
    assert_eq!(
        unsound(|model| model.blocks[1].nodes[4].inputs = vec![Value::Node(4), Value::Input]),
        "h.0.attn.add: reads node 4, and is node 4"
    );
    assert_eq!(
        unsound(|model| model.blocks[1].nodes[4].inputs = vec![Value::Input]),
        "h.0.attn.add: has 1 inputs, takes 2 to 2"
    );
    assert_eq!(
        unsound(|model| model.blocks[0].name = "lookup".to_owned()),
        "head.output: is tied to embedding.lookup.tokens, which does not exist"
    );
    let twice = |model: &mut Model| {
        let again = model.blocks[1].clone();
        model.blocks.insert(1, again);
    };
    assert_eq!(unsound(twice), "h.0.ln_1.weight: names two parameters");
    let early = "the loss is the last node of a model, and the only one";
    assert_eq!(unsound(|model| drop(model.blocks.pop())), format!("h.0.mlp.add: {early}"));
    assert_eq!(
        unsound(|model| drop(model.blocks.remove(0))),
        "h.0.ln_1: tokens enter embeddings and only they do; the input is [4, 0]"
    );
    let positions = |model: &mut Model| {
        let Layer::Embedding(lookup) = &mut model.blocks[0].nodes[0].layer else { panic!() };
        lookup.positions = 3;
    };
    assert_eq!(unsound(positions), "embedding.lookup: has 3 positions for 4 tokens");
    assert_eq!(unsound(|model| model.blocks[2].nodes.clear()), "head: has no nodes");
}

#[test]
fn shapes_of_a_bottleneck() {
    let model = with("resnet50", &[("image", 32.0)]);
    let shapes = model.shapes().unwrap();
    let last = |block: &str| {
        let at = model.blocks.iter().position(|held| held.name == block).unwrap();
        shapes[at].last().unwrap().to_string()
    };
    assert_eq!(last("stem"), "[64, 64]");
    assert_eq!(last("layer1.2"), "[64, 256]");
    assert_eq!(last("layer2.0"), "[16, 512]");
    assert_eq!(last("layer4.2"), "[1, 2048]");
    assert_eq!(last("head"), "[1, 1]");
}
