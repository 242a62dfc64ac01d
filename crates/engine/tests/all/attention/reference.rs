//! Attention and its gradients by plain loops in f64, each number with a bound of how far a kernel may be off.
//!
//! With u the rounding to 16 bits and w that of sums: a score is off by its products and sums, in w; a probability relatively by as much,
//! and by u where it is rounded before it is multiplied; a result is rounded once more. Gradients of scores have in addition the error of
//! `delta`, which the rounded output enters. All of that is summed beside each result, and 5 % are for products of two errors.

use engine::cuda::AttentionKernel;
use engine::op::Attention;
use terms::Dtype;

/// Half of the distance of neighbours: relatively, and below the least normal number.
#[derive(Clone, Copy)]
struct Precision {
    relative: f64,
    least: f64,
}

/// What is rounded to what.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    /// Sums, exponentials: 2 units each at most.
    sums: f64,
    /// Probabilities and gradients of scores, as they are multiplied.
    weights: Precision,
    results: Precision,
}

impl Rounding {
    pub(super) fn of(dtype: Dtype, kernel: AttentionKernel) -> Self {
        let bits = |bits: i32, least: i32| Precision { relative: 2f64.powi(-bits), least: 2f64.powi(-least) };
        let (sums, results) = match dtype {
            Dtype::F64 => (2f64.powi(-52), bits(53, 1074)),
            Dtype::F32 => (2f64.powi(-23), bits(24, 150)),
            Dtype::Bf16 => (2f64.powi(-23), bits(8, 134)),
            _ => (2f64.powi(-23), bits(11, 25)),
        };
        let weights = match kernel {
            AttentionKernel::TensorCores => results,
            AttentionKernel::Plain => Precision { relative: 0.0, least: 0.0 },
        };
        Self { sums, weights, results }
    }
}

/// Numbers and their bounds.
pub(super) struct Bounded {
    values: Vec<f64>,
    bounds: Vec<f64>,
}

impl Bounded {
    fn new(len: usize) -> Self {
        Self { values: vec![0.0; len], bounds: vec![0.0; len] }
    }

    fn add(&mut self, at: usize, value: f64, bound: f64) {
        self.values[at] += value;
        self.bounds[at] += bound;
    }

    /// Results are rounded once.
    fn round(mut self, results: Precision) -> Self {
        for (bound, value) in self.bounds.iter_mut().zip(&self.values) {
            *bound = 1.05 * (*bound + results.relative * value.abs() + results.least);
        }
        self
    }

    pub(super) fn check(&self, found: &[f64], what: &str) {
        assert_eq!(found.len(), self.values.len());
        for (at, (found, (value, bound))) in found.iter().zip(self.values.iter().zip(&self.bounds)).enumerate() {
            let off = (found - value).abs();
            assert!(off <= *bound, "{at}: {found}, not {value}: off by {off}, more than {bound}: {what}");
        }
    }
}

/// What a pass forward and a pass backward give.
pub(super) struct Wanted {
    pub(super) output: Bounded,
    pub(super) log_sum: Bounded,
    pub(super) d_qkv: Bounded,
}

/// Everything of one query and one key that it sees.
struct Pair {
    query: usize,
    key: usize,
    score: f64,
    /// How far the score may be off.
    off: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn dot_of_sizes(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum()
}

/// Numbers of one head: where its rows lie in a matrix.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    stride: usize,
    width: usize,
}

impl Place {
    fn at(self, row: usize) -> usize {
        self.first + row * self.stride
    }

    fn row(self, of: &[f64], row: usize) -> &[f64] {
        &of[self.at(row)..][..self.width]
    }
}

/// The places of one query head and what it reads.
struct Head {
    query: Place,
    key: Place,
    value: Place,
    output: Place,
    /// Place of the sums' logarithms.
    logs: usize,
}

fn head_of(op: &Attention, sample: usize, head: usize) -> Head {
    let Attention { sequence, heads, kv_heads, head_width: width, .. } = *op;
    let place =
        |index: usize, of: usize| Place { first: (sample * sequence * of + index) * width, stride: of * width, width };
    let (packed, kv) = (heads + 2 * kv_heads, heads + head / (heads / kv_heads));
    Head {
        query: place(head, packed),
        key: place(kv, packed),
        value: place(kv + kv_heads, packed),
        output: place(head, heads),
        logs: (sample * heads + head) * sequence,
    }
}

impl Wanted {
    pub(super) fn new(op: &Attention, qkv: &[f64], d_output: &[f64], rounding: Rounding) -> Self {
        let rows = op.batch * op.sequence * op.heads;
        let mut wanted = Self {
            output: Bounded::new(rows * op.head_width),
            log_sum: Bounded::new(rows),
            d_qkv: Bounded::new(qkv.len()),
        };
        for (sample, head) in (0..op.batch).flat_map(|sample| (0..op.heads).map(move |head| (sample, head))) {
            let head = head_of(op, sample, head);
            for query in 0..op.sequence {
                let pairs = wanted.forward(op, &head, query, qkv, rounding);
                wanted.backward(op, &head, &pairs, qkv, d_output, rounding);
            }
        }
        let Self { output, log_sum, d_qkv } = wanted;
        let state = Precision { relative: rounding.sums, least: 0.0 };
        Self {
            output: output.round(rounding.results),
            log_sum: log_sum.round(state),
            d_qkv: d_qkv.round(rounding.results),
        }
    }

    /// One row of the output. Its pairs, with probabilities in place of scores.
    fn forward(&mut self, op: &Attention, head: &Head, query: usize, qkv: &[f64], rounding: Rounding) -> Vec<Pair> {
        let (w, width) = (rounding.sums, op.head_width as f64);
        let scale = 1.0 / width.sqrt();
        let keys = if op.causal { query + 1 } else { op.sequence };
        let q = head.query.row(qkv, query);
        let mut pairs: Vec<Pair> = (0..keys)
            .map(|key| {
                let k = head.key.row(qkv, key);
                let score = scale * dot(q, k);
                Pair {
                    query,
                    key,
                    score,
                    off: w * ((width + 4.0) * scale * dot_of_sizes(q, k) + 4.0 * score.abs() + 8.0),
                }
            })
            .collect();
        let largest = pairs.iter().fold(f64::NEG_INFINITY, |most, pair| most.max(pair.score));
        let sum: f64 = pairs.iter().map(|pair| (pair.score - largest).exp()).sum();
        let log_sum = largest + sum.ln();
        let off =
            pairs.iter().fold(0.0f64, |most, pair| most.max(pair.off)) + w * (keys as f64 + 8.0 + 4.0 * log_sum.abs());
        self.log_sum.add(head.logs + query, log_sum, off);
        for pair in &mut pairs {
            pair.score = (pair.score - log_sum).exp();
            pair.off += off;
            let v = head.value.row(qkv, pair.key);
            for (feature, v) in v.iter().enumerate() {
                let bound = (pair.off + rounding.weights.relative) * pair.score + rounding.weights.least;
                self.output.add(head.output.at(query) + feature, pair.score * v, bound * v.abs());
            }
        }
        pairs
    }

    /// What one row adds to the gradients.
    fn backward(
        &mut self,
        op: &Attention,
        head: &Head,
        pairs: &[Pair],
        qkv: &[f64],
        d_output: &[f64],
        rounding: Rounding,
    ) {
        let Rounding { sums: w, weights, results } = rounding;
        let width = op.head_width as f64;
        let (scale, query) = (1.0 / width.sqrt(), pairs[0].query);
        // Sums over rows or columns, of all heads that read a key.
        let terms = w * (op.sequence * op.heads / op.kv_heads + 8) as f64;
        let (d, place) = (head.output.row(d_output, query), head.output.at(query));
        let output = &self.output.values[place..][..op.head_width];
        let delta = dot(d, output);
        let delta_off = d.iter().zip(output).zip(&self.output.bounds[place..]).map(|((d, o), off)| {
            d.abs() * (off + results.relative * o.abs() + results.least + (width + 2.0) * w * o.abs())
        });
        let delta_off: f64 = delta_off.sum();
        for pair in pairs {
            let (q, k, v) = (head.query.row(qkv, query), head.key.row(qkv, pair.key), head.value.row(qkv, pair.key));
            let (p, d_p) = (pair.score, dot(d, v));
            let d_p_off = (width + 2.0) * w * dot_of_sizes(d, v) + w * (d_p.abs() + delta.abs());
            let d_score = p * (d_p - delta);
            let off = (pair.off + weights.relative + terms) * d_score.abs() + p * (d_p_off + delta_off) + weights.least;
            let p_off = (pair.off + weights.relative + terms) * p + weights.least;
            for feature in 0..op.head_width {
                let [q, k, d] = [q[feature], k[feature], d[feature]];
                let mut add = |place: Place, row, value, bound| self.d_qkv.add(place.at(row) + feature, value, bound);
                add(head.query, query, scale * d_score * k, scale * off * k.abs());
                add(head.key, pair.key, scale * d_score * q, scale * off * q.abs());
                add(head.value, pair.key, p * d, p_off * d.abs());
            }
        }
    }
}
