//! The whole catalog: every model is sound, and its graph is what its family promises.

use std::collections::BTreeSet;

use model::{CATALOG, Fallback, Init, Layer, Model, Split, Value, model};

use crate::counts::with;

#[test]
fn every_model_is_sound_and_named_once() {
    let mut names = BTreeSet::new();
    for entry in CATALOG {
        assert!(names.insert(terms::normalize(entry.name)), "{} stands twice", entry.name);
        let model = entry.model(&[]).unwrap();
        assert_eq!(model.name, entry.name);
        model.shapes().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        assert!(!entry.doc.is_empty());
    }
}

#[test]
fn settings_follow_only_from_those_before_them() {
    for entry in CATALOG {
        let mut before = BTreeSet::new();
        for setting in entry.settings {
            if let Fallback::Times(_, of) = setting.fallback {
                assert!(before.contains(of), "{}: {} follows from {of}", entry.name, setting.name);
            }
            assert!(before.insert(setting.name), "{}: {} stands twice", entry.name, setting.name);
            assert_eq!(terms::normalize(setting.name), setting.name, "{}", entry.name);
        }
    }
}

#[test]
fn hyphens_and_underscores_are_the_same() {
    assert_eq!(model("bert_base", &[]), model("bert-base", &[]));
    assert_eq!(with("llama-tiny", &[("kv-heads", 2.0)]), with("llama-tiny", &[("kv_heads", 2.0)]));
}

fn node<'a>(model: &'a Model, block: &str, name: &str) -> &'a model::Node {
    let block = model.blocks.iter().find(|held| held.name == block).unwrap();
    block.nodes.iter().find(|node| node.name == name).unwrap()
}

#[test]
fn gpt2_begins_as_published() {
    let model = with("gpt2", &[]);
    let parameters = model.parameters();
    let deviation = |name: &str| parameters.iter().find(|held| held.name == name).unwrap().init;
    assert_eq!(deviation("h.3.attn.qkv.weight"), Init::Normal(0.02));
    assert_eq!(deviation("h.3.mlp.fc.weight"), Init::Normal(0.02));
    assert_eq!(deviation("h.3.attn.proj.weight"), Init::Normal(0.02 / 24f64.sqrt()));
    assert_eq!(deviation("h.3.mlp.proj.weight"), Init::Normal(0.02 / 24f64.sqrt()));
    assert_eq!(deviation("h.3.mlp.proj.bias"), Init::Constant(0.0));
    assert_eq!(deviation("embedding.lookup.tokens"), Init::Normal(0.02));
    assert_eq!(model.blocks.len(), 14);
}

#[test]
fn dropout_stands_on_embeddings_and_before_each_addition() {
    for name in ["gpt2", "llama-tiny", "bert-base"] {
        let without = with(name, &[("layers", 2.0)]);
        let model = with(name, &[("layers", 2.0), ("dropout", 0.1)]);
        model.shapes().unwrap();
        assert_eq!(model.parameters(), without.parameters());
        let mut dropouts = 0;
        for block in &model.blocks {
            for (place, node) in block.nodes.iter().enumerate() {
                if let Layer::Dropout { rate } = node.layer {
                    assert_eq!(rate, 0.1);
                    dropouts += 1;
                } else if matches!(node.layer, Layer::Add) {
                    assert_eq!(node.inputs[1], Value::Node(place - 1), "{name}");
                    assert!(matches!(block.nodes[place - 1].layer, Layer::Dropout { .. }), "{name}");
                }
            }
        }
        assert_eq!(dropouts, 1 + 2 * 2, "{name}");
        let count = |model: &Model| model.blocks.iter().map(|block| block.nodes.len()).sum::<usize>();
        assert_eq!(count(&without), count(&model) - dropouts, "{name}");
    }
}

#[test]
fn tensor_splits_pair_columns_with_rows() {
    for name in ["gpt2", "llama-tiny", "bert-base", "mlp"] {
        for block in &with(name, &[]).blocks {
            // What the block's features are cut by so far: a row split must find them cut, all else whole.
            let mut cut = false;
            for node in &block.nodes {
                match &node.layer {
                    Layer::Linear(layer) => {
                        assert_eq!(cut, layer.split == Split::Row, "{name} {} {}", block.name, node.name);
                        cut = layer.split == Split::Column;
                    }
                    Layer::Norm(_) | Layer::Add => assert!(!cut, "{name} {} {}", block.name, node.name),
                    _ => {}
                }
            }
            assert_eq!(cut, block.name == "head", "{name} {}: only logits stay cut", block.name);
        }
    }
}

#[test]
fn resnet50_strides_in_its_3x3_convolutions() {
    let model = with("resnet50", &[]);
    for (name, stride) in [("conv1", 1), ("conv2", 2), ("conv3", 1), ("conv_shortcut", 2)] {
        let Layer::Conv2d(conv) = &node(&model, "layer2.0", name).layer else { panic!() };
        assert_eq!(conv.stride, stride, "{name}");
    }
    let last = node(&model, "layer2.0", "bn3");
    assert_eq!(last.inputs.len(), 2);
    assert!(matches!(&last.layer, Layer::BatchNorm(norm) if norm.relu));
    let identity = node(&model, "layer2.1", "bn3");
    assert_eq!(identity.inputs[1], Value::Input);
    assert_eq!(model.blocks.len(), 1 + 3 + 4 + 6 + 3 + 1);
}
