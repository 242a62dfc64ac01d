//! ResNet (He et al., arXiv 1512.03385) in the version that torchvision and NVIDIA call v1.5: the stride of a bottleneck
//! stands in its 3x3 convolution. Convolutions begin as N(0, sqrt(2 / fan out)), the last layer as N(0, 0.01) (Goyal et
//! al., arXiv 1706.02677, section 5.1).

use crate::entry::Entry;
use crate::graph::{Graph, linear};
use crate::layer::{BatchNorm, Conv2d, CrossEntropy, Layer, Pool, Split};
use crate::models::most;
use crate::settings::{ModelSettings, Setting};
use crate::specification::{Block, Family, Input, Model, Value};

const EPSILON: f64 = 1e-5;
/// Outputs of a bottleneck over its inner channels.
const EXPANSION: usize = 4;

const fn settings(blocks: [u32; 4]) -> [Setting; 7] {
    [
        Setting::count("image", most::IMAGE, 224, "height and width of an image in pixels"),
        Setting::count("classes", most::CLASSES, 1000, "classes of images"),
        Setting::count(
            "width",
            1 << 12,
            64,
            "channels after the first convolution; stages have 1, 2, 4, 8 times as many",
        ),
        Setting::count("stage1", most::LAYERS, blocks[0], "residual blocks of the first stage"),
        Setting::count("stage2", most::LAYERS, blocks[1], "residual blocks of the second stage"),
        Setting::count("stage3", most::LAYERS, blocks[2], "residual blocks of the third stage"),
        Setting::count("stage4", most::LAYERS, blocks[3], "residual blocks of the fourth stage"),
    ]
}

/// `resnet18`: 11,689,512 parameters.
pub(crate) static RESNET18: Entry = Entry {
    name: "resnet18",
    doc: "ResNet-18 (11.7M), two 3x3 convolutions a block",
    settings: &settings([2, 2, 2, 2]),
    build: |name, settings| Ok(build(name, settings, BlockKind::Basic)),
};

/// `resnet50`: 25,557,032 parameters.
pub(crate) static RESNET50: Entry = Entry {
    name: "resnet50",
    doc: "ResNet-50 v1.5 (25.6M), bottlenecks of 1x1, 3x3, 1x1",
    settings: &settings([3, 4, 6, 3]),
    build: |name, settings| Ok(build(name, settings, BlockKind::Bottleneck)),
};

#[derive(Clone, Copy)]
enum BlockKind {
    Basic,
    Bottleneck,
}

/// Channels and size of what flows between blocks.
#[derive(Clone, Copy)]
struct Flow {
    channels: usize,
    size: usize,
}

fn build(name: &'static str, settings: &ModelSettings, kind: BlockKind) -> Model {
    let (image, classes, width) = (settings.count("image"), settings.count("classes"), settings.count("width"));
    let (stem, mut flow) = stem(image, width);
    let mut blocks = vec![stem];
    for (stage, setting) in ["stage1", "stage2", "stage3", "stage4"].into_iter().enumerate() {
        for index in 0..settings.count(setting) {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let name = format!("layer{}.{index}", stage + 1);
            let (block, out) = residual(name, kind, flow, width << stage, stride);
            blocks.push(block);
            flow = out;
        }
    }
    blocks.push(head(flow, classes));
    Model {
        name: name.to_owned(),
        family: Family::Other,
        input: Input::Image { height: image, width: image, channels: 3, classes },
        blocks,
    }
}

/// A convolution with the batch norm after it.
struct ConvolutionStep {
    /// Part of the names ("1" in `conv1`, `bn1`).
    name: &'static str,
    outputs: usize,
    kernel: usize,
    stride: usize,
    relu: bool,
}

/// Adds the step; padding keeps the size at stride 1.
fn convolve(graph: &mut Graph, from: (Value, Flow), step: &ConvolutionStep, residual: Option<Value>) -> (Value, Flow) {
    let (input, flow) = from;
    let shape = Conv2d {
        inputs: flow.channels,
        outputs: step.outputs,
        kernel: step.kernel,
        stride: step.stride,
        padding: step.kernel / 2,
        height: flow.size,
        width: flow.size,
    };
    let size = shape.output().0;
    let x = graph.node(&format!("conv{}", step.name), Layer::Conv2d(shape), &[input]);
    let norm = BatchNorm { channels: step.outputs, pixels: size * size, epsilon: EPSILON, relu: step.relu };
    let inputs: Vec<Value> = std::iter::once(x).chain(residual).collect();
    let y = graph.node(&format!("bn{}", step.name), Layer::BatchNorm(norm), &inputs);
    (y, Flow { channels: step.outputs, size })
}

fn stem(image: usize, width: usize) -> (Block, Flow) {
    let mut graph = Graph::new("stem");
    let step = ConvolutionStep { name: "1", outputs: width, kernel: 7, stride: 2, relu: true };
    let (x, flow) = convolve(&mut graph, (Value::Input, Flow { channels: 3, size: image }), &step, None);
    let pool = Pool { channels: width, kernel: 3, stride: 2, padding: 1, height: flow.size, width: flow.size };
    let size = pool.output().0;
    graph.node("maxpool", Layer::MaxPool(pool), &[x]);
    (graph.finish(), Flow { channels: width, size })
}

fn residual(name: String, kind: BlockKind, flow: Flow, inner: usize, stride: usize) -> (Block, Flow) {
    let outputs = match kind {
        BlockKind::Basic => inner,
        BlockKind::Bottleneck => inner * EXPANSION,
    };
    let steps = match kind {
        BlockKind::Basic => vec![
            ConvolutionStep { name: "1", outputs: inner, kernel: 3, stride, relu: true },
            ConvolutionStep { name: "2", outputs, kernel: 3, stride: 1, relu: true },
        ],
        BlockKind::Bottleneck => vec![
            ConvolutionStep { name: "1", outputs: inner, kernel: 1, stride: 1, relu: true },
            ConvolutionStep { name: "2", outputs: inner, kernel: 3, stride, relu: true },
            ConvolutionStep { name: "3", outputs, kernel: 1, stride: 1, relu: true },
        ],
    };
    let mut graph = Graph::new(name);
    let mut shortcut = Value::Input;
    if stride != 1 || flow.channels != outputs {
        let step = ConvolutionStep { name: "_shortcut", outputs, kernel: 1, stride, relu: false };
        shortcut = convolve(&mut graph, (Value::Input, flow), &step, None).0;
    }
    let mut main = (Value::Input, flow);
    let last = steps.len() - 1;
    for (place, step) in steps.iter().enumerate() {
        main = convolve(&mut graph, main, step, (place == last).then_some(shortcut));
    }
    (graph.finish(), main.1)
}

fn head(flow: Flow, classes: usize) -> Block {
    let pool =
        Pool { channels: flow.channels, kernel: flow.size, stride: 1, padding: 0, height: flow.size, width: flow.size };
    let mut graph = Graph::new("head");
    let x = graph.node("avgpool", Layer::AveragePool(pool), &[Value::Input]);
    let logits = graph.node("fc", linear(flow.channels, classes, true, Split::Whole, 0.01), &[x]);
    graph.node("loss", Layer::CrossEntropy(CrossEntropy { classes }), &[logits]);
    graph.finish()
}
