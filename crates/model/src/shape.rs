//! What flows along a model's graph, and whether the graph is sound.

use std::collections::BTreeMap;

use crate::layer::{Layer, Linear};
use crate::parameter::Parameter;
use crate::specification::{Block, Input, Model, Node, Value};

/// A matrix for one sample; a batch has `batch` times the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// Tokens, pixels, or one.
    pub rows: usize,
    /// Features, channels, classes. Zero for token indices, which are not numbers.
    pub columns: usize,
}

impl MatrixShape {
    /// Numbers of a sample.
    pub fn elements(self) -> usize {
        self.rows * self.columns
    }
}

impl std::fmt::Display for MatrixShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}, {}]", self.rows, self.columns)
    }
}

/// A graph that no engine can run: a bug in the model, never a mistake of the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Unsound {
    /// Block and node.
    pub place: String,
    /// What is wrong, with numbers.
    pub message: String,
}

impl Model {
    /// The output of each node of each block, for one sample. The loss is `[1, 1]`.
    ///
    /// # Errors
    /// When a layer's dimensions are not those of its input, an input is missing or stands later, two parameters have
    /// one name, a tied weight has no owner of its shape, or the loss is not the last node and the only one.
    pub fn shapes(&self) -> Result<Vec<Vec<MatrixShape>>, Unsound> {
        let owners = self.owners()?;
        let mut flow = MatrixShape { rows: self.input.rows(), columns: self.input.columns() };
        let mut all = Vec::with_capacity(self.blocks.len());
        for (index, block) in self.blocks.iter().enumerate() {
            let last = index + 1 == self.blocks.len();
            let outputs = block_shapes(block, flow, self, last, &owners)?;
            flow = *outputs.last().ok_or_else(|| unsound(&block.name, "has no nodes".to_owned()))?;
            all.push(outputs);
        }
        Ok(all)
    }

    /// Shapes of parameters by name.
    fn owners(&self) -> Result<BTreeMap<String, Vec<usize>>, Unsound> {
        let mut owners = BTreeMap::new();
        for Parameter { name, shape, .. } in self.parameters() {
            if owners.insert(name.clone(), shape).is_some() {
                return Err(unsound(&name, "names two parameters".to_owned()));
            }
        }
        Ok(owners)
    }
}

fn unsound(place: &str, message: String) -> Unsound {
    Unsound { place: place.to_owned(), message }
}

fn block_shapes(
    block: &Block,
    flow: MatrixShape,
    model: &Model,
    last_block: bool,
    owners: &BTreeMap<String, Vec<usize>>,
) -> Result<Vec<MatrixShape>, Unsound> {
    let mut outputs: Vec<MatrixShape> = Vec::with_capacity(block.nodes.len());
    for (index, node) in block.nodes.iter().enumerate() {
        let at = |message: String| unsound(&format!("{}.{}", block.name, node.name), message);
        let mut inputs = Vec::with_capacity(2);
        for input in &node.inputs {
            inputs.push(match *input {
                Value::Input => flow,
                Value::Node(from) => {
                    *outputs.get(from).ok_or_else(|| at(format!("reads node {from}, and is node {index}")))?
                }
            });
        }
        let is_last = last_block && index + 1 == block.nodes.len();
        if is_last != matches!(node.layer, Layer::CrossEntropy(_)) {
            return Err(at("the loss is the last node of a model, and the only one".to_owned()));
        }
        check_count(node).map_err(at)?;
        check_targets(node, &model.input, inputs[0]).map_err(at)?;
        if let Layer::Linear(Linear { tied: Some(owner), .. }) = &node.layer {
            check_tied(node, owners.get(owner), owner).map_err(at)?;
        }
        outputs.push(node_shape(&node.layer, &inputs).map_err(at)?);
    }
    Ok(outputs)
}

fn check_count(node: &Node) -> Result<(), String> {
    let (least, most) = match node.layer {
        Layer::Add => (2, 2),
        Layer::BatchNorm(_) => (1, 2),
        _ => (1, 1),
    };
    let count = node.inputs.len();
    if (least..=most).contains(&count) { Ok(()) } else { Err(format!("has {count} inputs, takes {least} to {most}")) }
}

/// Tokens enter embeddings and nothing else; the loss has a row for each target.
fn check_targets(node: &Node, input: &Input, x: MatrixShape) -> Result<(), String> {
    let embeds = matches!(node.layer, Layer::Embedding(_));
    let indices = x.columns == 0;
    if embeds != indices {
        return Err(format!("tokens enter embeddings and only they do; the input is {x}"));
    }
    match (&node.layer, input) {
        (Layer::Embedding(layer), Input::Tokens { vocabulary, .. }) if layer.vocabulary != *vocabulary => {
            Err(format!("has {} tokens of {vocabulary}", layer.vocabulary))
        }
        (Layer::CrossEntropy(_), input) if x.rows != input.targets() => {
            Err(format!("has {} rows for {} targets", x.rows, input.targets()))
        }
        (Layer::CrossEntropy(layer), Input::Image { classes, .. } | Input::Vector { classes, .. })
            if layer.classes != *classes =>
        {
            Err(format!("has {} classes of {classes}", layer.classes))
        }
        _ => Ok(()),
    }
}

fn check_tied(node: &Node, owner: Option<&Vec<usize>>, name: &str) -> Result<(), String> {
    let Layer::Linear(layer) = &node.layer else { return Ok(()) };
    let wanted = vec![layer.width(), layer.inputs];
    match owner {
        None => Err(format!("is tied to {name}, which does not exist")),
        Some(shape) if *shape != wanted => Err(format!("is tied to {name} {shape:?}, takes {wanted:?}")),
        Some(_) => Ok(()),
    }
}

/// The output of a layer for one sample.
fn node_shape(layer: &Layer, inputs: &[MatrixShape]) -> Result<MatrixShape, String> {
    let x = inputs[0];
    let columns = |wanted: usize| {
        if x.columns == wanted { Ok(()) } else { Err(format!("takes {wanted} columns, is given {x}")) }
    };
    let image = |height: usize, width: usize, channels: usize| {
        let wanted = MatrixShape { rows: height * width, columns: channels };
        if x == wanted { Ok(()) } else { Err(format!("takes {wanted}, is given {x}")) }
    };
    match layer {
        Layer::Embedding(layer) => {
            if layer.positions > 0 && x.rows > layer.positions {
                return Err(format!("has {} positions for {} tokens", layer.positions, x.rows));
            }
            Ok(MatrixShape { columns: layer.width, ..x })
        }
        Layer::Linear(layer) => columns(layer.inputs).map(|()| MatrixShape { columns: layer.width(), ..x }),
        Layer::Norm(layer) => columns(layer.width).map(|()| x),
        Layer::Gelu { .. } | Layer::Relu | Layer::Dropout { .. } => Ok(x),
        Layer::SwiGlu { width } => columns(2 * width).map(|()| MatrixShape { columns: *width, ..x }),
        Layer::Rotary(layer) => columns((layer.heads + 2 * layer.kv_heads) * layer.head_width).map(|()| x),
        Layer::Attention(layer) => columns((layer.heads + 2 * layer.kv_heads) * layer.head_width)
            .map(|()| MatrixShape { columns: layer.heads * layer.head_width, ..x }),
        Layer::Add if x == inputs[1] => Ok(x),
        Layer::Add => Err(format!("adds {x} and {}", inputs[1])),
        Layer::Conv2d(layer) => {
            image(layer.height, layer.width, layer.inputs)?;
            let (height, width) = layer.output();
            Ok(MatrixShape { rows: height * width, columns: layer.outputs })
        }
        Layer::BatchNorm(layer) => {
            image(layer.pixels, 1, layer.channels)?;
            match inputs.get(1) {
                Some(residual) if *residual != x => Err(format!("adds {residual} to {x}")),
                _ => Ok(x),
            }
        }
        Layer::MaxPool(layer) | Layer::AveragePool(layer) => {
            image(layer.height, layer.width, layer.channels)?;
            let (height, width) = layer.output();
            Ok(MatrixShape { rows: height * width, columns: layer.channels })
        }
        Layer::CrossEntropy(layer) => columns(layer.classes).map(|()| MatrixShape { rows: 1, columns: 1 }),
    }
}
