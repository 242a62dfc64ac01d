//! Forward and backward passes with random inputs, as data that every property is checked on.

use engine::op::{Norm, Rows};
use engine::{Op, View};
use terms::Dtype;

use super::{Lab, noise};

/// A differentiable piece: `y` of some inputs, and from `dy` their gradients.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) lab: Lab,
    pub(crate) forward: Vec<Op>,
    pub(crate) backward: Vec<Op>,
    pub(crate) y: View,
    /// Holds random weights, the gradient of `sum dy y`.
    pub(crate) dy: View,
    /// Every input with its gradient.
    pub(crate) inputs: Vec<(View, View)>,
    /// Size of what cancels in results, where that is more than the results' own.
    pub(crate) terms: f64,
}

impl Case {
    pub(crate) fn run_forward(&mut self) {
        self.forward.iter().for_each(|op| self.lab.run(op.clone()));
    }

    /// Runs both passes; gives y and then the gradients.
    pub(crate) fn run(&mut self) -> Vec<Vec<f64>> {
        self.run_forward();
        self.backward.iter().for_each(|op| self.lab.run(op.clone()));
        let gradients = self.inputs.iter().map(|(_, gradient)| *gradient);
        std::iter::once(self.y).chain(gradients).map(|view| self.lab.get(view)).collect()
    }
}

/// All cases for one element type.
pub(crate) fn all(element: Dtype) -> Vec<Case> {
    let mut cases = Vec::new();
    for (rows, columns) in [(1, 1), (3, 17), (5, 100), (2, 768), (1, 3), (60, 900)] {
        cases.extend([norm(element, rows, columns, true), norm(element, rows, columns, false)]);
    }
    for count in [1, 3, 128, 129, 1000, 40_000] {
        cases.extend([false, true].map(|exact| gelu(element, count, exact)));
        cases.push(relu(element, count));
    }
    for (rows, width) in [(1, 1), (3, 17), (2, 100), (30, 768)] {
        cases.extend([swiglu(element, rows, width), dropout(element, rows, width)]);
    }
    for (heads, kv_heads, head_width) in [(1, 1, 2), (3, 1, 6), (4, 2, 64)] {
        cases.push(rotary(element, heads, kv_heads, head_width));
    }
    for (rows, width) in [(1, 1), (7, 17), (12, 100), (60, 768)] {
        cases.push(embedding(element, rows, width));
    }
    for (rows, classes) in [(1, 1), (1, 2), (3, 17), (5, 100), (4, 5000), (40, 1000)] {
        cases.push(cross_entropy(element, rows, classes));
    }
    cases
}

fn spread(seed: u64, count: usize, size: f64) -> Vec<f64> {
    noise(seed, count).into_iter().map(|x| x * size).collect()
}

fn norm(element: Dtype, rows: usize, columns: usize, centred: bool) -> Case {
    let mut lab = Lab::new(element);
    let state = lab.state();
    // Off zero, so that a mean that is not taken away shows.
    let x = lab.put(element, spread(1, rows * columns, 2.0).into_iter().map(|x| x + 0.5).collect());
    let gain = lab.put(element, spread(2, columns, 1.5));
    let bias = centred.then(|| lab.put(element, spread(3, columns, 1.0)));
    let statistics = lab.put(state, vec![f64::NAN; 2 * rows]);
    let y = lab.put(element, vec![f64::NAN; rows * columns]);
    let dy = lab.put(element, noise(4, rows * columns));
    let dx = lab.put(element, vec![f64::NAN; rows * columns]);
    let d_gain = lab.put(state, vec![f64::NAN; columns]);
    let d_bias = centred.then(|| lab.put(state, vec![f64::NAN; columns]));
    let norm = Norm { x, gain, bias, statistics, rows, columns, epsilon: 1e-2 };
    let forward = Rows::NormForward { norm: norm.clone(), y };
    let backward = Rows::NormBackward { norm, dy, dx, accumulate: false, d_gain, d_bias, accumulate_parameters: false };
    let mut inputs = vec![(x, dx), (gain, d_gain)];
    inputs.extend(bias.zip(d_bias));
    let name = if centred { "layer norm" } else { "RMS norm" };
    // With so few columns the variance may vanish: then dy gain / sqrt(epsilon), at most 15, cancels.
    let terms = if columns < 8 { 15.0 } else { 0.0 };
    Case { name, lab, forward: vec![forward.into()], backward: vec![backward.into()], y, dy, inputs, terms }
}

/// A case with one input and output of equal length.
fn plain(
    element: Dtype,
    name: &'static str,
    x: Vec<f64>,
    outputs: usize,
    ops: impl Fn([View; 4]) -> [Vec<Op>; 2],
) -> Case {
    let mut lab = Lab::new(element);
    let inputs = x.len();
    let x = lab.put(element, x);
    let y = lab.put(element, vec![f64::NAN; outputs]);
    let dy = lab.put(element, noise(5, outputs));
    let dx = lab.put(element, vec![f64::NAN; inputs]);
    let [forward, backward] = ops([x, y, dy, dx]);
    Case { name, lab, forward, backward, y, dy, inputs: vec![(x, dx)], terms: 0.0 }
}

fn gelu(element: Dtype, count: usize, exact: bool) -> Case {
    let name = if exact { "GELU by erf" } else { "GELU by tanh" };
    plain(element, name, spread(6, count, 4.0), count, |[x, y, dy, dx]| {
        [vec![Rows::GeluForward { x, y, exact }.into()], vec![Rows::GeluBackward { x, dy, dx, exact }.into()]]
    })
}

fn relu(element: Dtype, count: usize) -> Case {
    // Away from the kink, over which no difference may be taken.
    let x = spread(7, count, 1.0).into_iter().map(|x| x + 0.25f64.copysign(x)).collect();
    plain(element, "ReLU", x, count, |[x, y, dy, dx]| {
        [vec![Rows::ReluForward { x, y }.into()], vec![Rows::ReluBackward { y, dy, dx }.into()]]
    })
}

fn swiglu(element: Dtype, rows: usize, width: usize) -> Case {
    plain(element, "SwiGLU", spread(8, rows * 2 * width, 3.0), rows * width, |[x, y, dy, dx]| {
        [vec![Rows::SwiGluForward { x, y, width }.into()], vec![Rows::SwiGluBackward { x, dy, dx, width }.into()]]
    })
}

fn dropout(element: Dtype, rows: usize, columns: usize) -> Case {
    let op = |x, y| Rows::Dropout { x, y, columns, first_row: 5, node: 2, rate: 0.3 }.into();
    plain(element, "dropout", spread(9, rows * columns, 1.0), rows * columns, |[x, y, dy, dx]| {
        [vec![op(x, y)], vec![op(dy, dx)]]
    })
}

fn rotary(element: Dtype, heads: usize, kv_heads: usize, head_width: usize) -> Case {
    let (rows, sequence) = (26, 13);
    let count = rows * (heads + 2 * kv_heads) * head_width;
    let turn = |qkv, inverse| Rows::Rotary { qkv, sequence, heads, kv_heads, head_width, base: 10_000.0, inverse };
    plain(element, "rotary", spread(10, count, 1.0), count, |[x, y, dy, dx]| {
        [
            vec![Rows::Convert { x, y }.into(), turn(y, false).into()],
            vec![Rows::Convert { x: dy, y: dx }.into(), turn(dx, true).into()],
        ]
    })
}

fn embedding(element: Dtype, rows: usize, width: usize) -> Case {
    let mut lab = Lab::new(element);
    let state = lab.state();
    let (first, count, sequence) = (4, 9, rows.div_ceil(2));
    // Some before the part, some after, some twice.
    let tokens = lab.put(Dtype::I32, (0..rows).map(|row| (row * 5 % 16) as f64).collect());
    let table = lab.put(element, noise(11, count * width));
    let positions = lab.put(element, noise(12, sequence * width));
    let segments = lab.put(element, noise(13, 2 * width));
    let y = lab.put(element, vec![f64::NAN; rows * width]);
    let dy = lab.put(element, noise(14, rows * width));
    let d_table = lab.put(state, vec![0.0; count * width]);
    let d_positions = lab.put(state, vec![0.0; sequence * width]);
    let d_segments = lab.put(state, vec![0.0; 2 * width]);
    let (p, s, dp, ds) = (Some(positions), Some(segments), Some(d_positions), Some(d_segments));
    let forward = Rows::EmbeddingForward { tokens, table, positions: p, segments: s, y, width, sequence, first };
    let backward =
        Rows::EmbeddingBackward { tokens, dy, d_table, d_positions: dp, d_segments: ds, width, sequence, first };
    let inputs = vec![(table, d_table), (positions, d_positions), (segments, d_segments)];
    Case {
        name: "embedding",
        lab,
        forward: vec![forward.into()],
        backward: vec![backward.into()],
        y,
        dy,
        inputs,
        terms: 0.0,
    }
}

fn cross_entropy(element: Dtype, rows: usize, classes: usize) -> Case {
    let mut lab = Lab::new(element);
    let x = lab.put(element, spread(15, rows * classes, 5.0));
    let target = |row: usize| if row % 4 == 3 { -1.0 } else { (row * 7 % classes) as f64 };
    let targets = lab.put(Dtype::I32, (0..rows).map(target).collect());
    let loss = lab.put(Dtype::F64, vec![0.0]);
    let control = lab.put(Dtype::F64, vec![1.0, 0.0, 0.0, 0.0]);
    let dy = lab.put(Dtype::F64, vec![1.0]);
    let logits = lab.put(element, vec![f64::NAN; rows * classes]);
    let forward = vec![
        Rows::Fill { y: loss, value: 0.0 }.into(),
        Rows::Convert { x, y: logits }.into(),
        Rows::CrossEntropy { logits, targets, loss, control, classes, scale: 1.0 / rows as f64 }.into(),
    ];
    Case {
        name: "cross-entropy",
        lab,
        forward,
        backward: Vec::new(),
        y: loss,
        dy,
        inputs: vec![(x, logits)],
        terms: 0.0,
    }
}
