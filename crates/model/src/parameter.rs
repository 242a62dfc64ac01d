//! Parameters: names, shapes, initial values, and the slice of each that one part of a tensor group holds.

use crate::layer::{Layer, Linear, Split};
use crate::specification::Node;

/// How a parameter is initialised. Values depend only on seed, name and index, so they are the same however it is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Normally distributed, with this standard deviation.
    Normal(f64),
    /// Every number has this value.
    Constant(f64),
}

/// How tensor parallelism cuts a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shard {
    /// Every part holds all of it.
    Whole,
    /// The first dimension is cut, each of these runs of rows separately.
    Rows(Vec<usize>),
    /// The last dimension is cut.
    Columns,
}

/// One of `of` equal parts. If `of` does not divide the length, the first parts are longer by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which part, from 0.
    pub index: usize,
    /// Number of parts.
    pub of: usize,
}

impl Part {
    /// The only part.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// The indices in `0..len` that this part holds.
    pub fn range(self, len: usize) -> std::ops::Range<usize> {
        let (each, longer) = (len / self.of, len % self.of);
        let begin = |index: usize| index * each + index.min(longer);
        begin(self.index)..begin(self.index + 1)
    }
}

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Full name of the parameter ("h.3.attn.qkv.weight").
    pub name: String,
    /// Dimensions, the last contiguous.
    pub shape: Vec<usize>,
    /// How it is initialised.
    pub init: Init,
    /// How tensor parallelism cuts it.
    pub shard: Shard,
}

impl Parameter {
    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it holds no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Dimensions of one part.
    pub fn part_shape(&self, part: Part) -> Vec<usize> {
        let mut shape = self.shape.clone();
        match &self.shard {
            Shard::Whole => {}
            Shard::Rows(runs) => shape[0] = runs.iter().map(|run| part.range(*run).len()).sum(),
            Shard::Columns => {
                let last = shape.len() - 1;
                shape[last] = part.range(shape[last]).len();
            }
        }
        shape
    }

    /// How many numbers one part holds.
    pub fn part_len(&self, part: Part) -> usize {
        self.part_shape(part).iter().product()
    }

    /// The runs of indices that a part holds, in the part's order: `(first index in the whole parameter, length)`.
    pub fn part_runs(&self, part: Part) -> Vec<(usize, usize)> {
        match &self.shard {
            Shard::Whole => vec![(0, self.len())],
            Shard::Rows(runs) => {
                let columns: usize = self.shape[1..].iter().product();
                let mut first = 0;
                let mut held = Vec::with_capacity(runs.len());
                for run in runs {
                    let range = part.range(*run);
                    held.push(((first + range.start) * columns, range.len() * columns));
                    first += run;
                }
                held
            }
            Shard::Columns => {
                let last = self.shape[self.shape.len() - 1];
                let range = part.range(last);
                (0..self.len() / last).map(|row| (row * last + range.start, range.len())).collect()
            }
        }
    }
}

impl Node {
    /// The parameters that this node owns, in the order in which the engine expects them (weight, then bias; tokens,
    /// positions, segments).
    pub fn parameters(&self, block: &str) -> Vec<Parameter> {
        let named = |name: &str, shape: Vec<usize>, init: Init, shard: Shard| Parameter {
            name: format!("{block}.{}.{name}", self.name),
            shape,
            init,
            shard,
        };
        match &self.layer {
            Layer::Embedding(layer) => {
                let rows = Shard::Rows(vec![layer.vocabulary]);
                let mut parameters =
                    vec![named("tokens", vec![layer.vocabulary, layer.width], Init::Normal(layer.deviation), rows)];
                let half = Init::Normal(layer.deviation / 2.0);
                for (name, count) in [("positions", layer.positions), ("segments", layer.segments)] {
                    if count > 0 {
                        parameters.push(named(name, vec![count, layer.width], half, Shard::Whole));
                    }
                }
                parameters
            }
            Layer::Linear(layer) => linear(layer, named),
            Layer::Norm(layer) => {
                let mut parameters = vec![named("weight", vec![layer.width], Init::Constant(1.0), Shard::Whole)];
                if layer.centred {
                    parameters.push(named("bias", vec![layer.width], Init::Constant(0.0), Shard::Whole));
                }
                parameters
            }
            Layer::Conv2d(layer) => {
                let fan_out = (layer.outputs * layer.kernel * layer.kernel) as f64;
                let shape = vec![layer.outputs, layer.kernel, layer.kernel, layer.inputs];
                vec![named("weight", shape, Init::Normal((2.0 / fan_out).sqrt()), Shard::Whole)]
            }
            Layer::BatchNorm(layer) => vec![
                named("weight", vec![layer.channels], Init::Constant(1.0), Shard::Whole),
                named("bias", vec![layer.channels], Init::Constant(0.0), Shard::Whole),
            ],
            _ => Vec::new(),
        }
    }
}

fn linear(layer: &Linear, named: impl Fn(&str, Vec<usize>, Init, Shard) -> Parameter) -> Vec<Parameter> {
    let (weight_shard, bias_shard) = match layer.split {
        Split::Whole => (Shard::Whole, Shard::Whole),
        Split::Column => (Shard::Rows(layer.outputs.clone()), Shard::Rows(layer.outputs.clone())),
        Split::Row => (Shard::Columns, Shard::Whole),
    };
    let mut parameters = Vec::new();
    if layer.tied.is_none() {
        let shape = vec![layer.width(), layer.inputs];
        parameters.push(named("weight", shape, Init::Normal(layer.deviation), weight_shard));
    }
    if layer.bias {
        parameters.push(named("bias", vec![layer.width()], Init::Constant(0.0), bias_shard));
    }
    parameters
}
