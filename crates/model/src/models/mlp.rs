//! A multilayer perceptron with ReLU, without shortcuts: the plainest model that every strategy can cut. Each block is a
//! pair of linear layers, so that tensor parallelism cuts the first by columns and the second by rows. Weights begin as
//! N(0, sqrt(2 / inputs)) (He et al., arXiv 1502.01852).

use crate::entry::Entry;
use crate::graph::{Graph, linear};
use crate::layer::{CrossEntropy, Layer, Split};
use crate::models::most;
use crate::settings::{ModelSettings, Setting};
use crate::specification::{Block, Family, Input, Model, Value};

/// `mlp`.
pub(crate) static MLP: Entry = Entry {
    name: "mlp",
    doc: "multilayer perceptron with ReLU (17.6M)",
    settings: &[
        Setting::count("layers", most::LAYERS, 2, "pairs of linear layers between the first and the last one"),
        Setting::count("width", most::WIDTH, 1024, "features between pairs"),
        Setting::multiple("ffn", most::FFN, 4, "width", "features inside of a pair"),
        Setting::count("features", most::FEATURES, 784, "numbers of a sample"),
        Setting::count("classes", most::CLASSES, 10, "classes of samples"),
    ],
    build: |name, settings| Ok(build(name, settings)),
};

fn build(name: &'static str, settings: &ModelSettings) -> Model {
    let (layers, width, ffn) = (settings.count("layers"), settings.count("width"), settings.count("ffn"));
    let (features, classes) = (settings.count("features"), settings.count("classes"));
    let mut graph = Graph::new("input");
    let x = graph.node("fc", rectified(features, width, Split::Whole), &[Value::Input]);
    graph.node("relu", Layer::Relu, &[x]);
    let mut blocks = vec![graph.finish()];
    for index in 0..layers {
        blocks.push(pair(index, width, ffn));
    }
    let mut graph = Graph::new("head");
    let logits = graph.node("fc", linear(width, classes, true, Split::Column, 0.01), &[Value::Input]);
    graph.node("loss", Layer::CrossEntropy(CrossEntropy { classes }), &[logits]);
    blocks.push(graph.finish());
    Model { name: name.to_owned(), family: Family::Other, input: Input::Vector { features, classes }, blocks }
}

/// A linear layer that ReLU follows.
fn rectified(inputs: usize, outputs: usize, split: Split) -> Layer {
    linear(inputs, outputs, true, split, (2.0 / inputs as f64).sqrt())
}

fn pair(index: usize, width: usize, ffn: usize) -> Block {
    let mut graph = Graph::new(format!("layers.{index}"));
    let x = graph.node("up", rectified(width, ffn, Split::Column), &[Value::Input]);
    let x = graph.node("up_relu", Layer::Relu, &[x]);
    let x = graph.node("down", rectified(ffn, width, Split::Row), &[x]);
    graph.node("down_relu", Layer::Relu, &[x]);
    graph.finish()
}
