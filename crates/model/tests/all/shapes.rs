//! Shape inference over random settings, and graphs that it must refuse.

use model::{Layer, Model, Node, Part, Pool, Value};
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

/// A small ResNet-18 after `change` of a node; why it is unsound.
fn unsound_resnet(block: &str, node: &str, change: impl FnOnce(&mut Node)) -> String {
    let mut model = with("resnet18", &[("image", 32.0), ("width", 4.0), ("classes", 10.0)]);
    let block = model.blocks.iter_mut().find(|held| held.name == block).unwrap();
    change(block.nodes.iter_mut().find(|held| held.name == node).unwrap());
    model.shapes().unwrap_err().to_string()
}

#[test]
fn unsound_images_are_found() {
    // The block's input has other channels and pixels than its output.
    let residual = |node: &mut Node| node.inputs[1] = Value::Input;
    assert_eq!(unsound_resnet("layer2.0", "bn2", residual), "layer2.0.bn2: adds [64, 4] to [16, 8]");
    let pixels = |node: &mut Node| {
        let Layer::BatchNorm(norm) = &mut node.layer else { panic!() };
        norm.pixels = 15;
    };
    assert_eq!(unsound_resnet("layer2.0", "bn1", pixels), "layer2.0.bn1: takes [15, 8], is given [16, 8]");
    let channels = |node: &mut Node| {
        let Layer::Conv2d(conv) = &mut node.layer else { panic!() };
        conv.inputs = 5;
    };
    assert_eq!(unsound_resnet("layer1.0", "conv1", channels), "layer1.0.conv1: takes [64, 5], is given [64, 4]");
    let classes = |node: &mut Node| {
        let Layer::Linear(fc) = &mut node.layer else { panic!() };
        fc.outputs = vec![11];
    };
    assert_eq!(unsound_resnet("head", "fc", classes), "head.loss: takes 10 columns, is given [1, 11]");
    let both = |node: &mut Node| node.layer = Layer::CrossEntropy(model::CrossEntropy { classes: 11 });
    assert_eq!(unsound_resnet("head", "loss", both), "head.loss: has 11 classes of 10");
    // Without the pool, the loss would have a row for each pixel.
    let pool = |node: &mut Node| node.layer = Layer::Relu;
    let mut model = with("resnet18", &[("image", 64.0), ("width", 4.0)]);
    pool(&mut model.blocks.last_mut().unwrap().nodes[0]);
    assert_eq!(model.shapes().unwrap_err().to_string(), "head.loss: has 4 rows for 1 targets");
}

#[test]
fn sums_have_equal_rows_too() {
    let mut model = with("resnet18", &[("image", 32.0), ("width", 4.0)]);
    let block = model.blocks.iter_mut().find(|held| held.name == "layer2.1").unwrap();
    let pool = Pool { channels: 8, kernel: 2, stride: 2, padding: 0, height: 4, width: 4 };
    block.nodes = vec![
        Node { name: "pool".to_owned(), layer: Layer::MaxPool(pool), inputs: vec![Value::Input] },
        Node { name: "add".to_owned(), layer: Layer::Add, inputs: vec![Value::Node(0), Value::Input] },
    ];
    assert_eq!(model.shapes().unwrap_err().to_string(), "layer2.1.add: adds [4, 8] and [16, 8]");
}

#[test]
fn tables_have_the_vocabulary_and_tied_weights_their_shape() {
    let lookup = |model: &mut Model| {
        let Layer::Embedding(lookup) = &mut model.blocks[0].nodes[0].layer else { panic!() };
        lookup.vocabulary = 12;
    };
    assert_eq!(unsound(lookup), "embedding.lookup: has 12 tokens of 11");
    let output = |model: &mut Model| {
        let Layer::Linear(output) = &mut model.blocks[2].nodes[1].layer else { panic!() };
        output.outputs = vec![12];
    };
    assert_eq!(unsound(output), "head.output: is tied to embedding.lookup.tokens [11, 8], takes [12, 8]");
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
